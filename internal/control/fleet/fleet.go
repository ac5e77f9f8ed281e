// Package fleet is what a hub and its agents say to each other: JSON over HTTPS, in two calls that
// the agent makes. Both ends prove their keys inside TLS; the hub knows an agent by the pin of its
// key. A hub can order a measurement, and nothing else: there is no message for a setting, a file
// or a command. An unknown field is ignored, so that hub and agents need not have one version.
package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// Protocol is the version of these messages. A hub and an agent with different ones do not work
// together.
const Protocol = 1

// Limits of what one message holds.
const (
	maxMessage  = 1 << 20
	maxText     = 400 // bytes of a text, and of an error
	maxName     = 64
	maxAddrs    = 8
	MostResults = 32 // of one Push
	mostTickets = 256
	mostPrint   = 512
)

// Sync is what an agent says of itself. The answer comes when there is news, or after 25 s.
type Sync struct {
	Protocol int          `json:"protocol"`
	Session  int          `json:"session"` // version of the session protocol
	Version  string       `json:"version"`
	Boot     string       `json:"boot"` // random, made when the agent starts
	Name     string       `json:"name"` // that it would like to have
	Addrs    []string     `json:"addrs"`
	Port     int          `json:"port"` // where others measure with it
	Limits   fleet.Limits `json:"limits"`
	Clock    int64        `json:"clock_ns"`        // its wall clock, since 1970
	First    bool         `json:"first,omitempty"` // wants an answer at once
	Have     []int64      `json:"have,omitempty"`  // leases whose tickets it has
	Drained  int64        `json:"drained_until_s"` // as it was told last
	Waiting  int          `json:"waiting"`         // results that are not delivered yet
	Lost     int          `json:"lost,omitempty"`  // results that found no room on its disk
}

// Synced is the answer to a Sync.
type Synced struct {
	Protocol int     `json:"protocol"`
	Host     int64   `json:"host"`
	Name     string  `json:"name"`
	Now      int64   `json:"now_ns"`    // the hub's clock, since 1970
	Waited   int64   `json:"waited_ns"` // until there was news
	Orders   []Order `json:"orders,omitempty"`
	Drained  int64   `json:"drained_until_s"` // measure nothing before that time of the hub's clock
}

// Order is a lease for its near host.
type Order struct {
	Lease  fleet.Lease    `json:"lease"`
	Ticket []byte         `json:"ticket"`
	Far    string         `json:"far"` // name of the far host
	Addr   string         `json:"addr"`
	Pin    string         `json:"pin"`
	Rate   units.BitRate  `json:"max_rate,omitempty"`
	Stream *series.Stream `json:"stream,omitempty"` // Confirm: what to measure again, as the near host sees it
	// Doubt is the suspicion that the runs are to decide about.
	Doubt *series.Suspicion `json:"doubt,omitempty"`
	Runs  int               `json:"runs,omitempty"` // Confirm: at most
}

// Push delivers results: leases with State, Reason, Runs and Print. Kept returns those that are
// stored, or that need not be sent again.
type Push struct {
	Results []fleet.Lease `json:"results"`
}

// Pushed is the answer to a Push.
type Pushed struct {
	Kept []int64 `json:"kept"`
}

// Errors of a call.
var (
	// ErrDenied reports that the hub does not know the agent's key, and the token is not valid.
	ErrDenied = errors.New("the hub refuses")
	// ErrVersion reports that hub and agent have different protocols.
	ErrVersion = errors.New("the hub speaks another protocol")
	// ErrTwin reports that another host uses the same key.
	ErrTwin = errors.New("another host uses the same key")
	// ErrLater reports that the hub cannot answer now.
	ErrLater = errors.New("the hub cannot answer now")
	// ErrCannot reports an operation that is not possible now, or on no such host.
	ErrCannot = errors.New("the hub cannot do that")
	// ErrInvalid reports a message that breaks a rule.
	ErrInvalid = errors.New("invalid message")
)

// codes are the status codes of the errors.
func codes() map[int]error {
	return map[int]error{
		http.StatusForbidden: ErrDenied, http.StatusUpgradeRequired: ErrVersion, http.StatusConflict: ErrTwin,
		http.StatusServiceUnavailable: ErrLater, http.StatusBadRequest: ErrInvalid, http.StatusUnprocessableEntity: ErrCannot,
	}
}

// clean bounds a text from the other end and takes control characters out.
func clean(text *string, most int) { *text = plain.Brief(*text, most) }

// Validate bounds and cleans a Sync.
func (s *Sync) Validate() error {
	for _, one := range []*string{&s.Version, &s.Boot, &s.Name} {
		clean(one, maxName)
	}
	if s.Name == "" || s.Boot == "" || len(s.Addrs) > maxAddrs || s.Port < 1 || s.Port > 65535 || len(s.Have) > mostTickets {
		return fmt.Errorf("%w: name, boot, addresses or port", ErrInvalid)
	}
	for _, a := range s.Addrs {
		if _, err := netip.ParseAddr(a); err != nil && (a != plain.Brief(a, maxName) || strings.ContainsAny(a, " ,@/:") || !utf8.ValidString(a)) {
			return fmt.Errorf("%w: an address", ErrInvalid)
		}
	}
	if err := s.Limits.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// Validate bounds and cleans a Push.
func (p *Push) Validate() error {
	if len(p.Results) > MostResults {
		return fmt.Errorf("%w: %d results, at most %d", ErrInvalid, len(p.Results), MostResults)
	}
	for i := range p.Results {
		l := &p.Results[i]
		clean(&l.Reason, maxText)
		switch l.State {
		case fleet.Done, fleet.Skipped, fleet.Failed, fleet.Unreachable, fleet.Lost:
		default:
			return fmt.Errorf("%w: a state", ErrInvalid)
		}
		if len(l.Runs) > 4+series.MostRuns || len(l.Print) > mostPrint {
			return fmt.Errorf("%w: %d runs, %d conditions", ErrInvalid, len(l.Runs), len(l.Print))
		}
		for _, r := range l.Runs {
			if err := r.Validate(); err != nil {
				return fmt.Errorf("%w: %w", ErrInvalid, err)
			}
		}
		for k, text := range l.Print {
			if len(k) > maxName || len(text) > maxText {
				return fmt.Errorf("%w: a condition", ErrInvalid)
			}
			l.Print[k] = plain.Line(text)
		}
	}
	return nil
}

// Read reads a message of at most 1 MiB.
func Read(r io.Reader, into any) error {
	b, err := io.ReadAll(io.LimitReader(r, maxMessage+1))
	switch {
	case err != nil:
		return err
	case len(b) > maxMessage:
		return fmt.Errorf("%w: more than %d bytes", ErrInvalid, maxMessage)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// Fail answers a request with an error.
func Fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	for code, is := range codes() {
		if errors.Is(err, is) {
			status = code
		}
	}
	http.Error(w, plain.Brief(err.Error(), maxText), status)
}

// Client calls a hub. Token is for an agent that the hub does not know yet, and for people.
type Client struct {
	HTTP  *http.Client
	Token string
}

// Call posts a message, or gets a document if in is nil, and reads the answer of at most 1 MiB
// times most into out.
func (c Client) Call(ctx context.Context, path string, in, out any, most int64) error {
	return c.Read(ctx, path, in, most, func(d *json.Decoder) error { return d.Decode(out) })
}

// Read is Call for an answer of several documents, which read reads.
func (c Client) Read(ctx context.Context, path string, in any, most int64, read func(*json.Decoder) error) error {
	method, body := http.MethodGet, []byte(nil)
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://hub"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		if at, ok := errors.AsType[*url.Error](err); ok {
			err = at.Err // without the URL, whose host is any
		}
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusOK {
		return read(json.NewDecoder(io.LimitReader(res.Body, most*maxMessage)))
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxMessage))
	if err != nil {
		return err
	}
	why := strings.TrimSpace(plain.Brief(string(b), maxText))
	if is := codes()[res.StatusCode]; is != nil {
		return &Refusal{is, why}
	}
	return fmt.Errorf("the hub answers %s: %s", res.Status, why)
}

// Refusal is an error of the hub in its own words.
type Refusal struct {
	Kind error
	Text string
}

// Error returns the hub's words.
func (r *Refusal) Error() string { return r.Text }

// Unwrap returns the kind.
func (r *Refusal) Unwrap() error { return r.Kind }
