package peer

import (
	"errors"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf3"
)

// afford takes from the budget what t needs, whose streams are open and which has
// a slot: who only gets ready costs nothing there, so that the silent ones cannot
// take it all. What is held comes back when t.share is closed.
func (t *session) afford() error {
	key := t.user
	if key != "" {
		key = "iperf3 user " + key // no key of linerate's, whatever it is called
	}
	var err error
	if t.share, err = t.Budget.Open(t.from, key); err != nil {
		return t.overspent(err)
	}
	streams := len(iperf3.Streams(t.params.Direction, int(t.params.Parallel)))
	// Of a TCP stream two descriptors are kept: see way.hold.
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

// overspent is a refusal of the budget in iperf3's words: a client can ask for
// less, come later, or has had its time.
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

// charge counts what t has sent and how long it took since it was counted last.
func (t *session) charge() error {
	var sent float64
	for _, l := range t.ways {
		if l.role == model.Sender {
			bytes, _ := l.told()
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
