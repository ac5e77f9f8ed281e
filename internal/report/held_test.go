package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/plan/plantest"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// A plan that holds a knob says so beforehand and afterwards, with the runs of a group
// and how often a block changes it; another plan says nothing of it.
func TestHeldIsToldWithItsReason(t *testing.T) {
	factors := []model.Factor{plantest.Factor("far.link.mtu", "1500", "9000"), plantest.Factor("window", "65536", "131072", "262144")}
	o := plan.Request{Plan: model.Plan{
		Settings: plantest.Settings(factors...), Factors: factors, Mode: model.FixedBlocks, MaxBlocks: 6, Seed: 3,
		Flow: model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Second}, Directions: []model.Direction{model.To, model.From},
	}}
	for held, want := range map[model.KnobID]string{
		"link.mtu": "link.mtu is held over groups of 6 runs: it is hard to change, so that a block changes it 2 times and not 12, and it is judged by the means of its groups",
		"":         "",
	} {
		o.Held = held
		p := must.Get(plan.New(o))(t)
		d := NewDryRun(model.Session{Plan: p}, fact.Unknown[float64]("not measured"), knob.NewIndex(), nil)
		before, after := strings.Join(d.Outlook, "\n"), ""
		for _, row := range Method(model.Session{Plan: p, Kind: model.KindRun}, Document{}) {
			if row[0] == "held" {
				after = row[1]
			}
		}
		if after != want || want != "" && (d.Held == nil || d.Held.Runs != 6 || d.Held.Changes != 2 || !strings.Contains(before, want)) || want == "" && (d.Held != nil || strings.Contains(before, "held")) {
			t.Errorf("%q: %+v\nbefore: %s\nafter: %s", held, d.Held, before, after)
		}
	}
}

// TestDryRunCountsChanges: a value that a host has already is no change of it; and copies have
// a time, by their bytes and the ceiling of the path.
func TestDryRunCountsChanges(t *testing.T) {
	s := model.Session{Hosts: []model.HostFacts{{Host: model.Far, Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known("32768", "test")}}}}
	for _, v := range []string{"32768", "65536"} {
		s.Plan.Settings = append(s.Plan.Settings, model.Setting{Name: v, Assignments: []model.Assignment{{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: v}, {Host: model.Near, Knob: "tcp.sack", Value: "0"}}})
	}
	var got []string
	for _, c := range NewDryRun(s, fact.Unknown[float64]("not measured"), knob.NewIndex(), nil).Changes {
		got = append(got, c.Host.Of(model.KnobID(c.What))+"="+strings.Join(c.Values, ","))
	}
	must.Equal(t, strings.Join(got, " "), "near.tcp.sack=0 far.tcp.recv_buffer_max=65536")

	s.Plan.Flow.Bytes, s.WireRate = 25e6, fact.Known(units.BitRate(100e6), "test") // 2.1 s a copy, at 94.1 Mbit/s of payload
	s.Plan.Directions, s.Plan.Settle, s.Plan.Order = []model.Direction{model.To}, 2*time.Second, [][]string{{"32768", "65536"}}
	for i := range 2 {
		s.Hosts = append(s.Hosts[:i], model.HostFacts{Host: []model.Host{model.Near, model.Far}[i], MTU: fact.Known(1500, "test")})
	}
	took := NewDryRun(s, fact.Unknown[float64]("not measured"), knob.NewIndex(), nil).Time
	b := builder{s: &s, counted: []model.Run{{Ended: time.Time{}.Add(4 * time.Second)}, {Ended: time.Time{}.Add(6 * time.Second)}}}
	s.Plan.Flow.Duration = 0
	must.Equal(t, b.lasting(6), "1 min", "six blocks of two copies")
	must.True(t, took.Or(0).Round(time.Second) == 9*time.Second, "two copies take %v: %s", took.Or(0), took.Reason())
}

// TestCountedRuns: of a block that was begun again, after an invalid run, an
// interruption or a controller that was killed, only the last try counts; of one that
// was not begun again, what there is.
func TestCountedRuns(t *testing.T) {
	run := func(number, block, attempt int, state model.RunState) model.Run {
		return model.Run{Number: number, Block: block, Attempt: attempt, State: state}
	}
	got := []int{}
	for _, r := range Counted([]model.Run{
		run(1, 1, 1, model.RunValid), run(2, 1, 1, model.RunValid),
		run(3, 2, 1, model.RunValid), // then the controller was killed
		run(4, 2, 2, model.RunValid), run(5, 2, 2, model.RunValid),
		run(6, 3, 1, model.RunValid), run(7, 3, 1, model.RunInvalid),
		run(8, 4, 1, model.RunValid), run(9, 4, 1, model.RunInterrupted),
		run(10, 4, 2, model.RunValid), run(11, 4, 2, model.RunValid),
		run(12, 3, 2, model.RunValid), run(13, 3, 2, model.RunInvalid),
		run(14, 5, 1, model.RunValid), // killed once more, and not resumed
	}) {
		got = append(got, r.Number)
	}
	want := []int{1, 2, 4, 5, 10, 11, 14}
	must.True(t, slices.Equal(got, want), "runs %v count, want %v", got, want)
}
