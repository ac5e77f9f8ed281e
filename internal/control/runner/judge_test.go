package runner

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func TestJudge(t *testing.T) {
	receiver := func(d model.Direction, bytes units.Bytes, window time.Duration) model.FlowReport {
		return model.FlowReport{Direction: d, Role: model.Receiver, Bytes: bytes, Window: window}
	}
	timed := model.Flow{Direction: model.To, Duration: 10 * time.Second}
	counted := model.Flow{Direction: model.To, Bytes: 1000}
	for name, c := range map[string]struct {
		flow  model.Flow
		far   []model.FlowReport
		fault string // "" is valid
		value float64
	}{
		"good":            {timed, []model.FlowReport{receiver(model.To, 1250, 10*time.Second)}, "", 1000},
		"own window":      {timed, []model.FlowReport{receiver(model.To, 1250, 9500*time.Millisecond)}, "", 1250 * 8 / 9.5},
		"short":           {timed, []model.FlowReport{receiver(model.To, 1250, 8999*time.Millisecond)}, "was measured for", 1250 * 8 / 8.999},
		"nothing":         {timed, []model.FlowReport{receiver(model.To, 0, 10*time.Second)}, "no bytes", 0},
		"no window":       {timed, []model.FlowReport{receiver(model.To, 5, 0)}, "no bytes", 0},
		"no report":       {timed, nil, "reported nothing", 0},
		"wrong direction": {timed, []model.FlowReport{receiver(model.From, 1250, 10*time.Second)}, "reported nothing", 0},
		"counted":         {counted, []model.FlowReport{receiver(model.To, 1000, time.Second)}, "", 8000},
		"counted, cut":    {counted, []model.FlowReport{receiver(model.To, 899, time.Second)}, "899 of 1000", 7192},
	} {
		t.Run(name, func(t *testing.T) {
			a := &attempt{Runner: &Runner{ends: [2]*session.Client{{}, {}}}, flow: c.flow}
			tcp := &model.TCPSummary{Retransmits: fact.Known[int64](3, "t"), MSS: fact.Known(1448, "t")}
			a.flow.MSS = 1000
			a.run.Ends = []model.EndReport{
				{Host: model.Near, CPUUser: time.Second, CPUSystem: time.Second, CPUWindow: 4 * time.Second, Flows: []model.FlowReport{
					{Direction: model.To, Role: model.Sender, Bytes: 99, Window: time.Second, TCP: tcp},
				}},
				{Host: model.Far, Flows: c.far, Warnings: []string{"odd"}},
			}
			err := a.judge()
			must.True(t, (err == nil) == (c.fault == "") && (err == nil || errors.Is(err, ErrInvalid) && strings.Contains(err.Error(), c.fault)), "error %v", err)
			v, _ := a.run.Value(model.To, model.Goodput)
			must.True(t, v == c.value, "goodput %v, want %v", v, c.value)
			v, _ = a.run.Value(model.To, CPUMetric(model.Near))
			must.True(t, v == 0.5, "CPU %v", v)
			v, ok := a.run.Value(model.To, model.CPUPerGbitNear)
			must.True(t, ok == (c.value > 0) && (!ok || math.Abs(v*c.value/1e9-0.5) <= 1e-9), "CPU of %v for each Gbit at %v bit/s", v, c.value)
			must.True(t, len(a.run.Warnings) != 0, "no warnings")
		})
	}
}

// TestJudgeKeepsWhatVerdictsAreGivenOn: the values besides goodput.
func TestJudgeKeepsWhatVerdictsAreGivenOn(t *testing.T) {
	a := &attempt{Runner: &Runner{ends: [2]*session.Client{{}, {}}}, flow: model.Flow{Direction: model.To, Duration: time.Second}}
	tcp := &model.TCPSummary{Retransmits: fact.Known[int64](3, "t"), SegmentsOut: fact.Known[int64](1200, "t"),
		RTT: fact.Known(12*time.Millisecond, "t")}
	a.run.Ends = []model.EndReport{
		{Host: model.Near, Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, TCP: tcp}}, Values: []model.Value{
			{Direction: model.To, Metric: model.LatencyP50, Value: 0.015}, {Direction: model.To, Metric: model.LatencyP99, Value: 0.020},
			{Direction: model.To, Metric: model.IdleP50, Value: 0.010}, {Direction: model.To, Metric: model.IdleP99, Value: 0.011},
		}},
		{Host: model.Far, CPUUser: time.Second / 2, CPUWindow: time.Second, Flows: []model.FlowReport{
			{Direction: model.To, Role: model.Receiver, Bytes: 250e6, Window: time.Second}}},
	}
	must.Do(t, a.judge())
	for metric, want := range map[model.Metric]float64{
		model.RTT: 0.012, model.RetransmitRatio: 0.0025, model.AddedP50: 0.005, model.AddedP99: 0.009, model.CPUPerGbitFar: 0.25,
	} {
		got, ok := a.run.Value(model.To, metric)
		must.True(t, ok && !(math.Abs(got-want) > 1e-12), "%s: %v, %v, want %v", metric, got, ok, want)
	}
	v, ok := a.run.Value(model.To, model.CPUPerGbitNear)
	must.True(t, !ok, "CPU of the near end, which told none: %v", v)
}

// TestDeadline: a setting outlasts its run, however long the run is.
func TestDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		flow   model.Flow
		settle time.Duration
		most   time.Duration // that the run may take
		enough bool
	}{
		"short":         {model.Flow{Duration: 10 * time.Second, Omit: time.Second}, time.Second, time.Minute, true},
		"hours":         {model.Flow{Duration: 23 * time.Hour}, 0, 23*time.Hour + time.Minute, true},
		"a day":         {model.Flow{Duration: 24 * time.Hour}, 0, 0, false},
		"long settling": {model.Flow{Duration: 12 * time.Hour}, 12 * time.Hour, 0, false},
		"bytes":         {model.Flow{Bytes: 1}, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			within, enough := (&attempt{spec: Spec{Settle: c.settle}, flow: c.flow}).deadline()
			must.True(t, enough == c.enough && within >= c.most && within <= session.MaxDuration,
				"deadline %v, enough %v; want at least %v, %v", within, enough, c.most, c.enough)
		})
	}
}

func TestFlowKnobs(t *testing.T) {
	s := model.Setting{Assignments: []model.Assignment{
		{Knob: "window", Value: "65536"}, {Knob: "streams", Value: "4"}, {Knob: "block", Value: "8192"},
		{Knob: "mss", Value: "536"}, {Knob: "nodelay", Value: "0"}, {Knob: "congestion", Value: "bbr"},
		{Host: model.Far, Knob: "link.mtu", Value: "x"},
	}}
	got, err := knob.WithSetting(model.Flow{Engine: "e", Duration: 1}, s)
	want := model.Flow{Engine: "e", Duration: 1, Window: 65536, Streams: 4, Block: 8192, MSS: 536, Nagle: true, Congestion: "bbr"}
	must.True(t, err == nil && got == want, "%+v, %v", got, err)
	must.Fail(t, must.Err(knob.WithSetting(model.Flow{}, model.Setting{Assignments: []model.Assignment{{Knob: "mss", Value: "big"}}})), "no error")
}

func TestCopyKnobs(t *testing.T) {
	before := traffic.Write(files.Params{Mode: files.Copy, Sync: true})
	s := model.Setting{Assignments: []model.Assignment{
		{Knob: "copy.mode", Value: "read"}, {Knob: "copy.source", Value: "disk"}, {Knob: "copy.sink", Value: "/srv"},
	}}
	got, err := knob.WithSetting(model.Flow{Engine: files.Name, Params: before}, s)
	want := traffic.Write(files.Params{Mode: files.Read, Source: "disk", Sink: "/srv", Sync: true})
	must.True(t, err == nil && got.Params == want, "%+v, %v", got.Params, err)
	got, err = knob.WithSetting(model.Flow{Engine: files.Name}, s)
	c, ok := files.Of(got)
	must.True(t, err == nil && ok && c.Sink == "/srv", "without a copy before: %+v, %v", got.Params, err)
	for id, value := range map[model.KnobID]string{"copy.sink": "/srv", "rate": "1000"} {
		s.Assignments = []model.Assignment{{Knob: id, Value: value}}
		must.Say(t, must.Err(knob.WithSetting(model.Flow{Engine: "tcpbulk"}, s)), "not to engine tcpbulk", "%s of a flow that has none", id)
	}
}

// TestAlone: the end that does a part of a copy alone is the measuring one.
func TestAlone(t *testing.T) {
	for mode, host := range map[string]model.Host{
		files.Copy: model.Far, files.Network: model.Far, files.Write: model.Far,
		files.Read: model.Near, files.Memory: model.Near,
	} {
		for _, said := range []model.Host{model.Near, model.Far} {
			a := &attempt{
				Runner: &Runner{ends: [2]*session.Client{{}, {}}, kinds: traffic.Kinds{files.Kind()}},
				flow:   model.Flow{Engine: files.Name, Direction: model.To, Bytes: 1000, Params: traffic.Write(files.Params{Mode: mode})},
			}
			a.run.Ends = []model.EndReport{{Host: said, Flows: []model.FlowReport{
				{Direction: model.To, Role: model.Receiver, Bytes: 1000, Window: time.Second},
			}}}
			must.Equal(t, a.judge() == nil, said == host, "mode %s, reported by %s", mode, said)
		}
	}
}

// TestNothingWithLargePackets: the error names what a new MTU does to a path that drops large
// packets.
func TestNothingWithLargePackets(t *testing.T) {
	for knob, want := range map[model.KnobID]string{
		"link.mtu": "no bytes arrived in direction to: packets of 9000 bytes may vanish on the way; linerate set link.mtu=9000 --both finds out where",
		"tcp.sack": "no bytes arrived in direction to",
	} {
		a := &attempt{Runner: &Runner{ends: [2]*session.Client{{}, {}}}, flow: model.Flow{Direction: model.To, Duration: time.Second}}
		a.spec.Setting.Assignments = []model.Assignment{{Knob: knob, Value: "9000"}}
		a.run.Ends = []model.EndReport{{Host: model.Far, Flows: []model.FlowReport{{Direction: model.To, Role: model.Receiver, Window: time.Second}}}}
		err := a.judge()
		must.True(t, err != nil && strings.HasSuffix(err.Error(), want), "%s: %v", knob, err)
	}
}

// TestLastWordsAreHeard: the counts of the remaining end are always reported, even if the wait
// for the lost end, which comes first, uses up the time.
func TestLastWordsAreHeard(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			lost := &end{client: &session.Client{}, done: make(chan struct{})}
			left := &end{client: &session.Client{}, done: make(chan struct{}), report: model.EndReport{Host: model.Near, Counters: []model.Counter{
				{Name: "counters_read", Of: "nic", Value: 1}, {Name: "nic_carrier_down", Of: "eth0", Value: 1},
			}}}
			close(left.done)
			err := cutOff(t.Context(), ErrContact, []*end{lost, left})
			must.Need(t, strings.Contains(err.Error(), "the link was lost once"), "%v", err)
		})
	}
}

// A setting is in force for the whole run: settling, probing without load, warm-up, measuring,
// and the time that opening and stopping may take.
func TestDeadlineCoversTheWholeRun(t *testing.T) {
	for name, f := range map[string]model.Flow{
		"plain":       {Omit: 3 * time.Second, Duration: 10 * time.Second},
		"idle before": {Omit: 3 * time.Second, Duration: 10 * time.Second, Lead: 2 * time.Minute},
	} {
		a := attempt{spec: Spec{Settle: 2 * time.Second}, flow: f}
		within, enough := a.deadline()
		least := 2*time.Second + f.Length() + openingTime + overtime
		must.True(t, within >= least && enough, "%s: %v, enough %v, want at least %v", name, within, enough, least)
		a.more = 4 // hosts with four times the usual patience, by --timeout
		slow, _ := a.deadline()
		must.True(t, slow == within+3*(openingTime+overtime+slack), "%s: %v on slow hosts, %v on others", name, slow, within)
	}
	if f := (model.Flow{Duration: time.Second, Lead: time.Minute}); f.Length() != 61*time.Second {
		t.Errorf("a run with a minute of idling lasts %v", f.Length())
	}
}
