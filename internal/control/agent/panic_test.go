package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/agent/agenttest"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
	"linerate/internal/rescue"
)

// broken is an engine with a bug in a goroutine that it starts itself, in one of
// the ways in which engines do.
type broken struct {
	patient
	way string
}

func (b broken) Name() string { return b.way }
func (b broken) Prepare(context.Context, engine.Env, model.Flow) (engine.Test, error) {
	return &breaking{engine.NewLife(), b.way}, nil
}

type breaking struct {
	*engine.Life
	way string
}

func (b *breaking) Close() error { return b.End(func() error { return nil }) }

func (b *breaking) Run(ctx context.Context, _ func([]model.Sample)) (report model.EndReport, err error) {
	ctx, end, err := b.Begin(ctx)
	if err != nil {
		return report, err
	}
	defer end(&err)
	bug := func() {
		var none []int
		_ = none[len(b.way)]
	}
	switch b.way {
	case "fails":
		go rescue.From(b.Fail, bug)()
		<-ctx.Done() // as a run whose worker is gone
	case "waits":
		var all rescue.Group
		all.Go(bug)
		all.Wait()
	case "tells":
		told := make(chan error)
		go func() { told <- rescue.Call(func() error { bug(); return nil }) }()
		return report, <-told
	}
	return report, nil
}

// TestBugInAGoroutineOfAnEngine: it costs the run, which says what it was, and
// nothing else: the session goes on, and so does the process of all others.
func TestBugInAGoroutineOfAnEngine(t *testing.T) {
	c := agenttest.Config(nil)
	ways := []string{"fails", "waits", "tells"}
	for _, way := range ways {
		c.Engines = append(c.Engines, broken{way: way})
	}
	s, _, _ := far(t, c)
	for i, way := range ways {
		_, err := conduct(t, s, uint64(2*i+1), model.Flow{Engine: way, Direction: model.To, Duration: time.Second})
		must.True(t, err != nil && strings.Contains(err.Error(), ": runtime error: index out of range") && strings.Contains(err.Error(), "panic_test.go"), "%s: %v", way, err)
		must.Dof(t, must.Err(s.Recovered(t.Context())), "%s: the session is gone", way)
	}
}
