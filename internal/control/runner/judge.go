package runner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
)

// leastShare is the smallest share of the planned window, or of the planned bytes, with which a
// run is valid (statistics.md 1, rule 5: proposed).
const leastShare = 0.9

// CPUMetric returns the metric for the CPU time of the measuring process on host h: seconds per
// second, 1 is one core. It has no direction.
func CPUMetric(h model.Host) model.Metric { return model.CPU + "_" + model.Metric(h) }

// judge fills in the run's values from the reports of its ends. It returns an error that wraps
// ErrInvalid if the run does not count.
func (a *attempt) judge() error {
	j := judgement{run: &a.run, flow: a.flow, setting: a.spec.Setting, name: func(h model.Host) string { return a.client(h).Name() }, warn: a.warn, kinds: a.kinds}
	return j.do()
}

// judgement is one measured run.
type judgement struct {
	run     *model.Run
	flow    model.Flow
	setting model.Setting
	name    func(model.Host) string // of an end, in messages
	warn    func(format string, args ...any)
	kinds   traffic.Kinds
}

func (j *judgement) do() error {
	var faults []string
	for _, e := range j.run.Ends {
		j.run.Values = append(j.run.Values, e.Values...)
	}
	if kind, _ := j.kinds.ByName(j.flow.Engine); kind.Judge == nil {
		faults = j.payload()
	} else if fault := kind.Judge(j.flow, j.run.Ends); fault != "" {
		faults = append(faults, fault)
	}
	j.added()
	for _, e := range j.run.Ends {
		if e.CPUWindow > 0 {
			cpu := (e.CPUUser + e.CPUSystem).Seconds() / e.CPUWindow.Seconds()
			j.value(j.flow.Direction, CPUMetric(e.Host), cpu)
			j.cpuPerGbit(e.Host, cpu)
		}
		for _, w := range e.Warnings {
			j.warn("%s: %s", j.name(e.Host), w)
		}
	}
	if len(faults) > 0 {
		return invalid("%s", strings.Join(faults, "; "))
	}
	return nil
}

// payload stores the payload that the ends report, and returns why it does not count.
func (j *judgement) payload() (faults []string) {
	for _, d := range j.flow.Direction.Parts() {
		got, ok := j.report(d, model.Receiver)
		if !ok {
			faults = append(faults, fmt.Sprintf("%s reported nothing received in direction %s", j.name(j.measuring(d)), d))
			continue
		}
		if fault := j.received(d, got); fault != "" {
			faults = append(faults, fault)
		}
		sent, _ := j.report(d, model.Sender)
		if sent.TCP != nil {
			j.sent(d, sent.TCP)
		}
		if _, counted := j.run.Value(d, model.LossRatio); got.UDP != nil && !counted {
			j.datagrams(d, got.UDP)
		}
	}
	return faults
}

// measuring returns the end whose window counts in direction d: the receiver, except for the
// parts of a copy that only the sender does.
func (j *judgement) measuring(d model.Direction) model.Host { return j.kinds.Measures(j.flow, d) }

// report returns what the end in this role reported about direction d.
func (j *judgement) report(d model.Direction, role model.Role) (model.FlowReport, bool) {
	host := j.measuring(d)
	if role == model.Sender {
		host = d.Sender()
	}
	for _, e := range j.run.Ends {
		for _, f := range e.Flows {
			if e.Host == host && f.Direction == d && f.Role == role {
				return f, true
			}
		}
	}
	return model.FlowReport{}, false
}

func (j *judgement) value(d model.Direction, m model.Metric, v float64) {
	j.run.Values = append(j.run.Values, model.Value{Direction: d, Metric: m, Value: v})
}

// received stores the goodput of direction d, and returns why it does not count.
func (j *judgement) received(d model.Direction, f model.FlowReport) string {
	if f.Bytes == 0 || f.Window <= 0 {
		return fmt.Sprintf("no bytes arrived in direction %s", d) + j.suspect()
	}
	j.value(d, model.Goodput, float64(f.Bytes)*8/f.Window.Seconds())
	if plan := j.flow.Duration; float64(f.Window) < leastShare*float64(plan) {
		return fmt.Sprintf("direction %s was measured for %v of %v", d, f.Window.Round(time.Millisecond), plan)
	}
	if plan := j.flow.Bytes; j.flow.Duration == 0 && float64(f.Bytes) < leastShare*float64(plan) {
		return fmt.Sprintf("in direction %s %d of %d bytes arrived", d, f.Bytes, plan)
	}
	return ""
}

// mtuKnob is the setting that can make packets too large for a path.
const mtuKnob model.KnobID = "link.mtu"

// suspect explains why nothing may have arrived if the setting changes the packet size.
// Connections open with small packets, so a path that silently drops large ones shows only then
// (RFC 2923 section 2.1).
func (j *judgement) suspect() string {
	for _, s := range j.setting.Assignments {
		if s.Knob == mtuKnob {
			return fmt.Sprintf(": packets of %s bytes may vanish on the way; linerate set %s=%s --both finds out where", s.Value, mtuKnob, s.Value)
		}
	}
	return ""
}

// datagrams stores the receiver's counts for direction d.
func (j *judgement) datagrams(d model.Direction, u *model.UDPSummary) {
	if all := u.Received + u.Lost; all > 0 {
		j.value(d, model.LossRatio, float64(u.Lost)/float64(all))
	}
	if jitter, known := u.Jitter.Get(); known {
		j.value(d, model.Jitter, jitter.Seconds())
	}
}

// sent stores the values from the sender's kernel for direction d.
func (j *judgement) sent(d model.Direction, t *model.TCPSummary) {
	if n, known := t.Retransmits.Get(); known {
		j.value(d, model.Retransmits, float64(n))
		if out := t.SegmentsOut.Or(0); out > 0 {
			j.value(d, model.RetransmitRatio, float64(n)/float64(out))
		}
	}
	if rtt, known := t.RTT.Get(); known && rtt > 0 {
		j.value(d, model.RTT, rtt.Seconds())
	}
	if mss, known := t.MSS.Get(); known && j.flow.MSS != 0 && mss > j.flow.MSS {
		j.warn("%s sends segments of %d bytes where at most %d were asked", j.name(d.Sender()), mss, j.flow.MSS)
	}
}

// added stores how much the load added to the latency, if that was also measured without load.
func (j *judgement) added() {
	for _, v := range slices.Clone(j.run.Values) {
		for _, of := range []struct{ loaded, idle, added model.Metric }{
			{model.LatencyP50, model.IdleP50, model.AddedP50}, {model.LatencyP99, model.IdleP99, model.AddedP99},
		} {
			if idle, ok := j.run.Value(v.Direction, of.idle); ok && v.Metric == of.loaded {
				j.value(v.Direction, of.added, v.Value-idle)
			}
		}
	}
}

// cpuPerGbit stores the CPU time of host h per Gbit of payload, in and out together. cpu is in
// seconds per second; 0 means that the clock was too coarse, and stores nothing.
func (j *judgement) cpuPerGbit(h model.Host, cpu float64) {
	rate := 0.0
	for _, d := range j.flow.Direction.Parts() {
		v, _ := j.run.Value(d, model.Goodput)
		rate += v
	}
	metric := model.CPUPerGbitNear
	if h == model.Far {
		metric = model.CPUPerGbitFar
	}
	if rate > 0 && cpu > 0 {
		j.value(j.flow.Direction, metric, cpu*1e9/rate)
	}
}
