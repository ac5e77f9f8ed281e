package diagnose

import (
	"math"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

func known[T any](v T) fact.Of[T] { return fact.Known(v, "test") }

// busy is a sender that had data all the time of a window of 10 s.
func busy() model.TCPSummary {
	return model.TCPSummary{
		MSS: known(1448), SendScale: known(10), Busy: known(10 * time.Second),
		RwndLimited: known(time.Duration(0)), SndbufLimited: known(time.Duration(0)),
		RTT: known(10 * time.Millisecond), RTTMin: known(10 * time.Millisecond),
		Cwnd: known(units.Bytes(1 << 20)), PeerWindow: known(units.Bytes(4 << 20)),
		Retransmits: known(int64(0)), SegmentsOut: known(int64(100000)),
	}
}

func evidence(rate units.BitRate, change func(*Evidence)) Evidence {
	e := Evidence{
		Direction: model.To, Goodput: rate, Window: 10 * time.Second, TCP: busy(), Streams: 1,
		Ceiling: known(units.BitRate(941.48e6)), Run: &model.Run{},
		Sender: End{Host: model.Near}, Receiver: End{Host: model.Far},
	}
	change(&e)
	if e.Direction == model.From {
		e.Sender.Host, e.Receiver.Host = model.Far, model.Near
	}
	return e
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name    string
		e       Evidence
		rule    string // "" for no finding
		host    model.Host
		implied units.BitRate // 0: not checked
		mayHelp model.KnobID
	}{
		{name: "link full wins over everything", e: evidence(935e6, func(e *Evidence) {
			e.TCP.RwndLimited = known(9 * time.Second)
		}), rule: "ceiling", host: model.Near, implied: 941.48e6},
		{name: "receive window blames the receiver", e: evidence(50e6, func(e *Evidence) {
			e.TCP.RwndLimited, e.TCP.PeerWindow = known(7*time.Second), known(units.Bytes(65536))
		}), rule: "B07", host: model.Far, implied: 52.4288e6, mayHelp: "tcp.recv_buffer_max"},
		{name: "the other direction blames the other host", e: evidence(50e6, func(e *Evidence) {
			e.Direction = model.From
			e.TCP.RwndLimited, e.TCP.PeerWindow = known(7*time.Second), known(units.Bytes(65536))
		}), rule: "B07", host: model.Near},
		{name: "a share below the threshold is none", e: evidence(50e6, func(e *Evidence) {
			e.TCP.RwndLimited = known(1900 * time.Millisecond)
		})},
		{name: "window scaling off", e: evidence(50e6, func(e *Evidence) {
			e.TCP.RwndLimited, e.TCP.PeerWindow = known(7*time.Second), known(units.Bytes(65535))
			e.TCP.SendScale = fact.Unknown[int]("not negotiated")
		}), rule: "B09", host: model.Far, mayHelp: "tcp.window_scaling"},
		{name: "window scaling off at the sender, so that the receiver may not use it", e: evidence(50e6, func(e *Evidence) {
			e.TCP.RwndLimited, e.TCP.PeerWindow = known(7*time.Second), known(units.Bytes(65535))
			e.TCP.SendScale = fact.Unknown[int]("not negotiated")
			e.Sender.Facts.Knobs = map[model.KnobID]fact.Of[string]{"tcp.window_scaling": known("0")}
			e.Receiver.Facts.Knobs = map[model.KnobID]fact.Of[string]{"tcp.window_scaling": known("1")}
		}), rule: "B09", host: model.Near, mayHelp: "tcp.window_scaling"},
		{name: "the test's own buffers", e: evidence(50e6, func(e *Evidence) {
			e.TCP.RwndLimited, e.Run.Flow.Window = known(7*time.Second), 24<<10
			e.TCP.SendScale, e.TCP.PeerWindow = known(0), known(units.Bytes(24<<10))
		}), rule: "B07", host: model.Far, mayHelp: "window"},
		{name: "send buffer", e: evidence(50e6, func(e *Evidence) {
			e.TCP.SndbufLimited = known(5 * time.Second)
		}), rule: "B08", host: model.Near, mayHelp: "tcp.send_buffer_max"},
		{name: "sender idle", e: evidence(50e6, func(e *Evidence) {
			e.TCP.Busy = known(4 * time.Second)
		}), rule: "B21", host: model.Near},
		// 1448 B at 10 ms and a loss of 1e-4 allow 142 Mbit/s (diagnosis.md 2.3).
		{name: "loss", e: evidence(120e6, func(e *Evidence) {
			e.TCP.Retransmits = known(int64(10))
		}), rule: "B10", host: model.Near, implied: 141.9e6},
		{name: "loss that does not explain the rate", e: evidence(20e6, func(e *Evidence) {
			e.TCP.Retransmits = known(int64(10))
		})},
		{name: "one core full", e: evidence(500e6, func(e *Evidence) {
			e.Receiver.CPU = known(0.99)
		}), rule: "B16", host: model.Far},
		{name: "nearly full link with nothing else", e: evidence(880e6, func(*Evidence) {}), rule: "ceiling", host: model.Near},
		{name: "unknown stays unknown", e: Evidence{Direction: model.To, Goodput: 5e6, Streams: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Find(c.e)
			if c.rule == "" {
				if len(got) > 0 {
					t.Fatalf("found %+v, want nothing", got)
				}
				return
			}
			if len(got) != 1 || got[0].Rule != c.rule || got[0].Host != c.host {
				t.Fatalf("found %+v, want rule %s of host %s", got, c.rule, c.host)
			}
			if v, ok := got[0].Implied.Get(); c.implied > 0 && (!ok || math.Abs(float64(v/c.implied)-1) > 0.005) {
				t.Errorf("implied %v, want %v", v, c.implied)
			}
			if c.mayHelp != "" && (len(got[0].Knobs) == 0 || got[0].Knobs[0] != c.mayHelp) {
				t.Errorf("knobs %v, want %s", got[0].Knobs, c.mayHelp)
			}
		})
	}
}

// A window that would allow far more than was reached is not what limits.
func TestAmpleWindowIsNotBlamed(t *testing.T) {
	e := Evidence{
		Direction: model.To, Goodput: 31e9, Window: 10 * time.Second, Streams: 1,
		TCP: model.TCPSummary{
			Busy: fact.Known(10*time.Second, "t"), RwndLimited: fact.Known(4*time.Second, "t"),
			PeerWindow: fact.Known(units.Bytes(6<<20), "t"), RTT: fact.Known(8*time.Microsecond, "t"), SendScale: fact.Known(7, "t"),
		},
	}
	for _, f := range Find(e) {
		if f.Rule == "B07" {
			t.Errorf("blamed: %+v", f)
		}
	}
	e.Goodput = 4e12
	if f := Find(e); len(f) != 1 || f[0].Rule != "B07" {
		t.Errorf("a window that is used up is not named: %+v", f)
	}
}

// A path that is full says what fills: the link, or the bus that an interface
// hangs on, which names its host itself.
func TestWhatIsFull(t *testing.T) {
	e := evidence(470e6, func(e *Evidence) {
		e.Ceiling = known(units.BitRate(478e6))
		e.Path.Limits = []limits.Limit{{Name: "bus of nas", Rate: 478e6}, {Name: "link", Rate: 941.48e6}}
	})
	if f := Find(e); len(f) != 1 || f[0].Rule != "ceiling" || f[0].Limit != "bus of nas" || f[0].Host != "" {
		t.Errorf("%+v", f)
	}
	e.Path.Limits[0].Rate, e.Goodput, e.Ceiling = 8e9, 935e6, known(units.BitRate(941.48e6))
	if f := Find(e); len(f) != 1 || f[0].Limit != "link" || f[0].Host != model.Near {
		t.Errorf("%+v", f)
	}
}
