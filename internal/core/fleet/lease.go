package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"linerate/internal/core/diagnose"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/packets"
)

// LeaseKind says what two hosts measure.
type LeaseKind string

// The kinds of leases.
const (
	Visit   LeaseKind = "look"    // round trip, loss and goodput, each way
	Confirm LeaseKind = "confirm" // one number again, until it is sure or refuted
)

// LeaseState is what became of a lease.
type LeaseState string

// The states of leases.
const (
	Planned LeaseState = "planned"
	Done    LeaseState = "done"
	Skipped LeaseState = "skipped" // a host refused it: late, quiet, busy, another version
	Failed  LeaseState = "failed"  // something went wrong while it measured
	// Unreachable means that the near host could not connect to the far one.
	Unreachable LeaseState = "unreachable"
	Lost        LeaseState = "lost" // no result arrived
)

// Lease is the order to two hosts to measure with each other in a window, and its result.
type Lease struct {
	ID   int64     `json:"id"`
	Kind LeaseKind `json:"kind"`
	Near int64     `json:"near"` // the host that connects and reports
	Far  int64     `json:"far"`
	Span
	Uses      []Use             `json:"uses,omitempty"` // beside the hosts
	ProbeOnly bool              `json:"probe_only,omitempty"`
	State     LeaseState        `json:"state"`
	Reason    string            `json:"reason,omitempty"`
	Look      int64             `json:"look,omitempty"` // Confirm: the look that raised the suspicion
	Reported  int64             `json:"reported_s,omitempty"`
	Runs      []Run             `json:"runs,omitempty"`
	Print     fingerprint.Print `json:"print,omitempty"` // the conditions on both hosts, as an agent delivers them
	Kept      *Conditions       `json:"conditions,omitempty"`
}

// Conditions are the conditions of a look as they are stored: those of either end, which many looks
// share, by the hash of a Half, and the round trip.
type Conditions struct {
	Low  string `json:"low"`
	High string `json:"high"`
	Trip string `json:"trip,omitempty"`
}

// Half has the conditions of one end of a look, as those of a near one.
type Half struct {
	Hash  string
	Print fingerprint.Print
}

// Split returns the conditions of a look in the form in which they are stored; nil if it has none.
func (l *Lease) Split() (*Conditions, []Half) {
	if len(l.Print) == 0 {
		return nil, nil
	}
	print := l.Print
	if l.Near > l.Far {
		print = print.Turned()
	}
	low, high := Half{Print: fingerprint.Print{}}, Half{Print: fingerprint.Print{}}
	for key, text := range print {
		if part, far := strings.CutPrefix(string(key), "far."); far {
			high.Print[fingerprint.Of(model.Near, part)] = text
		} else if key != fingerprint.RoundTrip {
			low.Print[key] = text
		}
	}
	for _, h := range []*Half{&low, &high} {
		sum := sha256.New()
		for _, key := range slices.Sorted(maps.Keys(h.Print)) {
			fmt.Fprintf(sum, "%q %q\n", key, h.Print[key])
		}
		h.Hash = hex.EncodeToString(sum.Sum(nil)[:16])
	}
	return &Conditions{low.Hash, high.Hash, print[fingerprint.RoundTrip]}, []Half{low, high}
}

// Run is one run of a lease. Its direction is that of the near host; a number is nil if it was
// not measured.
type Run struct {
	Part      string          `json:"part"` // series.Probes, series.Bulk or series.Packets
	Direction model.Direction `json:"direction"`
	Goodput   *float64        `json:"goodput_bps,omitempty"`
	RoundTrip *float64        `json:"round_trip_s,omitempty"` // without load
	Loss      *float64        `json:"loss,omitempty"`         // 0…1
	Packet    *float64        `json:"packet,omitempty"`       // bytes of the largest IP packet that passes
	Marks     *float64        `json:"marks,omitempty"`        // share of ECN marks that arrive, 0…1
}

// numbers returns the numbers of r with their metrics.
func (r *Run) numbers() map[model.Metric]**float64 {
	switch r.Part {
	case series.Bulk:
		return map[model.Metric]**float64{model.Goodput: &r.Goodput}
	case series.Packets:
		return map[model.Metric]**float64{packets.Passes: &r.Packet, packets.Marks: &r.Marks}
	}
	return map[model.Metric]**float64{model.IdleP50: &r.RoundTrip, model.LossRatio: &r.Loss}
}

// RunOf returns the numbers of a run, and false if it has none. If nothing arrived, goodput is 0
// and loss 1.
func RunOf(m model.Run) (Run, bool) {
	r := Run{Part: m.Setting, Direction: m.Flow.Direction}
	any, dead := false, diagnose.Dead(m, m.Flow.Direction)
	for metric, to := range r.numbers() {
		v, ok := m.Value(r.Direction, metric)
		switch {
		case dead && metric == model.Goodput:
			v, ok = 0, true
		case dead && metric == model.LossRatio:
			v, ok = 1, true
		case m.State != model.RunValid:
			ok = false
		}
		if ok {
			*to, any = &v, true
		}
	}
	return r, any
}

// model returns r as the run of a session.
func (r Run) model() model.Run {
	m := model.Run{Setting: r.Part, State: model.RunValid, Flow: model.Flow{Direction: r.Direction}}
	for metric, v := range r.numbers() {
		if *v != nil {
			m.Values = append(m.Values, model.Value{Direction: r.Direction, Metric: metric, Value: **v})
		}
	}
	return m
}

// Way is the path between two hosts, of which Low has the lower number.
type Way struct{ Low, High int64 }

// Way returns the path of a lease.
func (l *Lease) Way() Way { return Way{min(l.Near, l.Far), max(l.Near, l.Far)} }

// Seen returns the runs as Low of the path sees them.
func (l *Lease) Seen() []model.Run {
	var all []model.Run
	for _, r := range l.Runs {
		if l.Near > l.Far {
			r.Direction = Turned(r.Direction)
		}
		all = append(all, r.model())
	}
	return all
}

// Turned returns a direction as the other end sees it.
func Turned(d model.Direction) model.Direction {
	if d == model.To {
		return model.From
	}
	return model.To
}

// Validate returns an error for a run that no host can have measured.
func (r Run) Validate() error {
	if r.Part != series.Probes && r.Part != series.Bulk && r.Part != series.Packets || r.Direction != model.To && r.Direction != model.From {
		return errors.New("a run of another kind")
	}
	for metric, v := range r.numbers() {
		if n := *v; n != nil && (!(*n >= 0) || *n > mostOf(metric)) {
			return fmt.Errorf("%s of %v", metric, *n)
		}
	}
	return nil
}

// mostOf returns a bound of a metric: 100 Tbit/s, an hour, all, an IP packet.
func mostOf(m model.Metric) float64 {
	return map[model.Metric]float64{model.Goodput: 1e14, model.IdleP50: hour, model.LossRatio: 1, packets.Passes: 65535, packets.Marks: 1}[m]
}
