package cli

import (
	"fmt"
	"sync"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/report/term"
	"linerate/internal/ui/screen"
)

// live shows how a session goes on: one line that is drawn over on a terminal,
// a line per block elsewhere.
type live struct {
	app      *console
	quiet    bool
	terminal bool
	kind     model.Kind

	mu       sync.Mutex
	state    term.Progress
	drawn    bool
	hopeless bool // the user was told
	stop     chan struct{}
	done     chan struct{}
	since    time.Time

	objective model.Metric
	told      map[string]bool // what was said of a search already
}

// redraw is how often the line is drawn: the clock in it moves on.
const redraw = 250 * time.Millisecond

func (a *console) newLive(s model.Session) *live {
	l := &live{
		app: a, quiet: a.quiet, terminal: a.ErrTerminal && a.Getenv("TERM") != "dumb", kind: s.Kind,
		stop: make(chan struct{}), done: make(chan struct{}), since: a.Now(),
	}
	l.objective, l.told = s.Plan.Decides(), map[string]bool{}
	l.state.MaxBlocks = len(s.Plan.Order)
	l.state.AtMost = expected(s.Plan)
	if l.quiet || !l.terminal {
		close(l.done)
		return l
	}
	go l.loop()
	return l
}

func (l *live) loop() {
	defer close(l.done)
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			l.mu.Lock()
			l.draw()
			l.mu.Unlock()
		}
	}
}

// draw writes the line over the one before.
func (l *live) draw() {
	p := l.state
	passed := l.app.Now().Sub(l.since)
	p.AtMost = max(0, p.AtMost-(passed-p.Elapsed))
	p.Elapsed = passed
	screen.Styled(l.app.Err, screen.Redraw+p.Line(max(20, l.app.Width()-1), false))
	l.drawn = true
}

// observe takes in what the experiment tells.
func (l *live) observe(e app.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.state
	if e, ok := e.(interface{ At() app.Progress }); ok {
		p := e.At()
		s.Block, s.MaxBlocks, s.Elapsed, s.AtMost = p.Block, p.MaxBlocks, p.Elapsed, p.AtMost
		if p.RunsInBlock > 0 {
			s.Runs = p.RunsInBlock
		}
	}
	switch e := e.(type) {
	case app.RunBegan:
		s.Run, s.Setting, s.Direction, s.Phase = e.Position, e.Setting, arrow(e.Direction), "preparing"
		s.Rate = fact.Unknown[units.BitRate]("no interval yet")
	case app.Sampled:
		l.sample(e)
	case app.RunEnded:
		l.ended(e.Run)
	case app.Searched:
		l.searched(e)
	case app.CoolingDown:
		s.Phase = "cooling down"
	case app.Reconnecting:
		s.Phase = "connecting again"
	case app.BlockEnded:
		l.blockEnded(e)
	}
}

// sample shows the rate of the last interval at the receiver.
func (l *live) sample(ev app.Sampled) {
	rate, found := 0.0, false
	for _, m := range ev.Samples {
		if l.kind == model.KindSweep && m.Metric == model.LatencyP50 {
			l.state.Phase = "measuring"
		}
		if m.Metric == model.Goodput {
			rate, found = m.Value, true
			l.state.Phase = "measuring"
			if m.Omitted {
				l.state.Phase = "warming up"
			}
		}
	}
	if found {
		l.state.Rate = fact.Known(units.BitRate(rate), "receiver")
	}
}

// searched says how a search for settings goes on: what was learnt, what is in play.
func (l *live) searched(ev app.Searched) {
	for _, text := range term.Searched(ev.Step, ev.Record, l.told) {
		l.line(text)
	}
}

// ended tells what a person should know at once: an invalid run.
func (l *live) ended(r model.Run) {
	if r.State != model.RunValid && l.kind == model.KindRun { // a test ends with it, and says so then
		l.line(fmt.Sprintf("block %d: run of %s is %s: %s", r.Block, r.Setting, r.State, r.Reason))
	}
}

// blockEnded shows the evidence so far, as provisional as it is.
func (l *live) blockEnded(ev app.BlockEnded) {
	s := &l.state
	s.Evidence = fact.Unknown[float64]("none yet")
	decided, open := 0, 0
	for _, v := range ev.Result.Verdicts {
		if v.IsTwin || v.Metric != l.objective {
			continue
		}
		if v.Outcome != model.Undecided {
			decided++
			continue
		}
		open++
		if e := v.Evidence; e != nil && *e > s.Evidence.Or(0) {
			s.Evidence, s.Comparison, s.EnoughIs = fact.Known(*e, "sign evidence"), v.Setting, ev.Result.Enough
		}
	}
	if ev.Result.Hopeless && !l.hopeless {
		l.hopeless = true
		l.line("what is still open is not likely to be decided in the blocks that are left; ctrl-c keeps what there is")
	}
	if l.terminal || l.kind != model.KindRun {
		return
	}
	text := fmt.Sprintf("block %d/%d done, %d of %d comparisons decided, %s elapsed",
		ev.Block, ev.MaxBlocks, decided, decided+open, units.FormatDuration(ev.Elapsed.Round(time.Second)))
	if more := ev.AtMost.Round(time.Second); more > 0 {
		text += ", at most " + units.FormatDuration(more) + " more"
	}
	l.line(text)
}

// line prints a line above the moving one.
func (l *live) line(text string) {
	if l.quiet {
		return
	}
	if l.drawn {
		screen.Styled(l.app.Err, screen.Redraw)
		l.drawn = false
	}
	fmt.Fprintln(l.app.Err, plain.Line(text))
}

// close ends the display and leaves a clean line.
func (l *live) close() {
	close(l.stop)
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drawn {
		screen.Styled(l.app.Err, screen.Redraw)
	}
}

func arrow(d model.Direction) string {
	switch d {
	case model.From:
		return "b -> a"
	case model.Both:
		return "a <-> b"
	default:
		return "a -> b"
	}
}
