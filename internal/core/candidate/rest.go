package candidate

import (
	"slices"
	"strconv"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// RestRule is the rule of settings that no finding names: a screening tries them.
const RestRule = "none"

// guess is a default value that a host has no reason to go below, for a setting that no rule
// covers.
type guess struct {
	id       model.KnobID
	receiver bool  // it is a setting of the receiver, else of the sender
	least    int64 // a smaller value is raised to it
	exactly  bool  // any other value is set to it
}

// guesses are the defaults of Linux 6.18 for settings that can limit a connection and have no
// rule of their own, and the two settings that RFC 2861 and RFC 4821 leave to the host.
func guesses() []guess {
	return []guess{
		{id: "tcp.limit_output", least: 4 << 20},         // bytes that wait before the device
		{id: "tcp.notsent_lowat", least: 1<<32 - 1},      // bytes from which a program may write more
		{id: "tcp.pacing_ca_ratio", least: 120},          // percent of the rate that the window allows
		{id: "tcp.pacing_ss_ratio", least: 200},          // the same, at the start
		{id: "tcp.max_reordering", least: 300},           // packets out of order that do not count as lost
		{id: "nic.gso_max_size", least: 64 << 10},        // bytes in one piece through the stack
		{id: "tcp.slow_start_after_idle", exactly: true}, // off
		{id: "tcp.mtu_probing", least: 1, exactly: true}, // after a black hole only
		{id: "nic.gro_max_size", receiver: true, least: 64 << 10},
		{id: "rx.gro_flush_timeout", receiver: true, exactly: true}, // ns that packets wait for more: none
		{id: "rx.backlog", receiver: true, least: 4000},
		{id: "rx.budget", receiver: true, least: 600},
	}
}

// RestKnobs lists every setting that Rest may propose.
func RestKnobs() []model.KnobID {
	out := []model.KnobID{recvBuffer, sendBuffer, recvAutotune, sendAutotune, congestion, sack, windowScaling}
	for _, g := range guesses() {
		out = append(out, g.id)
	}
	return out
}

// Suspect is a setting that, by the facts of the hosts alone, holds a connection below what the
// path carries.
type Suspect struct {
	Candidate
	Holds  float64 // share of the ceiling that its present value allows; 0 if no formula says
	Losses bool    // it says how the sender takes losses, which make runs scatter
}

// ample is the share of the ceiling from which a window is no suspect: under load round trips
// grow, so that it carries less than over the one without load.
const ample = 1.2

// inFlight is the bytes that a sender has in flight per byte of its buffer: measured with 32
// and 48 KiB on Linux 6.18 at 20 and 40 ms, where it was 1.4 to 1.6.
const inFlight = 1.5

// Suspects returns the settings of both hosts that the facts alone show to be narrow for
// direction d, given the round trip without load: what a search will most likely have to
// change, known before its first run.
func Suspects(s *model.Session, d model.Direction, rtt time.Duration) []Suspect {
	g := given{s: s, f: model.Finding{Rule: RestRule, Direction: d}, ceiling: limits.OfPath(s, d).Rate, rtt: fact.Known(rtt, "the probe")}
	var out []Suspect
	add := func(levels []Candidate, window units.Bytes) {
		if len(levels) == 0 {
			return
		}
		s := Suspect{Candidate: levels[len(levels)-1]}
		of := s.Setting.Assignments[0].Knob
		s.Losses = of == sack || of == congestion
		if most, ok := g.ceiling.Get(); ok && window > 0 && isSize(of) {
			s.Holds = float64(limits.WindowBound(window, rtt) / most)
		}
		if s.Holds < ample {
			out = append(out, s)
		}
	}
	size := func(h model.Host, id model.KnobID) float64 {
		n, _ := strconv.ParseFloat(g.knob(h, id).Or(""), 64)
		return n
	}
	if g.ceiling.IsKnown() && rtt > 0 {
		add(g.buffer(d.Receiver(), recvBuffer, recvAutotune), units.Bytes(size(d.Receiver(), recvBuffer)/bookkeeping))
		add(g.buffer(d.Sender(), sendBuffer, sendAutotune), units.Bytes(size(d.Sender(), sendBuffer)*inFlight))
		if g.ceiling.Or(0) > limits.WindowBound(maxUnscaled, rtt) {
			add(g.switchOn(windowScaling, g.ceiling), 0)
		}
	}
	add(g.switchOn(sack, g.ceiling), 0)
	if g.knob(d.Sender(), congestion).Or("") == "reno" { // a person's choice: no system has it as its default
		g.f.Host = d.Sender()
		add(g.algorithm(), 0)
	}
	return out
}

// Rest returns one best guess for each setting of both hosts that can affect direction d,
// regardless of its findings. A setting that already has its best guess is left out.
func Rest(s *model.Session, d model.Direction) []Candidate {
	g := given{s: s, f: model.Finding{Rule: RestRule, Direction: d, Host: d.Sender()}, ceiling: limits.OfPath(s, d).Rate, rtt: limits.LeastRTT(s)}
	unknown := fact.Unknown[units.BitRate]("no finding names it")
	last := func(levels []Candidate) []Candidate { return levels[max(0, len(levels)-1):] }
	out := slices.Concat(last(g.buffer(d.Receiver(), recvBuffer, recvAutotune)), last(g.buffer(d.Sender(), sendBuffer, sendAutotune)),
		g.switchOn(windowScaling, unknown), g.switchOn(sack, unknown))
	if g.knob(d.Sender(), congestion).IsKnown() {
		out = append(out, g.algorithm()...)
	}
	for _, one := range guesses() {
		h := d.Sender()
		if one.receiver {
			h = d.Receiver()
		}
		now, err := strconv.ParseInt(g.knob(h, one.id).Or(""), 10, 64)
		if err == nil && (now < one.least || one.exactly && now != one.least) {
			out = append(out, g.candidate(one.id, strconv.FormatInt(one.least, 10), unknown, h))
		}
	}
	return out
}
