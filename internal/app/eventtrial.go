package app

import (
	"time"

	"linerate/internal/core/analysis"
	"linerate/internal/core/model"
	"linerate/internal/core/tune"
)

// The closed list of the events of an experiment, from its beginning to its end.
func (TrialBegan) event()   {}
func (BlockBegan) event()   {}
func (RunBegan) event()     {}
func (Sampled) event()      {}
func (RunEnded) event()     {}
func (CoolingDown) event()  {}
func (Reconnecting) event() {}
func (BlockEnded) event()   {}
func (TrialEnded) event()   {}
func (Searched) event()     {}

// TrialBegan begins the runs of a session.
type TrialBegan struct{ Session model.Session }

// Progress is how far an experiment is. The events between TrialBegan and TrialEnded
// have it.
type Progress struct {
	Block, MaxBlocks      int // 1…
	Position, RunsInBlock int // of the run in its block, 1…; 0 between runs
	Setting               string
	Direction             model.Direction
	Elapsed               time.Duration // since TrialBegan
	AtMost                time.Duration // left, if all pending blocks are needed
}

// BlockBegan begins a block of runs.
type BlockBegan struct{ Progress }

// RunBegan begins a run: its setting is about to be applied.
type RunBegan struct{ Progress }

// Sampled are samples of the run, of one host.
type Sampled struct {
	Progress
	Samples []model.Sample
}

// RunEnded is a run that is over, valid or not.
type RunEnded struct {
	Progress
	Run model.Run
}

// CoolingDown is the wait between two runs.
type CoolingDown struct{ Progress }

// Reconnecting begins new sessions with the hosts, after contact was lost.
type Reconnecting struct{ Progress }

// BlockEnded is what follows from all complete blocks so far.
type BlockEnded struct {
	Progress
	Result analysis.Result
}

// TrialEnded ends the runs of a session, however it ends.
type TrialEnded struct{ Session model.Session }

// Searched is how far a search for settings is: before its first run, and after each thing
// that it learnt.
type Searched struct {
	Step   tune.Step // that comes next
	Record tune.Record
	Left   time.Duration // about, of the search and its proof together, where what it tries helps a lot
}

// At returns how far the experiment is, of any event that has it.
func (p Progress) At() Progress { return p }
