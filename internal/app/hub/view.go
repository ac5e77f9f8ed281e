package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	wirefleet "linerate/internal/control/fleet"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/odd"
	"linerate/internal/core/fleet/series"
	"linerate/internal/fault"
)

// View is what people see of a hub, on any machine. It is safe for concurrent use.
type View struct {
	client wirefleet.Client

	mu      sync.Mutex
	hosts   []int64 // of present
	present fleet.Present
	odd     []string
	until   time.Time // when it is asked for again
}

const (
	mostStatus = 16 // MiB, of the largest answer of a hub but for the present numbers
	// restCell is how long present numbers serve a page, for each of them: those of a thousand
	// hosts a minute.
	restCell = 60 * time.Microsecond
)

// NewView returns the view of the hub of a view link.
func NewView(l tls.Link) *View {
	return &View{client: wirefleet.Client{HTTP: tls.Web(l, tls.Identity{}, nil), Token: l.Secret}}
}

func (v *View) get(ctx context.Context, path string, into any) error {
	err := v.client.Call(ctx, path, nil, into, mostStatus)
	if errors.Is(err, wirefleet.ErrDenied) {
		return fault.WithKind(fault.Usage, err)
	}
	return fault.New(fault.Unreachable, err, "is linerate hub running there?")
}

// Operate asks the hub for an operation; the link has to be an operator's.
func (v *View) Operate(ctx context.Context, o fleet.Operation) (out fleet.Operated, err error) {
	err = v.client.Call(ctx, "/fleet/v1/operate", o, &out, 1)
	if errors.Is(err, wirefleet.ErrDenied) || errors.Is(err, wirefleet.ErrCannot) || errors.Is(err, wirefleet.ErrInvalid) {
		return out, fault.WithKind(fault.Usage, err)
	}
	return out, fault.New(fault.Unreachable, err, "is linerate hub running there?")
}

// Status returns the state of the fleet.
func (v *View) Status(ctx context.Context) (s fleet.Status, err error) {
	if err = v.get(ctx, "/fleet/v1/status", &s); err != nil {
		return s, err
	}
	hosts := numbers(&s)
	v.mu.Lock()
	defer v.mu.Unlock()
	if !slices.Equal(hosts, v.hosts) || !time.Now().Before(v.until) {
		if v.present, err = v.rows(ctx, hosts); err != nil {
			return s, err
		}
		s.Present = v.present
		v.odd = odd.Fleet(&s)
		v.hosts, v.until = hosts, time.Now().Add(time.Duration(len(hosts)*len(hosts))*restCell)
	}
	s.Present, s.Odd = v.present, v.odd
	return s, nil
}

// rows returns the present numbers between hosts.
func (v *View) rows(ctx context.Context, hosts []int64) (p fleet.Present, err error) {
	p = fleet.Present{Goodput: fleet.Matrix{}, RoundTrip: fleet.Matrix{}, Loss: fleet.Matrix{}, Looked: [][]int64{}}
	err = v.client.Read(ctx, "/fleet/v1/present", hosts, 4*mostStatus, func(d *json.Decoder) error {
		for range hosts {
			var row fleet.Present
			if err := d.Decode(&row); err != nil {
				return err
			}
			if err := p.Add(row, len(hosts)); err != nil {
				return err
			}
		}
		return nil
	})
	return p, err
}

// Path returns the history of the path between two hosts, of which low has the lower number.
func (v *View) Path(ctx context.Context, low, high int64) (h series.History, err error) {
	err = v.get(ctx, fmt.Sprintf("/fleet/v1/path?low=%d&high=%d", low, high), &h)
	return h, err
}
