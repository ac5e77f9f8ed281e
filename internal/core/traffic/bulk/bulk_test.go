package bulk

import (
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// TestSection: each path has a row in the order of the directions, with the median over runs of
// the sum of a run's streams; a hint where MPTCP had only one path.
func TestSection(t *testing.T) {
	path := func(stream int, from string, bytes units.Bytes) model.Subflow {
		return model.Subflow{Stream: stream, From: from, To: "10.0.0.9", Bytes: bytes, RTT: fact.Known(20*time.Millisecond, "test"), Retransmits: 2}
	}
	run := func(d model.Direction, all ...model.Subflow) model.Run {
		return model.Run{Ends: []model.EndReport{{Flows: []model.FlowReport{{Direction: d, Window: 2 * time.Second, Subflows: all}}}}}
	}
	told := func(runs ...model.Run) traffic.Measured {
		return traffic.Measured{Runs: runs, Label: func(d model.Direction) string { return string(d) }}
	}
	must.True(t, section(told(run(model.To))) == nil, "a section without a subflow")
	s := section(told(run(model.From, path(1, "10.0.0.3", 250)), run(model.To, path(1, "10.0.0.1", 500), path(2, "10.0.0.1", 500), path(1, "10.0.0.2", 250)), run(model.To, path(1, "10.0.0.1", 500))))
	must.True(t, s.Beside, "in place of the directions' lines")
	must.Same(t, s.Data.([]Subflow), []Subflow{
		{model.To, "10.0.0.1", "10.0.0.9", 3000, 20 * time.Millisecond, 6},
		{model.To, "10.0.0.2", "10.0.0.9", 1000, 20 * time.Millisecond, 2},
		{model.From, "10.0.0.3", "10.0.0.9", 1000, 20 * time.Millisecond, 2},
	})
	must.Len(t, s.Blocks, 3, "blocks with two paths")
	must.Contain(t, section(told(run(model.To, path(1, "10.0.0.1", 1)))).Blocks[2].Text, "ip mptcp endpoint add")
}
