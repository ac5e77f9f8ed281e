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

// Progress is the progress of an experiment. The events between TrialBegan and TrialEnded
// include it.
type Progress struct {
	Block, MaxBlocks      int // 1…
	Position, RunsInBlock int // of the run in its block, 1…; 0 between runs
	Setting               string
	Direction             model.Direction
	Elapsed               time.Duration // since TrialBegan
	AtMost                time.Duration // left, if all pending blocks are needed; 0 if unknown
}

// BlockBegan begins a block of runs.
type BlockBegan struct{ Progress }

// RunBegan begins a run: its setting is about to be applied.
type RunBegan struct{ Progress }

// Sampled holds new samples of the run from one host.
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

// Reconnecting reports that new sessions with the hosts are being opened, after contact was
// lost.
type Reconnecting struct{ Progress }

// BlockEnded is the analysis of all complete blocks so far.
type BlockEnded struct {
	Progress
	Result analysis.Result
}

// TrialEnded ends the runs of a session, whatever the outcome.
type TrialEnded struct{}

// Searched is the progress of a search for settings: before its first run, and after each
// finding.
type Searched struct {
	Step   tune.Step // the next step
	Record tune.Record
	Left   time.Duration // estimate for the search and its proof together, if what it tries helps a lot
}

// At returns the progress of any event that includes it.
func (p Progress) At() Progress { return p }
