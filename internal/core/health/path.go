package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// way is what probes say of direction d, in the words of package mtu.
func (j judge) way(d model.Direction) (mtu.Way, bool) {
	if j.s.Check == nil {
		return mtu.Way{}, false
	}
	for _, w := range j.s.Check.Ways {
		if w.Direction != d {
			continue
		}
		n, ok := w.Passes.Get()
		far, _ := j.s.Facts(d.Receiver())
		return mtu.Way{
			From: j.name(d.Sender()), To: j.name(d.Receiver()), Asked: w.Asked, Passes: n, Exact: w.Exact,
			Told: w.Told, Router: w.Router, MTU: w.RouterMTU, ToMTU: far.MTU.Or(0),
		}, ok
	}
	return mtu.Way{}, false
}

// unseen is why probes say nothing of direction d.
func (j judge) unseen(d model.Direction) string {
	if j.s.Check != nil {
		for _, w := range j.s.Check.Ways {
			if w.Direction == d {
				return cmp.Or(w.Passes.Reason(), "not visible")
			}
		}
	}
	return "not looked at"
}

// mtu is how large packets of a direction may be: by probes, and by TCP where those
// are not answered.
func (j judge) mtu(d model.Direction) Line {
	l := Line{Thing: "mtu", Direction: d, State: Unseen}
	run, tried := j.single(d)
	transfer := mtu.Transfer{Tried: tried, OK: run.State == model.RunValid}
	if t := sender(run, d); t != nil {
		transfer.Segment, transfer.Remembers = t.MSS.Or(0), t.PathMTU.Or(0)
	}
	transfer.Small = j.smallSegments(d)
	w, probed := j.way(d)
	kind, text := mtu.Judge(w, probed, transfer)
	l.Text = text
	if probed {
		l.Evidence = append(l.Evidence, w.String())
	} else {
		l.Evidence = append(l.Evidence, "probes: "+j.unseen(d))
	}
	if transfer.Segment > 0 && transfer.OK {
		l.Evidence = append(l.Evidence, fmt.Sprintf("TCP sent segments of %d bytes, and they arrived", transfer.Segment))
	}
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
	case mtu.Small, mtu.Unequal, mtu.Short, mtu.Remembered:
		l.State = Poor
	case mtu.NotSeen:
		l.Text = cmp.Or(l.Text, j.unseen(d))
	}
	return l
}

// smallSegments is the largest segment that arrived where full ones did not; 0 for
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

// loss is what of a direction gets lost when the path is not full; where no
// datagrams were sent, what TCP had to send again.
func (j judge) loss(d model.Direction) Line {
	l := Line{Thing: "loss", Direction: d, State: Unseen, Text: "not measured"}
	lowest, ratio := units.BitRate(0), 0.0
	for _, r := range j.s.Runs {
		u, paced := udp.Of(r.Flow)
		v, ok := r.Value(d, model.LossRatio)
		if !paced || !ok || r.State != model.RunValid {
			continue
		}
		l.Evidence = append(l.Evidence, fmt.Sprintf("%s of the datagrams at %s", exact(v), u.Rate))
		if lowest == 0 || u.Rate < lowest {
			lowest, ratio = u.Rate, v
		}
	}
	run, ok := j.valid(d)
	again, told := run.Value(d, model.RetransmitRatio)
	if ok && told {
		l.Evidence = append(l.Evidence, fmt.Sprintf("%s of TCP's segments were sent again at full speed", exact(again)))
	}
	poor, bad := lossPoor, lossBad
	switch {
	case lowest > 0:
		l.Text = fmt.Sprintf("of datagrams at %s", lowest)
	case ok && told:
		ratio, poor, bad = again, againPoor, againBad
		l.Text = "of TCP's segments, sent again"
	default:
		return l
	}
	l.Number, l.State = exact(ratio), OK
	switch {
	case ratio >= bad:
		l.State = Bad
	case ratio >= poor:
		l.State = Poor
	}
	return l
}

// queue is what a full path adds to the latency.
func (j judge) queue(d model.Direction) Line {
	l := Line{Thing: "queueing", Direction: d, State: Unseen, Text: "latency beside the load was not probed"}
	r, ok := j.valid(d)
	added, known := r.Value(d, model.AddedP50)
	if !ok || !known {
		return l
	}
	idle, _ := r.Value(d, model.IdleP50)
	loaded, _ := r.Value(d, model.LatencyP50)
	rate, _ := r.Value(d, model.Goodput)
	most := max(lanQueue, seconds(idle))
	if rate < fastPath {
		most = max(most, slowQueue)
	}
	most = min(most, wanQueue)
	more := max(0, seconds(added))
	l.State, l.Number, l.Text = OK, units.FormatDuration(more), "more latency while the path is full"
	l.Evidence = []string{fmt.Sprintf("median %s idle, %s under load", units.FormatDuration(seconds(idle)), units.FormatDuration(seconds(loaded)))}
	if p99, ok := r.Value(d, model.LatencyP99); ok {
		l.Evidence = append(l.Evidence, "99th percentile under load "+units.FormatDuration(seconds(p99)))
	}
	switch {
	case more > badQueue*most:
		l.State = Bad
	case more > most:
		l.State = Poor
	}
	return l
}

// options is whether the options of TCP survive the path: what the hosts offer by
// their settings, and what both kernels say of connections between them.
func (j judge) options() Line {
	l := Line{Thing: "options", State: Unseen, Text: "no kernel tells which options of TCP were agreed on"}
	near, far := j.kernel(model.To), j.kernel(model.From)
	if near == nil && far == nil {
		return l
	}
	var used, gone []string
	for _, o := range options() {
		a, b := o.seen(near), o.seen(far)
		asked := j.offers(model.Near, o) && j.offers(model.Far, o)
		switch {
		case a == yes && b == no, a == no && b == yes:
			gone = append(gone, o.name)
			l.Evidence = append(l.Evidence, fmt.Sprintf("%s: one end uses it and the other does not: the path takes it out of one direction's packets", o.name))
		case a == yes || b == yes:
			used = append(used, o.name)
		case a == unsaid && b == unsaid:
		case asked:
			gone = append(gone, o.name)
			l.Evidence = append(l.Evidence, o.name+": both hosts offer it, and it is not in use")
		default:
			l.Evidence = append(l.Evidence, o.name+": not offered by both hosts")
		}
	}
	l.State, l.Number, l.Text = OK, fmt.Sprintf("%d of %d", len(used), len(options())), "of TCP's in use: "+strings.Join(used, ", ")
	switch {
	case len(gone) > 0:
		l.State, l.Text = Poor, "lost on the way: "+strings.Join(gone, ", ")
	case len(used) == 0:
		l.State, l.Text = Unseen, "none is in use"
	}
	return l
}

// kernel is what the sender's kernel says of the single run in direction d.
func (j judge) kernel(d model.Direction) *model.TCPSummary {
	r, ok := j.valid(d)
	if !ok {
		return nil
	}
	return sender(r, d)
}

// An answer about an option.
type answer int

const (
	unsaid answer = iota
	yes
	no
)

// option is one option of TCP.
type option struct {
	name string
	knob model.KnobID
	on   []string // values of the setting that offer it actively
	seen func(*model.TCPSummary) answer
}

// options are those whose survival is looked at. A host asks for ECN only with
// tcp.ecn=1, else it accepts it (Linux Documentation/networking/ip-sysctl.rst).
func options() []option {
	said := func(get func(*model.TCPSummary) (bool, bool)) func(*model.TCPSummary) answer {
		return func(t *model.TCPSummary) answer {
			if t == nil {
				return unsaid
			}
			switch on, known := get(t); {
			case !known:
				return unsaid
			case on:
				return yes
			}
			return no
		}
	}
	return []option{
		{"scaling", "tcp.window_scaling", []string{"1"}, said(func(t *model.TCPSummary) (bool, bool) {
			// The scale is unknown where scaling is off; whether the kernel tells at all
			// is seen by its neighbour.
			return t.SendScale.IsKnown(), t.SACK.IsKnown()
		})},
		{"sack", "tcp.sack", []string{"1"}, said(func(t *model.TCPSummary) (bool, bool) { return t.SACK.Get() })},
		{"timestamps", "tcp.timestamps", []string{"1", "2"}, said(func(t *model.TCPSummary) (bool, bool) { return t.Timestamps.Get() })},
		{"ecn", "tcp.ecn", []string{"1"}, said(func(t *model.TCPSummary) (bool, bool) { return t.ECN.Get() })},
	}
}

// offers reports whether a host is known to offer an option.
func (j judge) offers(h model.Host, o option) bool {
	f, _ := j.s.Facts(h)
	v, known := f.Knobs[o.knob].Get()
	if !known {
		return false
	}
	return slices.Contains(o.on, v)
}

// exact writes a small share for people.
func exact(v float64) string {
	if v == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.2g %%", 100*v)
}

// seconds is a time as metrics have it.
func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
