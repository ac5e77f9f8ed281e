// Package candidate turns a finding and the present values of both hosts into settings that are
// worth a try, each with the goodput that it would allow.
//
// Nothing here decides: a candidate is a question for an experiment. A setting is not a
// candidate if it is already in force, would change nothing on the host as configured, or gives
// more than the path can use (diagnosis.md section 4.0, rule 4).
package candidate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Candidate is one setting worth a try.
type Candidate struct {
	Setting   model.Setting          `json:"setting"`           // complete: what an experiment applies
	Direction model.Direction        `json:"direction"`         // of the finding
	Rule      string                 `json:"rule"`              // of the finding
	Now       fact.Of[string]        `json:"now"`               // present value of the first assignment
	Allows    fact.Of[units.BitRate] `json:"allows"`            // upper bound of the goodput with it; unknown says why
	Levels    string                 `json:"levels"`            // candidates with the same text are levels of one factor: "far.tcp.recv_buffer_max"
	Caution   string                 `json:"caution,omitempty"` // why the user should check first; "" if there is no reason
}

// Text is the value for people, with a unit if it is a size.
func (c Candidate) Text() string {
	a := c.Setting.Assignments[0]
	if n, err := strconv.ParseInt(a.Value, 10, 64); err == nil && isSize(a.Knob) {
		return strings.ReplaceAll(units.Bytes(n).String(), " ", "")
	}
	return a.Value
}

// The proposed settings. A test checks, where the catalogue is known, that it has each of them.
const (
	recvBuffer    model.KnobID = "tcp.recv_buffer_max"
	sendBuffer    model.KnobID = "tcp.send_buffer_max"
	recvAutotune  model.KnobID = "tcp.recv_autotune"
	sendAutotune  model.KnobID = "tcp.send_autotune"
	windowScaling model.KnobID = "tcp.window_scaling"
	sack          model.KnobID = "tcp.sack"
	congestion    model.KnobID = "tcp.congestion_control"
	linkMTU       model.KnobID = "link.mtu"
	window        model.KnobID = "window"
	streams       model.KnobID = "streams"
	queueLength   model.KnobID = "txqueuelen"
	backlog       model.KnobID = "rx.backlog"
	socketBuffer  model.KnobID = "socket.buffer_max"
)

// Knobs lists every setting that a candidate for the rate may change.
func Knobs() []model.KnobID {
	return []model.KnobID{recvBuffer, sendBuffer, recvAutotune, sendAutotune, windowScaling, sack, congestion, linkMTU,
		window, streams, queueLength, backlog, socketBuffer}
}

// isSize reports whether the values of a setting are in bytes.
func isSize(id model.KnobID) bool {
	return slices.Contains([]model.KnobID{recvBuffer, sendBuffer, window, socketBuffer}, id)
}

// Levels of a size: few, each four times the one before, so that the plateau is
// found in a quarter of an hour and a finer search can follow (p).
const (
	levels = 4
	step   = 4
)

// enoughBuffer is the size from which no larger buffer is proposed (p).
const enoughBuffer = 32 << 20

// bookkeeping is the bytes of a buffer per byte of payload: the kernel uses about half of a
// buffer for its own bookkeeping (knobs.md section 1.2).
const bookkeeping = 2

// windows is how many windows of payload a buffer has to hold to never limit the sender: the
// data in flight, and as much again for recovery and for round trips that grow under load
// (Linux 6.12, net/ipv4/tcp_input.c: tcp_rcv_space_adjust and tcp_sndbuf_expand take two too).
const windows = 2

// perByte is the bytes of a buffer per byte of payload in flight.
const perByte = windows * bookkeeping

// mostStreams is the most streams proposed against a full core (p): diagnosis.md section 1,
// step 2 measures with as many.
const mostStreams = 8

// jumbo is the MTU that most switches and cards support (diagnosis.md section 2.1).
const jumbo = 9000

// Session returns the settings worth a try for all findings of s, those of the main finding
// first, without duplicates.
func Session(s *model.Session) []Candidate {
	var out []Candidate
	for _, f := range s.Findings {
		for _, c := range From(s, f) {
			if !slices.ContainsFunc(out, func(o Candidate) bool { return o.Setting.Name == c.Setting.Name && o.Direction == c.Direction }) {
				out = append(out, c)
			}
		}
	}
	return out
}

// From returns the settings worth a try against finding f of s, in the order of the finding's
// knobs, special values before levels.
func From(s *model.Session, f model.Finding) []Candidate {
	if f.Rule == QueueRule {
		return Latency(s, f.Direction)
	}
	g := given{s: s, f: f, ceiling: limits.OfPath(s, f.Direction).Rate, rtt: limits.LeastRTT(s)}
	var out []Candidate
	for _, id := range f.Knobs {
		switch id {
		case recvBuffer:
			out = append(out, g.buffer(g.f.Host, id, recvAutotune)...)
		case sendBuffer:
			out = append(out, g.buffer(g.f.Host, id, sendAutotune)...)
		case windowScaling:
			out = append(out, g.switchOn(id, g.scaled())...)
			out = append(out, g.unscaled()...)
		case sack:
			out = append(out, g.switchOn(id, fact.Unknown[units.BitRate]("it depends on how the losses come"))...)
		case congestion:
			out = append(out, g.algorithm()...)
		case linkMTU:
			out = append(out, g.mtu()...)
		case window:
			out = append(out, g.window()...)
		case streams:
			out = append(out, g.streams()...)
		case queueLength, backlog, socketBuffer:
			out = append(out, g.multiples(id)...)
		}
	}
	return out
}

// given is the input of the candidates of one finding.
type given struct {
	s       *model.Session
	f       model.Finding
	ceiling fact.Of[units.BitRate]
	rtt     fact.Of[time.Duration]
}

// knob returns the present value of a setting of host h.
func (g given) knob(h model.Host, id model.KnobID) fact.Of[string] {
	facts, _ := g.s.Facts(h)
	if v, ok := facts.Knobs[id]; ok {
		return v
	}
	return fact.Unknown[string]("the host did not report it")
}

// candidate returns one value of a setting of the given hosts; without hosts, of the flow.
func (g given) candidate(id model.KnobID, value string, allows fact.Of[units.BitRate], hosts ...model.Host) Candidate {
	c := Candidate{Direction: g.f.Direction, Rule: g.f.Rule, Allows: allows, Levels: string(id), Now: fact.Unknown[string]("a setting of the test")}
	if len(hosts) == 0 {
		c.Setting.Assignments = []model.Assignment{{Knob: id, Value: value}}
	} else {
		c.Now = g.knob(hosts[0], id)
	}
	for _, h := range hosts {
		c.Setting.Assignments = append(c.Setting.Assignments, model.Assignment{Host: h, Knob: id, Value: value})
	}
	if len(hosts) == 1 {
		c.Levels = hosts[0].Of(id)
	}
	c.Setting.Name = c.Levels + "=" + c.Text()
	return c
}

// add makes a part of c.
func (c *Candidate) add(a model.Assignment) {
	c.Setting.Assignments = append(c.Setting.Assignments, a)
	c.Setting.Name += " + " + a.Host.Of(a.Knob) + "=" + a.Value
}

// bound returns the rate that a window allows over the path.
func (g given) bound(size units.Bytes) fact.Of[units.BitRate] {
	rtt, ok1 := g.rtt.Get()
	ceiling, ok2 := g.ceiling.Get()
	switch {
	case !ok1:
		return fact.Unknown[units.BitRate]("the round trip is unknown: " + g.rtt.Reason())
	case !ok2:
		return g.ceiling
	}
	if w := limits.WindowBound(size, rtt); w < ceiling {
		return fact.Known(w, fmt.Sprintf("%s over %s", size.Binary(), units.FormatDuration(rtt)))
	}
	return g.ceiling
}

// sizes returns levels from above the present size up to what the path can use; perByte is the
// bytes of a buffer per byte of payload.
func (g given) sizes(now units.Bytes, perByte int) []units.Bytes {
	ceiling, ok1 := g.ceiling.Get()
	rtt, ok2 := g.rtt.Get()
	if now <= 0 || now >= enoughBuffer {
		return nil
	}
	enough := units.Bytes(enoughBuffer) // if the path's capacity is unknown
	if ok1 && ok2 {
		enough = units.Bytes(perByte) * limits.WindowFor(ceiling, rtt)
	}
	size := units.Bytes(1)
	for size <= now {
		size *= 2
	}
	var out []units.Bytes
	for size *= step / 2; len(out) < levels; size *= step {
		out = append(out, size)
		if size >= enough {
			break
		}
	}
	return out
}

// buffer proposes larger buffers at host h. If the system does not grow buffers by itself,
// their limit has no effect, and autotuning is proposed instead.
func (g given) buffer(h model.Host, id, autotune model.KnobID) []Candidate {
	now, err := strconv.ParseInt(g.knob(h, id).Or(""), 10, 64)
	if err != nil {
		return nil
	}
	if g.knob(h, autotune).Or(on) == off {
		return []Candidate{g.candidate(autotune, on, g.bound(units.Bytes(now/perByte)), h)}
	}
	var out []Candidate
	for _, size := range g.sizes(units.Bytes(now), perByte) {
		c := g.candidate(id, strconv.FormatInt(int64(size), 10), g.bound(size/perByte), h)
		if a, ok := g.room(h, size); ok {
			c.add(a)
		}
		out = append(out, c)
	}
	return out
}

// room returns the limit of all sockets' buffers that a buffer of this size needs at host h, if
// it exceeds the present one: FreeBSD gives a buffer 2048 of 2304 bytes of it (MCLBYTES and
// MSIZE, FreeBSD 13 uipc_sockbuf.c), which is enough for macOS too.
func (g given) room(h model.Host, size units.Bytes) (model.Assignment, bool) {
	now, err := strconv.ParseInt(g.knob(h, socketBuffer).Or(""), 10, 64)
	needs := int64(size) * 2304 / 2048
	if err != nil || now >= needs {
		return model.Assignment{}, false
	}
	return model.Assignment{Host: h, Knob: socketBuffer, Value: strconv.FormatInt(needs, 10)}, true
}

// Room returns the value of knob id if two candidates assign it: the larger of two limits of
// all sockets' buffers, otherwise the later value.
func Room(id model.KnobID, earlier, later string) string {
	a, errA := strconv.ParseInt(earlier, 10, 64)
	b, errB := strconv.ParseInt(later, 10, 64)
	if id == socketBuffer && errA == nil && errB == nil && a > b {
		return earlier
	}
	return later
}

// The values of switches.
const (
	off = "0"
	on  = "1"
)

// switchOn proposes a TCP option that both ends have to offer, at each host where it is off; at
// the host of the finding if neither host reports its value.
func (g given) switchOn(id model.KnobID, allows fact.Of[units.BitRate]) []Candidate {
	var hosts []model.Host
	silent := true
	for _, h := range []model.Host{model.Near, model.Far} {
		v, known := g.knob(h, id).Get()
		if silent = silent && !known; known && v == off {
			hosts = append(hosts, h)
		}
	}
	if silent && g.f.Host != "" {
		hosts = []model.Host{g.f.Host}
	}
	if len(hosts) == 0 {
		return nil // both offer it: a device between them strips it
	}
	return []Candidate{g.candidate(id, on, allows, hosts...)}
}

// scaled returns what the receiver's buffer allows once windows may exceed 64 KiB.
func (g given) scaled() fact.Of[units.BitRate] {
	n, err := strconv.ParseInt(g.knob(g.f.Direction.Receiver(), recvBuffer).Or(""), 10, 64)
	if err != nil {
		return fact.Unknown[units.BitRate]("the receive buffer is unknown")
	}
	return g.bound(min(units.Bytes(n/bookkeeping), limits.MaxWindow))
}

// maxUnscaled is the largest window without scaling (RFC 9293 section 3.1).
const maxUnscaled = 64 << 10

// unscaled proposes larger receive buffers if the present one holds less than even an unscaled
// window: the buffer is then the first limit, and window scaling has no effect until it grows.
func (g given) unscaled() []Candidate {
	receiver := g.f.Direction.Receiver()
	n, err := strconv.ParseInt(g.knob(receiver, recvBuffer).Or(""), 10, 64)
	if err != nil || n/bookkeeping >= maxUnscaled {
		return nil
	}
	return g.buffer(receiver, recvBuffer, recvAutotune)
}

// algorithm proposes cubic in place of bbr, and bbr in place of anything else: bbr does not
// slow down for losses (diagnosis.md section 4.0, rule 3). Where selective acknowledgements are
// off, they come with bbr, which resends much of its window after a loss without them: on a
// link that loses 0.3 %, bbr alone had 0.4 to 3.4 times reno's rate, and with them 40 times.
func (g given) algorithm() []Candidate {
	host := g.f.Direction.Sender()
	other := "bbr"
	if strings.HasPrefix(g.knob(host, congestion).Or(""), other) {
		other = "cubic"
	}
	c := g.candidate(congestion, other, fact.Unknown[units.BitRate]("no formula says what it makes of such losses"), host)
	c.Caution = "not every host has " + other
	if other == "bbr" {
		for _, h := range []model.Host{model.Near, model.Far} {
			if g.knob(h, sack).Or(on) == off {
				c.add(model.Assignment{Host: h, Knob: sack, Value: on})
			}
		}
	}
	return []Candidate{c}
}

// ethernet is the MTU that every Ethernet carries.
const ethernet = 1500

// mtu proposes jumbo frames if both interfaces support them, the larger MTU of two that differ,
// and the Ethernet MTU against smaller packets. It proposes nothing on a path that drops large
// packets.
func (g given) mtu() []Candidate {
	switch g.f.Rule {
	case "M2":
		return nil
	case "B29":
		c := g.candidate(linkMTU, strconv.Itoa(ethernet), fact.Unknown[units.BitRate]("whether the path passes them is not known"), model.Near, model.Far)
		c.Caution = "something may have made the packets small on purpose, as a tunnel"
		return []Candidate{c}
	}
	size := jumbo
	var smaller []model.Host
	near, _ := g.s.Facts(model.Near)
	far, _ := g.s.Facts(model.Far)
	if g.f.Rule == "M1" {
		size = max(near.MTU.Or(0), far.MTU.Or(0))
	}
	for _, f := range []model.HostFacts{near, far} {
		switch mtu, known := f.MTU.Get(); {
		case !known || len(f.NICs) == 0 || mtu < size && f.NICs[0].MTUMax.Or(0) < size:
			return nil
		case mtu < size:
			smaller = append(smaller, f.Host)
		}
	}
	if len(smaller) == 0 {
		return nil
	}
	c := g.candidate(linkMTU, strconv.Itoa(size), fact.Unknown[units.BitRate]("whether the path passes them is not known"), smaller...)
	c.Caution = "the devices between the hosts, and the other hosts of the link, have to take such packets too"
	return []Candidate{c}
}

// window proposes larger socket buffers for the test itself. The kernel doubles the requested
// size (socket(7)), so that all of it is payload.
func (g given) window() []Candidate {
	var out []Candidate
	for _, size := range g.sizes(g.s.Plan.Flow.Window, 1) {
		out = append(out, g.candidate(window, strconv.FormatInt(int64(size), 10), g.bound(size)))
	}
	return out
}

// streams proposes more connections if a core limits each one.
func (g given) streams() []Candidate {
	now := max(1, g.s.Plan.Flow.Streams)
	var out []Candidate
	for n := 2 * now; n <= mostStreams; n *= 2 {
		allows := g.ceiling
		full, ok1 := g.f.Implied.Get()
		most, ok2 := g.ceiling.Get()
		if more := full * units.BitRate(n) / units.BitRate(now); ok1 && (!ok2 || more < most) {
			allows = fact.Known(more, fmt.Sprintf("%d times what one full core carried", n/now))
		}
		out = append(out, g.candidate(streams, strconv.Itoa(n), allows))
	}
	return out
}

// multiples proposes a longer queue at the host of the finding.
func (g given) multiples(id model.KnobID) []Candidate {
	now, err := strconv.ParseInt(g.knob(g.f.Host, id).Or(""), 10, 64)
	if err != nil || now <= 0 || isSize(id) && now >= enoughBuffer {
		return nil
	}
	var out []Candidate
	for n := now * step; n <= now*step*step; n *= step {
		out = append(out, g.candidate(id, strconv.FormatInt(n, 10), fact.Unknown[units.BitRate]("how long the bursts are is not known"), g.f.Host))
	}
	return out
}
