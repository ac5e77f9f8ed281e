package health

import (
	"fmt"
	"strings"
	"time"

	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// loss grades a direction's loss on a path that is not full; without datagrams, TCP's
// retransmissions.
func (j judge) loss(d model.Direction) Line {
	l := Line{Thing: "loss", Direction: d, State: Unseen, Text: "not measured"}
	lowest, ratio := units.BitRate(0), 0.0
	var slowest model.Run
	var sent int64
	for _, r := range j.s.Runs {
		u, paced := udp.Toward(r.Flow, d)
		v, ok := r.Value(d, model.LossRatio)
		if !paced || !ok || r.State != model.RunValid {
			continue
		}
		l.Evidence = append(l.Evidence, fmt.Sprintf("%s of the datagrams at %s", exact(v), u.Rate))
		if lowest == 0 || u.Rate < lowest {
			lowest, ratio, slowest = u.Rate, v, r
		}
	}
	run, ok := j.valid(d)
	again, reported := run.Value(d, model.RetransmitRatio)
	if ok && reported {
		l.Evidence = append(l.Evidence, fmt.Sprintf("%s of TCP's segments were sent again at full speed", exact(again)))
	}
	g := j.grade("loss")
	switch {
	case lowest > 0:
		l.Text = fmt.Sprintf("of datagrams at %s", lowest)
		sent = datagramsSent(slowest, d)
	case ok && reported:
		ratio, g = again, j.grade("resent")
		l.Text = "of TCP's segments, sent again"
		switch t := run.Sent(d); {
		case j.full(d) && g.From != setGrade && g.of(ratio) != OK: // the flow fills the queue until it overflows
			if g = j.grade("overflow"); g.of(ratio) == OK {
				l.Number, l.Text = exact(ratio), l.Text+" while it filled the queue: not enough evidence of loss on the path"
				return l
			}
		case t != nil:
			sent = t.SegmentsOut.Or(0)
		}
	default:
		return l
	}
	l.Number, l.State = exact(ratio), g.of(ratio)
	if sent > 0 {
		var which string
		if l.State, which = g.ofShare(ratio, sent); which != "" {
			l.Text += ": " + which
		}
		if l.State == Unseen && j.s.Check != nil && j.s.Check.Quick {
			l.Text += "; check without --quick sends more"
		}
	}
	share, longest := paused(slowest, d)
	cut, why := j.cutShort(slowest)
	switch {
	case l.State == OK || lowest == 0:
	case cut > 0 && ratio <= cut:
		l.State = Unseen
		l.Text += ": " + why + ", so this says little of the path: raise the quota (cpu.max, in version 1 cpu.cfs_quota_us), and measure again"
	case ratio <= share:
		l.State, l.Again = Unseen, true
		l.Text += fmt.Sprintf(": %s stopped for up to %s, %.0f %% of the time in all, and then sent at once what was due, which may have been lost for that: measure again while the machine has less to do",
			j.name(d.Sender()), units.FormatDuration(longest), 100*share)
	}
	if why := j.disturbed(d); l.State != OK && lowest == 0 && why != "" {
		l.State, l.Again = Unseen, true
		l.Text += ": " + why + ", so this says little of the path"
	}
	return l
}

// cutShort returns the largest share of throttled CPU quota periods at either end of run r, and
// a sentence about it.
func (j judge) cutShort(r model.Run) (share float64, text string) {
	for _, end := range r.Ends {
		n := map[string]float64{}
		for _, c := range end.Counters {
			n[c.Name] += float64(c.Value)
		}
		periods, cut := n["cgroup_periods"], min(n["cgroup_periods"], n["cgroup_periods_throttled"])
		if cut == 0 || cut/periods <= share {
			continue
		}
		what := "a quota of processor time"
		if given, window := n["cgroup_quota_ms"], n["cpu_window_ms"]; given > 0 && window > 0 {
			what = fmt.Sprintf("a quota of %.2g processors", given/window)
		}
		share, text = cut/periods, fmt.Sprintf("%s at %s was used up in %.0f of its %.0f periods", what, j.name(end.Host), cut, periods)
	}
	return share, text
}

// datagramsSent returns how many datagrams of direction d in run r arrived or were lost.
func datagramsSent(r model.Run, d model.Direction) (n int64) {
	for _, end := range r.Ends {
		for _, f := range end.Flows {
			if end.Host == d.Receiver() && f.Direction == d && f.UDP != nil {
				n += f.UDP.Lost + f.UDP.Received
			}
		}
	}
	return n
}

// pause is how long a sender of datagrams has to pause before the datagrams that it then sends
// at once are a burst that the queue of an ordinary switch, some milliseconds long, may not
// hold.
const pause = 5 * time.Millisecond

// paused returns the share of run r in which the sender of direction d stood still although
// datagrams were due, and the longest such time.
func paused(r model.Run, d model.Direction) (share float64, longest time.Duration) {
	for _, end := range r.Ends {
		for _, f := range end.Flows {
			if end.Host != d.Sender() || f.Direction != d || f.UDP == nil || f.UDP.Gaps == nil || f.Window <= 0 {
				continue
			}
			from := max(pause, 4*f.UDP.Gaps.Mean().Or(0))
			if longest = f.UDP.Gaps.Max().Or(0); longest > from {
				share = f.UDP.Gaps.Beyond(from).Seconds() / f.Window.Seconds()
			}
		}
	}
	return share, longest
}

// full reports whether one stream used the path fully in direction d.
func (j judge) full(d model.Direction) bool {
	r, ok := j.valid(d)
	v, _ := r.Value(d, model.Goodput)
	ceiling, known := limits.OfPath(j.s, d).Against(units.BitRate(v)).Get()
	return ok && known && v >= fullSpeed*float64(ceiling)
}

// queue grades the latency that a full path adds.
func (j judge) queue(d model.Direction) Line {
	l := Line{Thing: "queueing", Direction: d, State: Unseen, Text: "latency beside the load was not probed"}
	r, ok := j.valid(d)
	added, known := r.Value(d, model.AddedP50)
	if !ok || !known {
		return l
	}
	if short := j.short(r, d); short != "" && !j.full(d) {
		l.Text = short
		return l
	}
	idle, _ := r.Value(d, model.IdleP50)
	loaded, _ := r.Value(d, model.LatencyP50)
	rate, _ := r.Value(d, model.Goodput)
	g := j.grade("queueing")
	if g.From != setGrade {
		most := max(lanQueue, seconds(idle))
		if rate < fastPath {
			most = max(most, seconds(g.Poor))
		}
		most = min(most, wanQueue)
		g.Poor, g.Bad = most.Seconds(), min(g.Bad, (badQueue*most).Seconds())
	}
	more := max(0, seconds(added))
	l.State, l.Number, l.Text = OK, units.FormatDuration(more), "more latency while one stream runs"
	if j.full(d) {
		l.Text = "more latency while the path is full"
	}
	l.Evidence = []string{fmt.Sprintf("median %s idle, %s under load", units.FormatDuration(seconds(idle)), units.FormatDuration(seconds(loaded)))}
	if p99, ok := r.Value(d, model.LatencyP99); ok && !few(r) {
		l.Evidence = append(l.Evidence, "99th percentile under load "+units.FormatDuration(seconds(p99)))
	}
	l.State = g.of(more.Seconds())
	return l
}

// few reports whether there are too few answers under load for a 99th percentile.
func few(r model.Run) bool {
	probed := false
	for _, end := range r.Ends {
		for _, l := range end.Latencies {
			if !strings.HasPrefix(l.Name, "loaded ") {
				continue
			}
			if probed = true; l.Times.Percentile(0.99, uint64(max(0, l.Lost))).IsKnown() {
				return false
			}
		}
	}
	return probed
}

// jitter grades the variation of the gaps of paced datagrams at the lowest tested rate.
func (j judge) jitter(d model.Direction) Line {
	l := Line{Thing: "jitter", Direction: d, State: Unseen, Text: "not measured"}
	var lowest units.BitRate
	for _, r := range j.s.Runs {
		u, paced := udp.Toward(r.Flow, d)
		v, ok := r.Value(d, model.Jitter)
		if !paced || !ok || r.State != model.RunValid || lowest > 0 && u.Rate >= lowest {
			continue
		}
		g := j.grade("jitter")
		lowest = u.Rate
		l.State, l.Number, l.Text = g.of(v), units.FormatDuration(seconds(v)), fmt.Sprintf("between datagrams at %s", lowest)
	}
	return l
}

// exact formats a small share.
func exact(v float64) string {
	if v == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.2g %%", 100*v)
}

// seconds converts a metric's value in seconds.
func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
