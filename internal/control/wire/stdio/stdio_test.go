package stdio_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/stdio"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// childMode makes this test binary behave as a child.
const childMode = "LINERATE_STDIO_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childMode) {
	case "agent":
		os.Exit(beAgent())
	case "stubborn":
		signal.Ignore(os.Interrupt, syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, "I stay")
		select {}
	case "broken":
		fmt.Fprint(os.Stderr, strings.Repeat("noise\n", 2000)+"no such file\n")
		os.Exit(7)
	case "web":
		fmt.Println("HTTP/1.1 400 Bad Request\r\n\r")
		_, _ = os.Stdin.Read(make([]byte, 1<<10))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func beAgent() int {
	conn, done := wire.Join(os.Stdin, os.Stdout)
	knobs := agenttest.NewKnobs(model.Far, agenttest.Values())
	err := agent.Serve(context.Background(), conn, agenttest.Config(knobs))
	<-done
	if file := os.Getenv("LINERATE_STDIO_TEST_REPORT"); file != "" {
		_ = os.WriteFile(file, []byte(strings.Join(knobs.Calls(), " ")), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func start(t *testing.T, mode string, o stdio.Options, env ...string) wire.Peer {
	t.Helper()
	o.Name, o.DataHost, o.Env = "far", "127.0.0.1", append(env, childMode+"="+mode)
	p := must.Get(stdio.Start(t.Context(), []string{os.Args[0]}, o))(t)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestConformance(t *testing.T) {
	wiretest.Run(t, wiretest.Transport{Tunes: true, Dial: func(t *testing.T) wire.Peer {
		return start(t, "agent", stdio.Options{})
	}})
}

func open(t *testing.T, p wire.Peer) (*session.Client, error) {
	t.Helper()
	return session.Open(t.Context(), p, session.Options{Host: model.Far, Version: "v1", Timeouts: agenttest.Timeouts()})
}

func TestChildThatEndsTellsItsLastWords(t *testing.T) {
	agenttest.NoLeaks(t)
	_, err := open(t, start(t, "broken", stdio.Options{}))
	must.True(t, errors.Is(err, session.ErrLost) && strings.Contains(err.Error(), "no such file") && strings.Contains(err.Error(), "exit status 7"), "error %v", err)
	must.True(t, len(err.Error()) <= 6<<10, "%d bytes of error", len(err.Error()))
}

func TestChildThatIsNoAgent(t *testing.T) {
	agenttest.NoLeaks(t)
	must.Is(t, must.Err(open(t, start(t, "web", stdio.Options{Grace: time.Second}))), session.ErrLost, "error")
}

func TestSilentChildIsGivenUpAndKilled(t *testing.T) {
	agenttest.NoLeaks(t)
	p := start(t, "stubborn", stdio.Options{Grace: 50 * time.Millisecond})
	_, err := open(t, p)
	must.True(t, errors.Is(err, session.ErrLost) && strings.Contains(err.Error(), "I stay"), "error %v", err)
	must.OK(t, p.Close()) // idempotent, and the child is gone
}

func TestUnknownCommand(t *testing.T) {
	agenttest.NoLeaks(t)
	must.Fail(t, must.Err(stdio.Start(t.Context(), []string{"linerate-no-such-command"}, stdio.Options{})), "no error")
	must.Fail(t, must.Err(stdio.Start(t.Context(), nil, stdio.Options{})), "no error without a command")
}

// A controller that dies closes the pipe without a message.
func TestHangUpUndoesInTheChild(t *testing.T) {
	report := t.TempDir() + "/calls"
	p := start(t, "agent", stdio.Options{}, "LINERATE_STDIO_TEST_REPORT="+report)
	c := must.Get(open(t, p))(t)
	must.Get(c.Apply(t.Context(), []model.Assignment{{Host: model.Far, Knob: "tcp.sack", Value: "0"}}, time.Minute))(t)
	_ = p.Control.Close()
	_ = p.Close()
	got := must.Get(os.ReadFile(report))(t)
	must.Equal(t, string(got), "apply undo close", "calls %q", got)
	must.Is(t, must.Err(c.Facts(t.Context(), "")), session.ErrLost, "call after hang-up")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, _ = c.Close(ctx) // everything has already ended
}
