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

// Every is how often a screen is drawn: often enough for a clock and for rates of an
// interval, and next to nothing beside a measurement.
const Every = 250 * time.Millisecond

// frames is how often a screen is sent at most, each second.
const frames = 5

// Terminal is where a Screen is shown.
type Terminal struct {
	In  io.Reader // keys; nil takes none, and leaves the terminal's own meaning to them
	Out io.Writer
	Env []string // of the process, for what the terminal understands
	// ASCII has nothing shown beyond it.
	ASCII bool
	// Own, where given, says whether the terminal is to show what stood on it, and the view,
	// of a row, below that.
	Own func() bool
}

// Screen has a whole terminal to show something on, until it is closed.
type Screen struct {
	program *tea.Program
	done    chan struct{}
	err     error // of the program; read after done
	once    sync.Once
}

// Show begins to show what view draws, which is asked several times a second. key is told
// of the keys of a person: "p", "l", "q" for that and for Ctrl-C. Neither may wait long.
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

// Ended is closed when the terminal is as it was.
func (s *Screen) Ended() <-chan struct{} { return s.done }

// Err is why nothing could be shown, once the screen is closed; nil where it was.
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

// Close gives the terminal back as it was. It may be called again.
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

// shown is a Screen as bubbletea has it.
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
		if msg.Width > 0 && msg.Height > 0 { // a terminal that does not know says 0
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

// sparks are the levels of a row of rates, and ASCII in their places.
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
