package live

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"linerate/internal/core/plain"
)

// Every is how often a screen is drawn: often enough for a clock and for rates of an interval,
// and next to nothing compared with a measurement.
const Every = 250 * time.Millisecond

// frames is the highest number of frames per second.
const frames = 5

// Terminal is the terminal that a Screen is shown on.
type Terminal struct {
	In  io.Reader // keys; nil reads none, and leaves them to the terminal
	Out io.Writer
	Env []string // of the process, for the terminal's capabilities
	// ASCII shows only ASCII.
	ASCII bool
	// Own, if set, reports whether to show the terminal's previous content, with the view in
	// one row below it.
	Own func() bool
}

// Screen occupies a whole terminal until it is closed.
type Screen struct {
	program *tea.Program
	done    chan struct{}
	err     error // of the program; valid after done
	once    sync.Once
}

// Show starts to show view, which it calls several times a second. key receives the user's keys:
// "p", "l", and "q" for that and for Ctrl-C. Neither may block.
func Show(ctx context.Context, t Terminal, view func(Size) string, key func(string)) *Screen {
	m := &shown{terminal: t, view: view, key: key, size: Size{80, 24}}
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(t.In), tea.WithOutput(t.Out), tea.WithEnvironment(t.Env), tea.WithFPS(frames), tea.WithoutSignalHandler()}
	s := &Screen{program: tea.NewProgram(m, options...), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_, s.err = s.program.Run()
	}()
	return s
}

// Ended returns a channel that is closed when the terminal is restored.
func (s *Screen) Ended() <-chan struct{} { return s.done }

// Err returns why nothing could be shown, once the screen is closed; else nil.
func (s *Screen) Err() error {
	select {
	case <-s.done:
		if !errors.Is(s.err, context.Canceled) {
			return s.err
		}
	default:
	}
	return nil
}

// Close restores the terminal. It may be called again.
func (s *Screen) Close() {
	s.once.Do(func() {
		select {
		case <-s.done:
		default:
			s.program.Quit()
		}
	})
	<-s.done
}

// shown is a Screen as a bubbletea model.
type shown struct {
	terminal Terminal
	view     func(Size) string
	key      func(string)
	size     Size
}

type tick struct{}

func again() tea.Cmd { return tea.Tick(Every, func(time.Time) tea.Msg { return tick{} }) }

// Init implements tea.Model.
func (m *shown) Init() tea.Cmd { return again() }

// Update implements tea.Model.
func (m *shown) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if msg.Width > 0 && msg.Height > 0 { // an unknown size is 0
			m.size = Size{msg.Width, msg.Height}
		}
	case tea.KeyPressMsg:
		switch msg.String() {
		case "ctrl+c", "q":
			m.key("q")
		case "p", "space":
			m.key("p")
		case "l":
			m.key("l")
		}
	case tick:
		return m, again()
	}
	return m, nil
}

// sparks returns the levels of a row of rates, each followed by its ASCII replacement.
func sparks() []string {
	return []string{"▁", "_", "▂", ".", "▃", ":", "▄", "-", "▅", "=", "▆", "+", "▇", "*", "█", "#", "━", "="}
}

// View implements tea.Model.
func (m *shown) View() tea.View {
	text := m.view(m.size)
	if m.terminal.ASCII {
		text = plain.ASCII(strings.NewReplacer(sparks()...).Replace(text))
	}
	v := tea.NewView(text)
	v.AltScreen = m.terminal.Own == nil || !m.terminal.Own()
	return v
}
