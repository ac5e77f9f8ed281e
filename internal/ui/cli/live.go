package cli

import (
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"linerate/internal/app"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/report"
	"linerate/internal/report/term"
	uilive "linerate/internal/ui/live"
	"linerate/internal/ui/screen"
)

// live shows how a session goes on: one line that is drawn over on a terminal, and
// one every few seconds elsewhere; and after each block of an experiment how its
// settings stand. Who tells it what happens never waits for the terminal: a goroutine
// of its own writes.
type live struct {
	app      *console
	quiet    bool
	terminal bool
	plan     model.Plan
	kind     model.Kind
	names    model.Names
	whole    *uilive.State // all that is known of the session
	stop     chan struct{}
	done     chan struct{}

	mu       sync.Mutex
	lines    []said          // to be written
	news     chan struct{}   // there are some
	decided  map[string]bool // comparisons that the user was told of
	hopeless bool            // the user was told
	told     map[string]bool // what was said of a search already

	intervals *term.Intervals // of a test whose intervals are data; nil without
	drawn     bool            // the moving line stands there; of the goroutine that writes
}

// intervals are the lines of a test as iperf3 has them.
type intervals = term.Intervals

// said is a line to be written: talk, or data of a test.
type said struct {
	text string
	data bool
}

// How often the moving line is drawn, for the clock in it, and how often a line is
// written where there is no terminal.
const (
	redraw      = 250 * time.Millisecond
	writeAgain  = 5 * time.Second
	pipeColumns = 100
)

func (a *console) newLive(s model.Session) *live {
	l := &live{
		app: a, quiet: a.quiet, terminal: a.ErrTerminal && a.Getenv("TERM") != "dumb", kind: s.Kind, plan: s.Plan, names: s.Names(),
		stop: make(chan struct{}), done: make(chan struct{}), news: make(chan struct{}, 1), decided: map[string]bool{}, told: map[string]bool{},
	}
	l.whole = uilive.New(s, a.Now)
	switch {
	case s.Kind == model.KindTune:
		a.search = l.whole
	case s.Kind == model.KindRun && a.search != nil:
		l.whole.Follow(a.search)
	}
	if l.intervals = a.intervals; l.intervals != nil {
		l.intervals.Name = l.names.Of
	}
	if l.quiet && l.intervals == nil {
		close(l.done)
		return l
	}
	go l.loop()
	return l
}

// loop writes, until stop.
func (l *live) loop() {
	defer close(l.done)
	every := redraw
	if !l.terminal {
		every = writeAgain
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			l.flush()
			if l.drawn {
				screen.Styled(l.app.Err, screen.Redraw)
			}
			return
		case <-l.news:
			if l.flush() {
				tick.Reset(every) // somebody has just heard something
			}
		case <-tick.C:
			l.draw()
		}
	}
}

// draw writes how it stands: over the line before, or where there is no terminal as a
// line.
func (l *live) draw() {
	if l.quiet || l.intervals != nil && l.intervals.Every || l.app.watched.now() != nil {
		return // the intervals or the screen say it
	}
	p := l.whole.Progress()
	if !l.terminal {
		fmt.Fprintln(l.app.Err, p.Line(pipeColumns, false))
		return
	}
	screen.Styled(l.app.Err, screen.Redraw+p.Line(max(20, l.app.Width()-1), false))
	l.drawn = true
}

// flush writes the lines that wait, above the moving one.
func (l *live) flush() bool {
	l.mu.Lock()
	lines := l.lines
	l.lines = nil
	l.mu.Unlock()
	if len(lines) == 0 {
		return false
	}
	if l.drawn {
		screen.Styled(l.app.Err, screen.Redraw)
		l.drawn = false
	}
	for _, one := range lines {
		switch w := l.app.watched.now(); {
		case w != nil && !one.data:
			w.Say(one.text)
		case one.data:
			fmt.Fprintln(l.app.Out, one.text)
		case l.app.ErrTerminal && utf8.RuneCountInString(one.text) > l.app.Width(): // tables are no wider
			l.app.errLine("", one.text)
		default:
			fmt.Fprintln(l.app.Err, one.text)
		}
	}
	return true
}

// line has a line written, for a caller that holds mu.
func (l *live) line(text string) {
	if !l.quiet {
		l.say(said{text: plain.Line(text)})
	}
}

// data has lines of a test written to stdout, for a caller that holds mu.
func (l *live) data(lines []string) {
	for _, text := range lines {
		l.say(said{plain.Line(text), true})
	}
}

func (l *live) say(one said) {
	l.lines = append(l.lines, one)
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// close ends the display and leaves a clean line.
func (l *live) close() {
	close(l.stop)
	<-l.done
}

// observe takes in what the experiment tells.
func (l *live) observe(e app.Event) {
	l.whole.Observe(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e := e.(type) {
	case app.RunBegan:
		if l.intervals != nil {
			l.intervals.Begin()
		}
	case app.Sampled:
		if l.intervals != nil {
			l.data(l.intervals.Add(e.Samples))
		}
	case app.RunEnded:
		l.ended(e.Run)
		if l.intervals != nil {
			l.data(l.intervals.End(e.Run))
		}
	case app.Searched:
		l.searched(e)
	case app.BlockEnded:
		l.blockEnded(e)
	}
}

// searched says how a search for settings goes on: what was learnt, what is in play.
func (l *live) searched(ev app.Searched) {
	for _, text := range term.Searched(ev.Step, ev.Record, l.names, l.told) {
		l.line(text)
	}
	left := units.FormatDuration(ev.Left.Round(time.Second))
	switch phase := fmt.Sprint("phase ", ev.Step.Kind, ev.Step.Settings); {
	case ev.Left > 0 && len(ev.Record.Inputs) == 0:
		first := time.Duration(max(1, len(l.plan.Directions))) * l.plan.RunLength()
		l.line(fmt.Sprintf("about %s in all where a setting helps a lot, %s where there is nothing to gain", left, units.FormatDuration(first.Round(time.Second))))
	case ev.Left > 0 && ev.Step.Kind != tune.KindLook && !l.told[phase]:
		l.told[phase] = true
		l.line("about " + left + " more in all")
	}
}

// ended tells what a person should know at once: an invalid run.
func (l *live) ended(r model.Run) {
	if r.State != model.RunValid && r.State != model.RunEqualLoad && l.kind == model.KindRun && l.app.watched.now() == nil { // a test ends with it, and says so then
		l.line(fmt.Sprintf("block %d: run of %s is %s: %s", r.Block, r.Setting, r.State, r.Reason))
	}
}

// blockEnded shows how each setting stands: what is decided with this block first,
// and the rest as provisional as it is.
func (l *live) blockEnded(ev app.BlockEnded) {
	if l.kind != model.KindRun {
		return
	}
	if l.app.watched.now() != nil {
		return // the screen has a table of them
	}
	all := report.Standings(l.plan, ev.Result.Verdicts)
	open := slices.DeleteFunc(slices.Clone(all), func(s report.Standing) bool { return s.Outcome != model.Undecided })
	news := slices.DeleteFunc(slices.Clone(all), func(s report.Standing) bool {
		key := string(s.Direction) + " " + s.Setting
		known := s.Outcome == model.Undecided || l.decided[key]
		l.decided[key] = l.decided[key] || s.Outcome != model.Undecided
		return known
	})
	elapsed := l.whole.Progress().Elapsed
	text := fmt.Sprintf("block %d/%d done, %d of %d comparisons decided, %s elapsed",
		ev.Block, ev.MaxBlocks, len(all)-len(open), len(all), units.FormatDuration(elapsed.Round(time.Second)))
	if more := ev.AtMost.Round(time.Second); more > 0 {
		text += ", at most " + units.FormatDuration(more) + " more"
	}
	l.line(text)
	if len(news) > 0 {
		l.line(" decided:")
		l.standings(news)
	}
	if len(open) > 0 && ev.Result.Blocks > 0 {
		l.line(fmt.Sprintf(" so far, against %s:", l.plan.Baseline))
		l.standings(open)
	}
	if ev.Result.Hopeless && !l.hopeless {
		l.hopeless = true
		l.line("what is still open is not likely to be decided in the blocks that are left; ctrl-c keeps what there is")
	}
}

func (l *live) standings(all []report.Standing) {
	for _, text := range term.Standings(all, l.names.Arrow, max(40, l.app.Width())) {
		l.line(text)
	}
}
