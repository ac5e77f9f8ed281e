package health

import (
	"cmp"
	"fmt"

	"linerate/internal/core/locate"
	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
)

// asked returns the results of the probes of direction d.
func (j judge) asked(d model.Direction) (model.Way, bool) {
	if j.s.Check != nil {
		for _, w := range j.s.Check.Ways {
			if w.Direction == d {
				return w, true
			}
		}
	}
	return model.Way{}, false
}

// way returns the probe results of direction d as package mtu takes them. Datagrams between the
// two agents have priority over echo requests and refused ports, which a firewall may treat
// differently.
func (j judge) way(d model.Direction) (mtu.Way, bool) {
	w, ok := j.asked(d)
	if !ok {
		return mtu.Way{}, false
	}
	n, known := w.Passes.Get()
	exact := w.Exact
	if v, ok := w.Datagrams.Get(); ok && (v > 0 || !known) {
		n, exact, known = v, w.DatagramsExact, true
	}
	far, _ := j.s.Facts(d.Receiver())
	return mtu.Way{
		From: j.name(d.Sender()), To: j.name(d.Receiver()), Asked: w.Asked, Passes: n, Exact: exact,
		Reported: w.Reported, Router: w.Router, MTU: w.RouterMTU, ToMTU: far.MTU.Or(0),
	}, known
}

// Passes returns the largest packet of direction d that arrived, in bytes; 0 for none or
// unknown.
func Passes(s *model.Session, d model.Direction) int {
	w, _ := judge{s}.way(d)
	return w.Passes
}

// unseen returns why there is no probe result for direction d.
func (j judge) unseen(d model.Direction) string {
	if w, ok := j.asked(d); ok {
		return cmp.Or(w.Passes.Reason(), "not visible")
	}
	return "not looked at"
}

// mtu returns the largest packet of a direction, found in up to three ways: datagrams between
// the agents, probes that need no agent, and the segments of TCP.
func (j judge) mtu(d model.Direction) Line {
	l := Line{Thing: "mtu", Direction: d, State: Unseen}
	run, tried := j.single(d)
	transfer := mtu.Transfer{Tried: tried, OK: run.State == model.RunValid}
	if t := run.Sent(d); t != nil {
		transfer.Segment, transfer.Remembers = t.MSS.Or(0), t.PathMTU.Or(0)
	}
	transfer.Small = j.smallSegments(d)
	w, probed := j.way(d)
	kind, text := mtu.Judge(w, probed, transfer)
	l.Text = text
	l.Evidence = j.tried(d, transfer)
	if probed && w.Passes > 0 {
		l.Number = fmt.Sprint(w.Passes)
	} else if transfer.OK && transfer.Remembers > 0 {
		l.Number = fmt.Sprint(transfer.Remembers)
	}
	switch kind {
	case mtu.Fine:
		l.State = OK
	case mtu.BlackHole:
		l.State = Bad
		if other, ok := j.way(back(d)); ok && other.Passes > 0 && other.Whole() {
			l.Text += fmt.Sprintf("; this way only, the other one passes %d", other.Passes)
		}
	case mtu.Small, mtu.Unequal, mtu.Short, mtu.Remembered:
		l.State = Poor
	case mtu.NotSeen:
		l.Text = cmp.Or(l.Text, j.unseen(d))
	}
	if asked, ok := j.asked(d); ok && asked.Narrow != nil && (kind == mtu.BlackHole || kind == mtu.Small) {
		l.Text += "; they get lost between " + locate.Between(*asked.Narrow, j.name)
	}
	if apart := j.apart(d); apart != "" {
		l.Text += "; " + apart
	}
	return l
}

// back returns the other direction.
func back(d model.Direction) model.Direction {
	if d == model.To {
		return model.From
	}
	return model.To
}

// tried returns one line per method of probing, with its result.
func (j judge) tried(d model.Direction, t mtu.Transfer) []string {
	var out []string
	w, _ := j.asked(d)
	say := func(what string, n int, known, exact bool, reason string) {
		switch {
		case !known:
			out = append(out, what+": "+cmp.Or(reason, "not tried"))
		case n == 0:
			out = append(out, what+": not even small ones are answered")
		case n >= w.Asked || exact:
			out = append(out, fmt.Sprintf("%s: packets of %d bytes pass, of %d tried", what, n, w.Asked))
		default:
			out = append(out, fmt.Sprintf("%s: packets of at least %d bytes pass, of %d tried", what, n, w.Asked))
		}
	}
	if n, ok := w.Datagrams.Get(); ok || w.Datagrams.Reason() != "" {
		say("datagrams between the agents", n, ok, w.DatagramsExact, w.Datagrams.Reason())
	}
	n, ok := w.Passes.Get()
	say("echo requests and refused ports", n, ok, w.Exact, j.unseen(d))
	if w.Reported {
		out = append(out, mtu.Way{Router: w.Router, MTU: w.RouterMTU}.Who()+" said that packets are too big")
	}
	switch {
	case t.Segment > 0 && t.OK:
		out = append(out, fmt.Sprintf("TCP: segments of %d bytes arrived", t.Segment))
	case t.Small > 0:
		out = append(out, fmt.Sprintf("TCP: full segments did not arrive, those of %d bytes did", t.Small))
	case t.Tried && !t.OK:
		out = append(out, "TCP: no segments arrived, not even small ones")
	}
	return out
}

// apart says where the methods disagree, "" if they agree.
func (j judge) apart(d model.Direction) string {
	w, _ := j.asked(d)
	datagrams, ok1 := w.Datagrams.Get()
	probes, ok2 := w.Passes.Get()
	switch {
	case !ok1 || !ok2 || datagrams == 0 && probes == 0 || !w.Exact && probes < w.Asked || !w.DatagramsExact && datagrams < w.Asked:
		return ""
	case datagrams == 0:
		return "datagrams between the agents do not arrive at all: UDP is filtered"
	case probes == 0:
		return "" // hosts often ignore echo requests, which says nothing about other packets
	case datagrams > probes:
		return fmt.Sprintf("echo requests pass only up to %d: something treats them differently", probes)
	case datagrams < probes:
		return fmt.Sprintf("echo requests pass up to %d, and datagrams do not: something treats them differently", probes)
	}
	return ""
}

// smallSegments returns the largest segment that arrived although full ones did not; 0 for
// none.
func (j judge) smallSegments(d model.Direction) int {
	most := 0
	for _, r := range j.s.Runs {
		if r.Flow.MSS > 0 && r.Flow.Direction == d && r.State == model.RunValid {
			most = max(most, r.Flow.MSS)
		}
	}
	return most
}
