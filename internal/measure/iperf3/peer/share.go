package peer

import (
	"errors"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf3"
)

// afford takes t's needs from the budget. t must have its streams open and a slot: a client
// that is only preparing costs nothing there, so that silent clients cannot exhaust it. Closing
// t.share gives everything back.
func (t *session) afford() error {
	key := t.user
	if key != "" {
		key = "iperf3 user " + key // never a key of linerate's, whatever its name
	}
	var err error
	if t.share, err = t.Budget.Open(t.from, key); err != nil {
		return t.overspent(err)
	}
	streams := len(iperf3.Streams(t.params.Direction, int(t.params.Parallel)))
	// Each TCP stream keeps two descriptors: see way.hold.
	need := budget.Amounts{Descriptors: 2 * streams, Memory: units.Bytes(streams) * units.Bytes(t.params.Length)}
	if t.params.Protocol == iperf3.UDP && t.params.Direction != iperf3.Forward {
		need.UDP = units.BitRate(t.params.BitsPerSecond) * units.BitRate(t.params.Parallel)
		if most := t.share.Limits().UDP; need.UDP == 0 && most != 0 {
			return refuse(iperf3.CodeTotalRate, "UDP as fast as it goes, at most %v", max(most, 0))
		}
	}
	if _, err = t.share.Take(need); err != nil {
		return t.overspent(err)
	}
	t.charged = time.Now()
	return nil
}

// overspent converts a refusal of the budget to iperf3's codes: a client can request less, come
// later, or has used up its time.
func (t *session) overspent(err error) error {
	code := iperf3.CodeTimeLimit
	if r, ok := errors.AsType[*budget.Refusal](err); ok {
		switch r.Kind {
		case budget.UDP, budget.Egress:
			code = iperf3.CodeTotalRate
		case budget.Descriptors:
			code = iperf3.CodeStreams
		case budget.Memory:
			code = iperf3.CodeBlockSize
		case budget.Sessions:
			return errors.Join(ErrBusy, err)
		default:
		}
	}
	return &refusal{code, err}
}

// charge charges what t has sent and the time since the last call.
func (t *session) charge() error {
	var sent float64
	for _, l := range t.ways {
		if l.role == model.Sender {
			bytes, _ := l.progress()
			sent += bytes
		}
	}
	more := max(0, units.Bytes(sent)-t.spent)
	t.spent += more
	now := time.Now()
	took := now.Sub(t.charged)
	t.charged = now
	if err := errors.Join(t.share.Spend(more), t.share.Use(took)); err != nil {
		return t.overspent(err)
	}
	if ends := t.share.Ends(); !ends.IsZero() && now.After(ends) {
		return &refusal{iperf3.CodeTimeLimit, budget.ErrOver}
	}
	return nil
}
