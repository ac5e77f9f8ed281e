// Package mistuned is a list of labs with badly configured hosts, and the possible gain in
// each, for measuring the tuner. It is not part of the program.
package mistuned

import (
	"slices"
	"strings"
)

// Case is one lab.
type Case struct {
	Name      string
	About     string // what is wrong, for users
	Wire      string // keys of the lab for the wire
	Wrong     []Set  // wrong settings of the hosts
	Direction string // "to" or "from"
	Guard     string // what no setting may harm, in linerate's form; "" is nothing
	// Ceiling is the rate in bit/s of the narrowest part of the wire, with framing.
	Ceiling float64
	Grid    []Factor // combined by the exhaustive search
}

// Set is one setting of a host.
type Set struct{ Knob, Value string } // "far.tcp.recv_buffer_max", "32KiB"

// Factor is a setting with the values that an exhaustive search tries.
type Factor struct {
	Knob   string
	Values []string
}

// Spec returns the text of the lab with settings that replace the wrong ones, or are added to
// them.
func (c Case) Spec(with ...Set) string {
	words := []string{c.Wire}
	for _, s := range append(slices.Clone(c.Wrong), with...) {
		words = slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, s.Knob+"=") })
		words = append(words, s.Knob+"="+s.Value)
	}
	return strings.Join(words, ",")
}

// Points returns all combinations of the grid. The first is the unchanged lab, so that the best
// is never worse.
func (c Case) Points() [][]Set {
	points := [][]Set{nil}
	for _, f := range c.Grid {
		var more [][]Set
		for _, p := range points {
			more = append(more, p)
			for _, v := range f.Values {
				more = append(more, append(slices.Clone(p), Set{f.Knob, v}))
			}
		}
		points = more
	}
	return points
}

// Values of a direction's settings that have an effect.
const (
	recv  = "tcp.recv_buffer_max"
	send  = "tcp.send_buffer_max"
	cc    = "tcp.congestion_control"
	sack  = "tcp.sack"
	scale = "tcp.window_scaling"
	grow  = "tcp.recv_autotune"
	mbit  = 1e6
)

// grid returns the factors of an exhaustive search in a direction: both buffers, the other
// congestion control, and the named switches.
func grid(direction, other string, switches ...string) []Factor {
	sender, receiver := "near.", "far."
	if direction == "from" {
		sender, receiver = receiver, sender
	}
	out := []Factor{
		{receiver + recv, []string{"256KiB", "4MiB"}},
		{sender + send, []string{"256KiB", "4MiB"}},
		{sender + cc, []string{other}},
	}
	for _, s := range switches {
		out = append(out, Factor{s, []string{"on"}})
	}
	return out
}

// List returns every case.
func List() []Case {
	return slices.Concat(single(), double(), traps(), hopeless())
}

// single returns cases with one cause.
func single() []Case {
	return []Case{
		{Name: "window-far", About: "receive window of 32 KiB at the far end", Wire: "rate=50mbit,rtt=20ms", Wrong: []Set{{"far." + recv, "32KiB"}},
			Direction: "to", Ceiling: 50 * mbit, Grid: grid("to", "reno")},
		{Name: "window-mild", About: "receive window of 64 KiB, a third of what the path needs", Wire: "rate=100mbit,rtt=10ms", Wrong: []Set{{"far." + recv, "64KiB"}},
			Direction: "to", Ceiling: 100 * mbit, Grid: grid("to", "reno")},
		{Name: "window-tenth", About: "receive window of 180 KiB, a tenth short of what the path needs", Wire: "rate=50mbit,rtt=20ms", Wrong: []Set{{"far." + recv, "180KiB"}},
			Direction: "to", Ceiling: 50 * mbit, Grid: grid("to", "reno")},
		{Name: "window-near", About: "receive window of 32 KiB at the near end", Wire: "rate=50mbit,rtt=20ms", Wrong: []Set{{"near." + recv, "32KiB"}},
			Direction: "from", Ceiling: 50 * mbit, Grid: grid("from", "reno")},
		{Name: "window-fast", About: "receive window of 64 KiB on a fast, short path", Wire: "rate=200mbit,rtt=5ms", Wrong: []Set{{"far." + recv, "64KiB"}},
			Direction: "to", Ceiling: 200 * mbit, Grid: grid("to", "reno")},
		{Name: "sender-near", About: "send buffer of 32 KiB at the near end", Wire: "rate=50mbit,rtt=20ms", Wrong: []Set{{"near." + send, "32KiB"}},
			Direction: "to", Ceiling: 50 * mbit, Grid: grid("to", "reno")},
		{Name: "sender-far", About: "send buffer of 48 KiB at the far end", Wire: "rate=80mbit,rtt=20ms", Wrong: []Set{{"far." + send, "48KiB"}},
			Direction: "from", Ceiling: 80 * mbit, Grid: grid("from", "reno")},
		{Name: "sender-long", About: "send buffer of 32 KiB on a long path", Wire: "rate=20mbit,rtt=40ms", Wrong: []Set{{"near." + send, "32KiB"}},
			Direction: "to", Ceiling: 20 * mbit, Grid: grid("to", "reno")},
		{Name: "scaling-far", About: "window scaling off at the receiver", Wire: "rate=100mbit,rtt=20ms", Wrong: []Set{{"far." + scale, "off"}},
			Direction: "to", Ceiling: 100 * mbit, Grid: grid("to", "reno", "far."+scale)},
		{Name: "scaling-near", About: "window scaling off at the sender", Wire: "rate=60mbit,rtt=30ms", Wrong: []Set{{"near." + scale, "off"}},
			Direction: "to", Ceiling: 60 * mbit, Grid: grid("to", "reno", "near."+scale)},
		{Name: "autotune", About: "the receiver does not grow its buffers", Wire: "rate=50mbit,rtt=40ms", Wrong: []Set{{"far." + grow, "off"}},
			Direction: "to", Ceiling: 50 * mbit, Grid: grid("to", "reno", "far."+grow)},
		{Name: "reno-loss", About: "reno on a path that loses 0.5 %", Wire: "rate=50mbit,rtt=30ms,loss=0.5%", Wrong: []Set{{"near." + cc, "reno"}},
			Direction: "to", Ceiling: 50 * mbit, Grid: grid("to", "bbr")},
		{Name: "reno-short-queue", About: "reno before a queue of 32 KiB", Wire: "rate=100mbit,rtt=30ms,queue=32KiB", Wrong: []Set{{"near." + cc, "reno"}},
			Direction: "to", Ceiling: 100 * mbit, Grid: grid("to", "bbr")},
	}
}

// double returns cases with two causes at once, one of which may hide the other.
func double() []Case {
	return []Case{
		{Name: "both-buffers", About: "both buffers equally small: neither helps alone", Wire: "rate=50mbit,rtt=20ms",
			Wrong: []Set{{"far." + recv, "32KiB"}, {"near." + send, "32KiB"}}, Direction: "to", Ceiling: 50 * mbit, Grid: grid("to", "reno")},
		{Name: "window-and-sender", About: "a small window hides a small send buffer", Wire: "rate=80mbit,rtt=20ms",
			Wrong: []Set{{"near." + recv, "32KiB"}, {"far." + send, "128KiB"}}, Direction: "from", Ceiling: 80 * mbit, Grid: grid("from", "reno")},
		{Name: "window-and-scaling", About: "a small window hides that scaling is off", Wire: "rate=100mbit,rtt=20ms",
			Wrong: []Set{{"far." + recv, "48KiB"}, {"near." + scale, "off"}}, Direction: "to", Ceiling: 100 * mbit, Grid: grid("to", "reno", "near."+scale)},
		{Name: "window-and-loss", About: "a small window hides reno on a path that loses 0.5 %", Wire: "rate=50mbit,rtt=20ms,loss=0.5%",
			Wrong: []Set{{"far." + recv, "64KiB"}, {"near." + cc, "reno"}}, Direction: "to", Ceiling: 50 * mbit, Grid: grid("to", "bbr")},
		{Name: "sack-and-loss", About: "reno without SACK on a path that loses 0.3 %", Wire: "rate=50mbit,rtt=20ms,loss=0.3%",
			Wrong: []Set{{"near." + sack, "off"}, {"near." + cc, "reno"}}, Direction: "to", Ceiling: 50 * mbit, Grid: grid("to", "bbr", "near."+sack)},
	}
}

// traps returns cases in which the obvious setting does harm.
func traps() []Case {
	return []Case{
		{Name: "trap-window", About: "much more window fills a deep queue: only a little more keeps the latency", Wire: "rate=20mbit,rtt=20ms,queue=2MiB",
			Wrong: []Set{{"far." + recv, "48KiB"}, {"near." + cc, "reno"}}, Direction: "to", Guard: "rtt<100%", Ceiling: 20 * mbit,
			Grid: []Factor{{"far." + recv, []string{"96KiB", "128KiB", "192KiB", "256KiB", "384KiB", "512KiB", "1MiB", "4MiB"}}, {"near." + cc, []string{"bbr"}}}},
		{Name: "trap-sender", About: "much more send buffer fills a deep queue", Wire: "rate=20mbit,rtt=40ms,queue=2MiB",
			Wrong: []Set{{"near." + send, "64KiB"}, {"near." + cc, "reno"}}, Direction: "to", Guard: "rtt<100%", Ceiling: 20 * mbit,
			Grid: []Factor{{"near." + send, []string{"96KiB", "128KiB", "192KiB", "256KiB", "384KiB", "512KiB", "1MiB", "4MiB"}}, {"near." + cc, []string{"bbr"}}}},
		{Name: "worse-reno", About: "bbr bears the losses: the other congestion control is worse, a larger window is right", Wire: "rate=50mbit,rtt=20ms,loss=0.5%",
			Wrong: []Set{{"far." + recv, "64KiB"}}, Direction: "to", Ceiling: 50 * mbit, Grid: grid("to", "reno")},
	}
}

// hopeless returns cases in which nothing helps.
func hopeless() []Case {
	return []Case{
		{Name: "clean", About: "nothing is wrong", Wire: "rate=50mbit,rtt=20ms", Direction: "to", Ceiling: 50 * mbit, Grid: grid("to", "reno")},
		{Name: "clean-reno", About: "nothing is wrong, with reno", Wire: "rate=20mbit,rtt=5ms", Wrong: []Set{{"near." + cc, "reno"}},
			Direction: "to", Ceiling: 20 * mbit, Grid: grid("to", "bbr")},
		{Name: "bus", About: "a bus of the host is narrower than its link", Wire: "rate=100mbit,rtt=10ms,bus=40mbit",
			Direction: "to", Ceiling: 40 * mbit, Grid: grid("to", "reno")},
	}
}
