package experiment

import (
	"cmp"
	"time"

	"linerate/internal/core/analysis"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
)

// EventKind is the kind of an event.
type EventKind int

// The kinds of events.
const (
	BlockStarted EventKind = iota
	RunStarted
	RunSampled
	RunEnded
	CoolingDown
	Reconnecting
	BlockEnded
)

// Event reports progress to an observer. Fields that do not belong to the kind are zero.
type Event struct {
	Kind        EventKind
	Block       int // 1…
	MaxBlocks   int
	Position    int // of the run in its block, 1…
	RunsInBlock int
	Setting     string
	Direction   model.Direction
	Host        model.Host       // RunSampled
	Samples     []model.Sample   // RunSampled
	Run         *model.Run       // RunEnded
	Result      *analysis.Result // BlockEnded
	Elapsed     time.Duration    // since this process started the experiment
	AtMost      time.Duration    // left, if all pending blocks are needed; 0 if unknown, as with a Steer
}

// event fills in the fields that all kinds share.
func (e *experiment) event(ev Event) Event {
	ev.MaxBlocks = len(e.Plan.Order)
	ev.Elapsed = e.Now().Sub(e.started)
	perRun := e.Plan.RunLength()
	if !e.Plan.Timed() {
		perRun = 0
	}
	if e.done > 0 {
		perRun = e.spent/time.Duration(e.done) + e.Plan.Cooldown
	}
	runs := 0
	for _, b := range e.pending {
		runs += e.Plan.RunsIn(b)
	}
	done := max(0, ev.Position-1) // runs of this block
	if ev.Kind == RunEnded {
		done = ev.Position
	}
	if ev.Kind != BlockEnded {
		runs += max(0, ev.RunsInBlock-done)
	}
	ev.AtMost = time.Duration(runs) * perRun
	if n := len(e.Plan.Tests); n > 0 {
		beside := cmp.Or(e.Beside, plan.Beside)
		ev.MaxBlocks, ev.AtMost = n, plan.Left(e.Plan, e.test, beside)
		perRun = ev.AtMost - plan.Left(e.Plan, e.test+1, beside)
		if ev.Kind == RunEnded {
			ev.AtMost -= perRun
		}
	}
	if !e.began.IsZero() { // the current run has used part of its time
		ev.AtMost -= min(e.Now().Sub(e.began), perRun)
	}
	if e.Steer != nil { // it does not know how many blocks it needs
		ev.AtMost = 0
	}
	if b := e.Plan.Budget; b > 0 {
		ev.AtMost = min(ev.AtMost, max(0, b-ev.Elapsed))
	}
	return ev
}
