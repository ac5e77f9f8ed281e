package runner

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// leastShare is the least part of the planned window, or of the planned bytes,
// that makes a run valid (statistics.md 1, rule 5: proposed).
const leastShare = 0.9

// CPUMetric is the metric of a run's value for the CPU time of the measuring
// process of host h: seconds per second, 1 is one core. It has no direction.
func CPUMetric(h model.Host) model.Metric { return model.CPU + "_" + model.Metric(h) }

// judge fills in the run's values from the reports of its ends, and returns an
// error that wraps ErrInvalid where the run does not count.
func (a *attempt) judge() error {
	var faults []string
	for _, e := range a.run.Ends {
		a.run.Values = append(a.run.Values, e.Values...)
	}
	for _, d := range a.flow.Direction.Parts() {
		if a.flow.Sweep != nil || a.flow.Requests != nil {
			break // no payload to and fro: what counts is in the values and points
		}
		got, ok := a.report(d, model.Receiver)
		if !ok {
			faults = append(faults, fmt.Sprintf("%s reported nothing received in direction %s", a.client(d.Receiver()).Name(), d))
			continue
		}
		if fault := a.received(d, got); fault != "" {
			faults = append(faults, fault)
		}
		sent, _ := a.report(d, model.Sender)
		if sent.TCP != nil {
			a.sent(d, sent.TCP)
		}
		if got.UDP != nil {
			a.datagrams(d, got.UDP)
		}
	}
	if fault := a.answered(); fault != "" {
		faults = append(faults, fault)
	}
	for _, e := range a.run.Ends {
		if e.CPUWindow > 0 {
			a.value("", CPUMetric(e.Host), (e.CPUUser+e.CPUSystem).Seconds()/e.CPUWindow.Seconds())
		}
		for _, w := range e.Warnings {
			a.warn("%s: %s", a.client(e.Host).Name(), w)
		}
	}
	if len(faults) > 0 {
		return invalid("%s", strings.Join(faults, "; "))
	}
	return nil
}

// report finds what the end with that role said of direction d.
func (a *attempt) report(d model.Direction, role model.Role) (model.FlowReport, bool) {
	host := d.Receiver()
	if role == model.Sender {
		host = d.Sender()
	}
	for _, e := range a.run.Ends {
		for _, f := range e.Flows {
			if e.Host == host && f.Direction == d && f.Role == role {
				return f, true
			}
		}
	}
	return model.FlowReport{}, false
}

func (a *attempt) value(d model.Direction, m model.Metric, v float64) {
	a.run.Values = append(a.run.Values, model.Value{Direction: d, Metric: m, Value: v})
}

// received keeps the goodput of direction d, and says why it does not count.
func (a *attempt) received(d model.Direction, f model.FlowReport) string {
	if f.Bytes == 0 || f.Window <= 0 {
		return fmt.Sprintf("no bytes arrived in direction %s", d)
	}
	a.value(d, model.Goodput, float64(f.Bytes)*8/f.Window.Seconds())
	if plan := a.flow.Duration; float64(f.Window) < leastShare*float64(plan) {
		return fmt.Sprintf("direction %s was measured for %v of %v", d, f.Window.Round(time.Millisecond), plan)
	}
	if plan := a.flow.Bytes; a.flow.Duration == 0 && float64(f.Bytes) < leastShare*float64(plan) {
		return fmt.Sprintf("in direction %s %d of %d bytes arrived", d, f.Bytes, plan)
	}
	return ""
}

// datagrams keeps what the receiver counted in direction d.
func (a *attempt) datagrams(d model.Direction, u *model.UDPSummary) {
	if all := u.Received + u.Lost; all > 0 {
		a.value(d, model.LossRatio, float64(u.Lost)/float64(all))
	}
	if jitter, known := u.Jitter.Get(); known {
		a.value(d, model.Jitter, jitter.Seconds())
	}
}

// answered says why a run of messages or requests does not count.
func (a *attempt) answered() string {
	points, values := 0, 0
	for _, e := range a.run.Ends {
		points += len(e.Points)
		values += len(e.Values)
	}
	switch {
	case a.flow.Sweep != nil && points == 0:
		return "no message size was measured"
	case a.flow.Requests != nil && values == 0:
		return "no request was answered"
	}
	return ""
}

// sent keeps what the sender's kernel says of direction d.
func (a *attempt) sent(d model.Direction, t *model.TCPSummary) {
	if n, known := t.Retransmits.Get(); known {
		a.value(d, model.Retransmits, float64(n))
	}
	if mss, known := t.MSS.Get(); known && a.flow.MSS != 0 && mss > a.flow.MSS {
		a.warn("%s sends segments of %d bytes where at most %d were asked", a.client(d.Sender()).Name(), mss, a.flow.MSS)
	}
}

// withSetting returns f with those assignments of s that belong to no host.
func withSetting(f model.Flow, s model.Setting) (model.Flow, error) {
	for _, as := range s.Assignments {
		if as.Host != "" {
			continue
		}
		if err := assign(&f, as); err != nil {
			return f, fmt.Errorf("setting %q: %s=%s: %w", s.Name, as.Knob, as.Value, err)
		}
	}
	return f, nil
}

// assign sets one knob of the flow.
func assign(f *model.Flow, as model.Assignment) error {
	if as.Knob == "congestion" {
		f.Congestion = as.Value
		return nil
	}
	n, err := strconv.ParseInt(as.Value, 10, 64)
	if err != nil {
		return err
	}
	switch as.Knob {
	case "streams":
		f.Streams = int(n)
	case "block":
		f.Block = units.Bytes(n)
	case "window":
		f.Window = units.Bytes(n)
	case "mss":
		f.MSS = int(n)
	case "nodelay":
		f.Nagle = n == 0
	default:
		return errors.New("a flow has no such knob; it has window, block, mss, streams, nodelay and congestion")
	}
	return nil
}
