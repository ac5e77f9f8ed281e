package diagnose

import (
	"fmt"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Waiting explains the latency under load of a direction of s, in its baseline runs. It returns
// the share of the idle round trip in it (1: nothing waits) and the second half of a sentence
// that says where the rest is lost.
func Waiting(s *model.Session, d model.Direction) (fact.Of[float64], string) {
	run, ok := medianRun(s, d)
	loaded, measured := run.Value(d, model.LatencyP50)
	idle, known := limits.LeastRTT(s).Get()
	switch {
	case !ok || !measured || loaded <= 0:
		return fact.Unknown[float64]("no latency was measured"), ""
	case !known || idle <= 0:
		return fact.Unknown[float64](limits.LeastRTT(s).Reason()), fmt.Sprintf("a message takes %s under load; the idle round trip is not known", took(loaded))
	}
	share := min(1, idle.Seconds()/loaded)
	of := fact.Known(share, "least round trip over the median latency under load")
	if loaded < standing*idle.Seconds() {
		return of, fmt.Sprintf("nothing waits: a message takes %s under load and %s idle", took(loaded), units.FormatDuration(idle))
	}
	parts := []string{fmt.Sprintf("a message takes %s under load and %s idle", took(loaded), units.FormatDuration(idle))}
	e, _ := Collect(s, run, d, nil)
	f := newFeatures(e)
	// TCP timestamps its packets in the kernel: a delay that its own round trip shows arose on
	// the wire or in a queue, however busy a processor was.
	wire := f.TCP.RTT.Or(0).Seconds() >= loaded/standing
	switch {
	case wire && (f.Sender.Counters.Moved("qdisc_dropped").Or(0) > 0 || f.Sender.Counters.Moved("qdisc_overlimits").Or(0) > 0):
		parts = append(parts, "packets wait in the sender's own queue ("+f.Sender.Facts.Qdisc.Or("of an unknown kind")+")")
	case wire:
		parts = append(parts, "packets wait in a queue on the way, TCP's as well")
	case !f.starved(f.Sender) && !f.starved(f.Receiver):
		parts = append(parts, "where it waits is not seen")
	}
	if f.starved(f.Sender) {
		parts = append(parts, "the processor of the sender is busy")
	}
	if f.starved(f.Receiver) {
		parts = append(parts, "the processor of the receiver is busy")
	}
	if ceiling, ok := f.Ceiling.Get(); ok {
		if w, ok := f.TCP.PeerWindow.Get(); ok {
			if need := limits.WindowFor(ceiling, idle); w > 2*need {
				parts = append(parts, fmt.Sprintf("the receive window lets %s be under way, and the path needs %s", w.Binary(), need.Binary()))
			}
		}
	}
	return of, strings.Join(parts, "; ")
}

// took formats a time in seconds.
func took(v float64) string { return units.FormatDuration(time.Duration(v * float64(time.Second))) }

// Work returns what each bit of a direction costs host h, as the second half of a sentence; ""
// if not measured.
func Work(s *model.Session, d model.Direction, h model.Host) string {
	run, ok := medianRun(s, d)
	metric := model.CPUPerGbitNear
	if h == model.Far {
		metric = model.CPUPerGbitFar
	}
	cost, measured := run.Value(d, metric)
	if !ok || !measured {
		return ""
	}
	facts, _ := s.Facts(h)
	text := fmt.Sprintf("each Gbit costs %s %s of processor time", s.Names().Of(h), took(cost))
	if mtu, ok := facts.MTU.Get(); ok {
		text += fmt.Sprintf(", with an MTU of %d", mtu)
	}
	return text
}
