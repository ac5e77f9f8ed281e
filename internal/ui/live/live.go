// Package live is the screen that a person watches while linerate measures: what happens now,
// how fast both directions are, the state of each setting, and how long it may take. A State
// collects events and is drawn as text of any size; a Screen shows one on a terminal, and then
// restores the terminal.
package live

import (
	"slices"
	"sync"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/report"
)

// How much of the past a State keeps: rates of a direction, lines, and finished runs.
const (
	keptRates = 120
	keptLines = 50
	keptRuns  = 200
)

// Pause is the state of a pause that the user asked for.
type Pause int

// All values of Pause.
const (
	Going   Pause = iota
	Pausing       // after the current run
	Paused
)

// State is the state of a running session. It is safe for concurrent use. Updates cost next to
// nothing: other goroutines draw it when they like.
type State struct {
	mu    sync.Mutex
	now   func() time.Time
	began time.Time

	session model.Session
	names   model.Names
	at      app.Progress
	run     app.Progress // of the run that began last
	heard   time.Time    // when at arrived
	phase   string
	command string // that the session belongs to
	stage   string // of a search: "search" or "proof"
	ways    []*way
	stands  []report.Standing
	lead    evidence
	ideas   []tune.Fate
	decides metric.Info // for ideas
	runs    int         // started runs
	ended   []model.Run
	lines   []string
	shown   map[string]bool // keys that News has already reported

	earlier     time.Duration // work of the session that this one follows
	runsBefore  int           // of that session
	whole       time.Duration // estimated remaining time of a search and its proof; 0 is unknown
	wholeAt     time.Duration // work at the time of that estimate
	done        float64       // share of the total that was shown
	pause       Pause
	pausedSince time.Time
	still       []string // settings that a pause found changed
}

// way is one direction.
type way struct {
	direction model.Direction
	tells     WayNow // the intervals of the current run, or of the last one
	measured  mean   // of the intervals after the warm-up
	received  bool   // the intervals are the receiver's
	running   bool
	stale     bool // the data are from the run before the current one
	trip      fact.Of[time.Duration]
	probed    bool // trip is from probes beside the load
	whole     curve
	base      mean // of the unchanged settings
}

// evidence is about the leader among the undecided settings.
type evidence struct {
	setting      string
	has, decides float64
}

// New returns the state of a new session.
func New(s model.Session, now func() time.Time) *State {
	t := &State{now: now, began: now(), heard: now(), session: s, names: s.Names(), phase: "beginning", command: string(s.Kind), shown: map[string]bool{}}
	if s.Kind == model.KindTune {
		t.stage = "search"
	}
	if len(s.Plan.Settings) > 1 && s.Kind == model.KindRun {
		t.stands = waiting(s.Plan)
	}
	for _, d := range directions(s.Plan) {
		t.ways = append(t.ways, &way{direction: d})
	}
	t.at.MaxBlocks = len(s.Plan.Order)
	if s.Plan.Timed() {
		t.at.AtMost = time.Duration(s.Plan.Runs()) * s.Plan.RunLength()
	}
	return t
}

// waiting returns the settings of p before their first block.
func waiting(p model.Plan) []report.Standing {
	var all []report.Standing
	for _, d := range directions(p) {
		for _, s := range p.Settings {
			if s.Name != p.Baseline && s.Name != p.Twin {
				all = append(all, report.Standing{Setting: s.Name, Direction: d, Outcome: model.Undecided, Text: "no block yet"})
			}
		}
	}
	return all
}

// directions returns the directions of p's runs, each alone.
func directions(p model.Plan) []model.Direction {
	var all []model.Direction
	given := p.Directions
	if len(given) == 0 && len(p.Tests) == 0 {
		given = []model.Direction{p.Flow.Direction}
	}
	for _, t := range p.Tests {
		given = append(slices.Clone(given), t.Flow.Direction)
	}
	for _, d := range given {
		all = lists.Once(all, d.Parts()...)
	}
	return all
}

// Observe processes an event.
func (t *State) Observe(e app.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := e.(interface{ At() app.Progress }); ok {
		t.at, t.heard = e.At(), t.now()
	}
	switch e := e.(type) {
	case app.RunBegan:
		t.phase, t.run = "preparing", e.Progress
		t.runs++
		for _, l := range t.ways {
			l.running = slices.Contains(e.Direction.Parts(), l.direction)
			l.stale = l.running
		}
	case app.Sampled:
		for _, s := range e.Samples {
			t.sample(s)
		}
	case app.RunEnded:
		t.phase = "between runs"
		for _, l := range t.ways {
			l.running = false
			if e.Run.Setting == t.session.Plan.Baseline {
				if v, ok := e.Run.Value(l.direction, model.Goodput); ok && e.Run.State == model.RunValid {
					l.base.add(v)
				}
			}
		}
		t.ended = append(t.ended, e.Run)
		t.ended = t.ended[max(0, len(t.ended)-keptRuns):]
		if e.Run.State == model.RunInvalid {
			t.say("run " + e.Run.Setting + " does not count: " + e.Run.Reason)
		}
	case app.CoolingDown:
		t.phase = "cooling down"
	case app.Reconnecting:
		t.phase = "connecting again"
	case app.BlockEnded:
		t.block(e)
	case app.Searched:
		t.ideas, t.decides = e.Record.Ideas, metric.Describe(e.Record.Options.Objective)
		if e.Left > 0 {
			t.whole, t.wholeAt = e.Left, t.worked()
		}
	}
}

// sample processes one sample.
func (t *State) sample(s model.Sample) {
	if of := s.Metric; s.Of != "" || of != model.Goodput && of != model.Sent && of != model.LatencyP50 && of != model.RTT {
		return
	}
	i := slices.IndexFunc(t.ways, func(l *way) bool { return l.direction == s.Direction })
	if i < 0 {
		if i = 0; len(t.ways) != 1 || s.Direction != "" {
			return
		}
	}
	l := t.ways[i]
	if l.stale {
		*l = way{direction: l.direction, running: true, tells: WayNow{Direction: l.direction}, whole: l.whole, base: l.base}
	}
	switch s.Metric {
	case model.Goodput, model.Sent:
		if s.Metric == model.Sent && l.received {
			return // data handed to the kernel say less
		}
		if s.Metric == model.Goodput && !l.received {
			l.measured, l.tells.Rates, l.received = mean{}, nil, true
		}
		t.phase = "measuring"
		if s.WarmsUp(t.session.Plan.Flow.Omit) {
			t.phase = "warming up"
		}
		if !s.Omitted {
			l.measured.add(s.Value)
			if s.Metric == model.Goodput {
				l.whole.add(s.Value)
			}
		}
		l.tells.Rates = kept(l.tells.Rates, s)
	case model.LatencyP50:
		t.phase = "measuring"
		if !l.probed {
			l.tells.Trips = nil
		}
		l.trip, l.probed, l.tells.Trips = fact.Known(seconds(s.Value), "probes"), true, kept(l.tells.Trips, s)
	case model.RTT:
		if !l.probed {
			l.trip, l.tells.Trips = fact.Known(seconds(s.Value), "sender"), kept(l.tells.Trips, s)
		}
	default:
	}
}

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// block processes the results of all blocks so far.
func (t *State) block(e app.BlockEnded) {
	if t.session.Kind != model.KindRun {
		return
	}
	p := t.session.Plan
	if all := report.Standings(p, e.Result.Verdicts); len(all) > 0 {
		t.stands = all
	}
	t.lead = evidence{}
	for _, v := range e.Result.Verdicts {
		if !p.DecidedBy(&v) || v.Outcome != model.Undecided || v.Evidence == nil {
			continue
		}
		if *v.Evidence > t.lead.has {
			t.lead = evidence{v.Setting, *v.Evidence, e.Result.Enough}
		}
	}
}

// Say adds a line for the user.
func (t *State) Say(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.say(line)
}

func (t *State) say(line string) {
	if line = plain.Line(line); line != "" && (len(t.lines) == 0 || t.lines[len(t.lines)-1] != line) {
		t.lines = append(t.lines, line)
		t.lines = t.lines[max(0, len(t.lines)-keptLines):]
	}
}

// TogglePause requests a pause after the current run, or resumes, and returns the new state.
func (t *State) TogglePause() Pause {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pause == Going {
		t.pause = Pausing
	} else {
		t.pause = Going
	}
	return t.pause
}

// Rest is called between two runs: it reports whether the session shall wait now. still lists
// settings that are no longer as they were.
func (t *State) Rest(still []string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.pause {
	case Pausing:
		t.pause, t.pausedSince, t.still = Paused, t.now(), still
	case Going, Paused:
	}
	return t.pause == Paused
}

// left returns the most that the session may still take; for a search, about how long it takes.
func (t *State) left() (time.Duration, bool) {
	if t.whole > 0 {
		return max(0, t.whole-(t.worked()-t.wholeAt)), true
	}
	if t.at.AtMost <= 0 {
		return 0, false
	}
	return max(0, t.at.AtMost-t.since()), true
}

// since returns the time since the last event, without pauses.
func (t *State) since() time.Duration {
	if t.pause == Paused {
		return t.pausedSince.Sub(t.heard)
	}
	return t.now().Sub(t.heard)
}

// worked returns the session's duration, without pauses.
func (t *State) worked() time.Duration { return t.earlier + t.at.Elapsed + t.since() }

// rate returns the current rate of a way, or between runs the mean of its last run.
func (l *way) rate() (units.BitRate, bool) {
	switch {
	case len(l.tells.Rates) == 0:
		return 0, false
	case l.running && !l.stale || l.measured.n == 0:
		return units.BitRate(l.tells.Rates[len(l.tells.Rates)-1].Value), true
	}
	return units.BitRate(l.measured.value()), true
}
