package cli

import (
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"linerate/internal/app"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/report/term"
	uilive "linerate/internal/ui/live"
	"linerate/internal/ui/screen"
)

// live shows the progress of a session: one line that is redrawn on a terminal, or one every few
// seconds elsewhere; and after each block of an experiment the state of its settings. Its caller
// never waits for the terminal: a separate goroutine writes.
type live struct {
	app      *console
	quiet    bool
	terminal bool
	whole    *uilive.State // everything known about the session
	stop     chan struct{}
	done     chan struct{}

	mu    sync.Mutex
	lines []said        // still to be written
	news  chan struct{} // signals that there are some

	intervals *term.Intervals // of a test whose intervals are data; else nil
}

// intervals are the lines of a test in iperf3's form.
type intervals = term.Intervals

// said is a line to be written: a message, or data of a test.
type said struct {
	text string
	data bool
}

// How often to redraw the line, for its clock, and how often to write one without a terminal.
const (
	redraw      = 250 * time.Millisecond
	writeAgain  = 5 * time.Second
	pipeColumns = 100
)

func (a *console) newLive(s model.Session) *live {
	l := &live{
		app: a, quiet: a.quiet, terminal: a.ErrTerminal && a.Getenv("TERM") != "dumb", whole: uilive.New(s, a.Now),
		stop: make(chan struct{}), done: make(chan struct{}), news: make(chan struct{}, 1),
	}
	switch {
	case s.Kind == model.KindTune:
		a.search = l.whole
	case s.Kind == model.KindRun && a.search != nil:
		l.whole.Follow(a.search)
	}
	if l.intervals = a.intervals; l.intervals != nil {
		l.intervals.Name = s.Names().Of
	}
	if l.quiet && l.intervals == nil {
		close(l.done)
		return l
	}
	go l.loop()
	return l
}

// loop writes until stop is closed.
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
			screen.Line(l.app.Err, "")
			return
		case <-l.news:
			if l.flush() {
				tick.Reset(every) // something was just written
			}
		case <-tick.C:
			l.draw()
		}
	}
}

// draw writes the progress: over the previous line, or without a terminal as a new line.
func (l *live) draw() {
	if l.quiet || l.intervals != nil && l.intervals.Every || l.app.watched.now() != nil {
		return // the intervals or the screen show it
	}
	if !l.terminal {
		fmt.Fprintln(l.app.Err, l.whole.Line(pipeColumns))
		return
	}
	screen.Line(l.app.Err, l.whole.Line(max(20, l.app.Width()-1)))
}

// flush writes the queued lines above the progress line.
func (l *live) flush() bool {
	l.mu.Lock()
	lines := l.lines
	l.lines = nil
	l.mu.Unlock()
	if len(lines) == 0 {
		return false
	}
	for _, one := range lines {
		switch w := l.app.watched.now(); {
		case w != nil && !one.data:
			w.Say(one.text)
		case one.data:
			screen.Line(l.app.Err, "") // which may be the same terminal
			fmt.Fprintln(l.app.Out, one.text)
		case l.app.ErrTerminal && utf8.RuneCountInString(one.text) > l.app.Width(): // tables are no wider
			l.app.errLine("", one.text)
		default:
			fmt.Fprintln(l.app.Err, one.text)
		}
	}
	return true
}

// data queues lines of a test for stdout. The caller holds mu.
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

// observe processes an event of the experiment.
func (l *live) observe(e app.Event) {
	l.whole.Observe(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.quiet {
		for _, text := range l.whole.News(e, l.app.watched.now() != nil, max(40, l.app.Width())) {
			l.say(said{text: plain.Line(text)})
		}
	}
	if l.intervals == nil {
		return
	}
	switch e := e.(type) {
	case app.RunBegan:
		l.intervals.Begin()
	case app.Sampled:
		l.data(l.intervals.Add(e.Samples))
	case app.RunEnded:
		l.data(l.intervals.End(e.Run))
	}
}
