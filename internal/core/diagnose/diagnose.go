// Package diagnose names what limits a direction, with its evidence, from what
// the two hosts said of themselves and counted in a run.
//
// Session looks at one direction at a time, by its median run, in the order of diagnosis.md section
// 4.1: is the path full; else, which share of the sender's busy time was lost
// to the receive window or to the send buffer; else the congestion window, and
// with it loss; else the application. The first rule with full evidence wins.
package diagnose

import (
	"fmt"
	"slices"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Thresholds of the rules; (p) marks a proposal of ours without a source.
const (
	fullPath     = 0.97 // (p) of the ceiling: nothing to tune (diagnosis.md 1, step 4)
	nearlyFull   = 0.90 // (p) of the ceiling: only harmless changes are worth trying
	limitedShare = 0.20 // (p) of busy time: rules B07 and B08
	ampleWindow  = 3.0  // (p) a window that allows so much more than was reached does not limit
	lossMatters  = 1e-6 // floor of the loss rate in NDT's heuristics
	lossFactor   = 2.0  // rule B10: the rate lies within this factor of the loss bound
	busyFloor    = 0.50 // (p) of the window: below it the sender had nothing to send
	coreFull     = 0.95 // rule B16: one core is full
)

// Session returns what limits each direction of s, from the runs of its
// baseline and the facts and counters of both hosts. samples are those of the
// runs of Looked, by number of run, as far as the caller has them.
func Session(s *model.Session, samples map[int][]model.Sample) []model.Finding {
	var out []model.Finding
	looked := Looked(s)
	for _, d := range []model.Direction{model.To, model.From} {
		run, ok := looked[d]
		if !ok {
			continue
		}
		// The rules that are built are about TCP; without it, a process that waits
		// by polling would be found to lack processors.
		if e, ok := Collect(s, run, d, samples[run.Number]); ok && e.Window > 0 {
			out = append(out, Find(e)...)
		}
		if loss, ok := LocateUDP(run, d); ok && bothCounted(run) {
			out = append(out, loss.Findings()...)
		}
	}
	return out
}

// bothCounted reports whether both ends read their counters: without those nothing
// can be said of where datagrams were lost.
func bothCounted(r model.Run) bool {
	return !slices.ContainsFunc(r.Ends, func(e model.EndReport) bool { return len(e.Counters) == 0 })
}

// A rule names one limit, from evidence alone. It reports false where the
// evidence does not show it.
type rule func(Evidence) (model.Finding, bool)

// rules are those that are built, in the order of diagnosis.md section 4.1.
func rules() []rule { return []rule{receiveWindow, sendBuffer, application, loss, cpu} }

// Find returns what limits the direction, the main limit first. It returns
// nothing where the evidence says nothing: unknown stays unknown.
func Find(e Evidence) []model.Finding {
	if c, ok := e.Ceiling.Get(); ok && float64(e.Goodput) >= fullPath*float64(c) {
		return []model.Finding{full(e, c)}
	}
	for _, look := range rules() {
		if f, ok := look(e); ok {
			return []model.Finding{f}
		}
	}
	if c, ok := e.Ceiling.Get(); ok && float64(e.Goodput) >= nearlyFull*float64(c) {
		return []model.Finding{full(e, c)}
	}
	return nil
}

// full says that the path is used up: there is nothing to tune.
func full(e Evidence, ceiling units.BitRate) model.Finding {
	share := float64(e.Goodput) / float64(ceiling)
	f := model.Finding{
		Rule: "ceiling", Direction: e.Direction, Host: e.Direction.Sender(), Limit: "link",
		Evidence: fmt.Sprintf("%.1f %% of the %s that it can carry", 100*share, ceiling),
		Share:    fact.Unknown[float64]("a link has no share of the time"),
		Implied:  e.Ceiling,
	}
	if least, ok := limits.Smallest(e.Path.Limits); ok && least.Name != f.Limit {
		f.Host, f.Limit = "", least.Name // it names its host itself
	}
	return f
}

// receiveWindow is rule B07. Linux keeps the time at the sender and it blames
// the receiver (kernel net/ipv4/tcp_output.c, TCP_CHRONO_RWND_LIMITED).
func receiveWindow(e Evidence) (model.Finding, bool) {
	share, ok := e.Share(e.TCP.RwndLimited)
	if !ok || share < limitedShare {
		return model.Finding{}, false
	}
	f := model.Finding{
		Rule: "B07", Direction: e.Direction, Host: e.Direction.Receiver(), Limit: "receive window",
		Share:    fact.Known(share, "TCP_INFO rwnd_limited over busy_time"),
		Evidence: "the sender had data and room in its own window, and waited",
		Knobs:    []model.KnobID{"tcp.recv_buffer_max"},
	}
	window, ok1 := e.TCP.PeerWindow.Get()
	rtt, ok2 := e.TCP.RTT.Get()
	if ok1 && ok2 && rtt > 0 {
		implied := limits.WindowBound(window, rtt)
		if float64(implied) > ampleWindow*float64(e.Goodput) {
			return model.Finding{}, false // it was full now and then: who reads it was late
		}
		f.Implied = fact.Known(implied, "window over round trip")
		f.Evidence = fmt.Sprintf("%s at %s allows %s", window.Binary(), units.FormatDuration(rtt), implied)
	}
	if e.Fixed() {
		f.Knobs = []model.KnobID{"window"}
		f.Evidence += "; the test itself set the socket buffer"
	}
	// TCPSummary leaves the scale unknown where the option was not negotiated. A
	// small socket buffer needs no scale.
	if ok1 && !e.Fixed() && e.TCP.SendScale.Or(0) == 0 && window <= limits.MaxUnscaledWindow*units.Bytes(e.Streams) {
		f = noScaling(e, f)
	}
	return f, true
}

// noScaling is rule B09. The option is off where either end did not offer it
// (RFC 7323 section 2.2), so the host to blame is the one whose setting says so;
// without that knowledge it is the receiver, who announced no scale.
func noScaling(e Evidence, f model.Finding) model.Finding {
	f.Rule, f.Knobs = "B09", []model.KnobID{windowScaling}
	sender, receiver := e.Sender.Knob(windowScaling).Or("1"), e.Receiver.Knob(windowScaling).Or("1")
	switch {
	case sender == off && receiver == off:
		f.Evidence += "; window scaling is off at both hosts"
	case sender == off:
		f.Host = e.Sender.Host
		f.Evidence += "; the sender's host has window scaling off, so that the receiver may not use it"
	default:
		f.Evidence += "; the receiver announced no window scale"
	}
	return f
}

// windowScaling is the setting of rule B09.
const windowScaling model.KnobID = "tcp.window_scaling"

// off is the value of a switch that is off.
const off = "0"

// sendBuffer is rule B08.
func sendBuffer(e Evidence) (model.Finding, bool) {
	share, ok := e.Share(e.TCP.SndbufLimited)
	if !ok || share < limitedShare {
		return model.Finding{}, false
	}
	f := model.Finding{
		Rule: "B08", Direction: e.Direction, Host: e.Direction.Sender(), Limit: "send buffer",
		Share:    fact.Known(share, "TCP_INFO sndbuf_limited over busy_time"),
		Evidence: "the socket buffer was full of data that was not acknowledged yet",
		Knobs:    []model.KnobID{"tcp.send_buffer_max"},
	}
	if e.Fixed() {
		f.Knobs = []model.KnobID{"window"}
		f.Evidence += "; the socket buffer was set by the test itself"
	}
	cwnd, ok1 := e.TCP.Cwnd.Get()
	rtt, ok2 := e.TCP.RTT.Get()
	if ok1 && ok2 && rtt > 0 {
		f.Implied = fact.Known(limits.WindowBound(cwnd, rtt), "congestion window over round trip")
	}
	return f, true
}

// application is rule B21: the sender's connection was idle.
func application(e Evidence) (model.Finding, bool) {
	busy, ok := e.TCP.Busy.Get()
	if !ok || e.Window <= 0 || float64(busy) >= busyFloor*float64(e.Window) {
		return model.Finding{}, false
	}
	return model.Finding{
		Rule: "B21", Direction: e.Direction, Host: e.Direction.Sender(), Limit: "sending application",
		Share: fact.Known(1-float64(busy)/float64(e.Window), "TCP_INFO busy_time"),
		Evidence: fmt.Sprintf("the connection had data to send only %.0f %% of the time",
			100*float64(busy)/float64(e.Window)),
	}, true
}

// loss is rule B10: the rate lies near what the loss rate allows.
func loss(e Evidence) (model.Finding, bool) {
	re, ok1 := e.TCP.Retransmits.Get()
	out, ok2 := e.TCP.SegmentsOut.Get()
	mss, ok3 := e.TCP.MSS.Get()
	rtt, ok4 := e.TCP.RTTMin.Get()
	if !ok1 || !ok2 || !ok3 || !ok4 || out <= 0 || rtt <= 0 || mss <= 0 {
		return model.Finding{}, false
	}
	p := float64(re) / float64(out)
	if p < lossMatters {
		return model.Finding{}, false
	}
	bound := limits.LossBound(mss, rtt, p) * units.BitRate(e.Streams)
	if float64(e.Goodput)*lossFactor < float64(bound) || float64(e.Goodput) > lossFactor*float64(bound) {
		return model.Finding{}, false
	}
	return model.Finding{
		Rule: "B10", Direction: e.Direction, Host: e.Direction.Sender(), Limit: "packet loss",
		Evidence: fmt.Sprintf("%d of %d segments were sent again (%.2g %%); at %s that allows about %s",
			re, out, 100*p, units.FormatDuration(rtt), bound),
		Implied: fact.Known(bound, "larger of the Mathis and CUBIC bounds"),
		Knobs:   []model.KnobID{"tcp.congestion_control", "tcp.sack", "link.mtu"},
	}, true
}

// cpu is the part of rule B16 that the measuring process can see by itself: a
// single stream is one thread, which cannot use more than one core.
func cpu(e Evidence) (model.Finding, bool) {
	for _, end := range []struct {
		host  model.Host
		use   fact.Of[float64]
		named string
	}{
		{e.Direction.Receiver(), e.Receiver.CPU, "receiving"}, {e.Direction.Sender(), e.Sender.CPU, "sending"},
	} {
		use, ok := end.use.Get()
		if !ok || use < coreFull*float64(e.Streams) {
			continue
		}
		return model.Finding{
			Rule: "B16", Direction: e.Direction, Host: end.host, Limit: "CPU",
			Evidence: fmt.Sprintf("the %s process used %.2f cores, and its streams can use %d", end.named, use, e.Streams),
			Implied:  fact.Known(e.Goodput, "measured at a full core"),
			Knobs:    []model.KnobID{"streams", "link.mtu"},
		}, true
	}
	return model.Finding{}, false
}
