// Package diagnose names what limits a direction, with its evidence, from what
// the two ends reported of a run.
//
// It looks at one direction at a time, in the order of diagnosis.md section
// 4.1: is the path full; else, which share of the sender's busy time was lost
// to the receive window or to the send buffer; else the congestion window, and
// with it loss; else the application. The first rule with full evidence wins.
package diagnose

import (
	"fmt"
	"time"

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

// Evidence is what the rules look at for one direction of one or more runs.
type Evidence struct {
	Direction model.Direction
	Goodput   units.BitRate
	Window    time.Duration          // length of the measured window
	TCP       model.TCPSummary       // of the sender
	Ceiling   fact.Of[units.BitRate] // of the link, as payload
	Streams   int                    // connections that the sums of TCP are over
	SenderCPU fact.Of[float64]       // cores busy in the sending process
	RecvCPU   fact.Of[float64]       // cores busy in the receiving process
	Fixed     bool                   // the user set the socket buffers
}

// FromRun collects the evidence of direction d from one run. It reports false
// where the run has no sender's report for d.
func FromRun(r model.Run, d model.Direction, ceiling fact.Of[units.BitRate]) (Evidence, bool) {
	rate, ok := r.Value(d, model.Goodput)
	if !ok {
		return Evidence{}, false
	}
	e := Evidence{
		Direction: d, Goodput: units.BitRate(rate), Ceiling: ceiling,
		Streams: max(1, r.Flow.Streams), Fixed: r.Flow.Window > 0,
	}
	found := false
	for _, end := range r.Ends {
		cpu := fact.Unknown[float64]("no CPU window")
		if end.CPUWindow > 0 {
			cpu = fact.Known((end.CPUUser+end.CPUSystem).Seconds()/end.CPUWindow.Seconds(), "getrusage")
		}
		if end.Host == d.Sender() {
			e.SenderCPU = cpu
		} else {
			e.RecvCPU = cpu
		}
		for _, f := range end.Flows {
			if f.Direction == d && f.Role == model.Sender && f.TCP != nil {
				e.TCP, e.Window, found = *f.TCP, f.Window, true
			}
		}
	}
	return e, found
}

// Find returns what limits the direction, the main limit first. It returns
// nothing where the evidence says nothing: unknown stays unknown.
func Find(e Evidence) []model.Finding {
	if c, ok := e.Ceiling.Get(); ok && float64(e.Goodput) >= fullPath*float64(c) {
		return []model.Finding{full(e, c)}
	}
	for _, rule := range []func(Evidence) (model.Finding, bool){receiveWindow, sendBuffer, application, loss, cpu} {
		if f, ok := rule(e); ok {
			return []model.Finding{f}
		}
	}
	if c, ok := e.Ceiling.Get(); ok && float64(e.Goodput) >= nearlyFull*float64(c) {
		return []model.Finding{full(e, c)}
	}
	return nil
}

// full says that the link is used up: there is nothing to tune.
func full(e Evidence, ceiling units.BitRate) model.Finding {
	share := float64(e.Goodput) / float64(ceiling)
	return model.Finding{
		Rule: "ceiling", Direction: e.Direction, Host: e.Direction.Sender(), Limit: "link",
		Evidence: fmt.Sprintf("%.1f %% of the %s that it can carry", 100*share, ceiling),
		Share:    fact.Unknown[float64]("a link has no share of the time"),
		Implied:  fact.Known(ceiling, "link rate and MTU"),
	}
}

// shareOf returns limited over busy time.
func shareOf(limited, busy fact.Of[time.Duration]) (float64, bool) {
	l, ok1 := limited.Get()
	b, ok2 := busy.Get()
	if !ok1 || !ok2 || b <= 0 {
		return 0, false
	}
	return min(1, float64(l)/float64(b)), true
}

// receiveWindow is rule B07. Linux keeps the time at the sender and it blames
// the receiver (kernel net/ipv4/tcp_output.c, TCP_CHRONO_RWND_LIMITED).
func receiveWindow(e Evidence) (model.Finding, bool) {
	share, ok := shareOf(e.TCP.RwndLimited, e.TCP.Busy)
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
	if e.Fixed {
		f.Knobs = []model.KnobID{"window"}
		f.Evidence += "; the test itself set the socket buffer"
	}
	// TCPSummary leaves the scale unknown where the option was not negotiated. A
	// small socket buffer needs no scale.
	if ok1 && !e.Fixed && e.TCP.SendScale.Or(0) == 0 && window <= limits.MaxUnscaledWindow*units.Bytes(e.Streams) {
		f.Rule, f.Knobs = "B09", []model.KnobID{"tcp.window_scaling"}
		f.Evidence += "; the receiver announced no window scale"
	}
	return f, true
}

// sendBuffer is rule B08.
func sendBuffer(e Evidence) (model.Finding, bool) {
	share, ok := shareOf(e.TCP.SndbufLimited, e.TCP.Busy)
	if !ok || share < limitedShare {
		return model.Finding{}, false
	}
	f := model.Finding{
		Rule: "B08", Direction: e.Direction, Host: e.Direction.Sender(), Limit: "send buffer",
		Share:    fact.Known(share, "TCP_INFO sndbuf_limited over busy_time"),
		Evidence: "the socket buffer was full of data that was not acknowledged yet",
		Knobs:    []model.KnobID{"tcp.send_buffer_max"},
	}
	if e.Fixed {
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
		{e.Direction.Receiver(), e.RecvCPU, "receiving"}, {e.Direction.Sender(), e.SenderCPU, "sending"},
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
