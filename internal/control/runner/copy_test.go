package runner_test

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/control/wire/pipe"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/bottleneck"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/filecopy"
	"linerate/internal/must"
)

// TestCopies runs every setting of a copy session over the real protocol, both
// ways, also those parts that the sender does alone.
func TestCopies(t *testing.T) {
	agenttest.NoLeaks(t)
	folder, state := t.TempDir(), t.TempDir()
	open := func(h model.Host) *session.Client {
		k := agenttest.NewKnobs(h, agenttest.Values())
		c := agenttest.Config(k)
		c.Engines = []engine.Engine{filecopy.New(state, filecopy.Options{NamedPaths: true})}
		return wiretest.Open(t, pipe.Start(t.Context(), "host "+string(h), "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
			return agent.Serve(ctx, conn, c)
		}), h)
	}
	r := runner.New(open(model.Near), open(model.Far), time.Now, traffic.Kinds{files.Kind()})
	p, err := bottleneck.Plan(bottleneck.PlanOptions{
		Source: folder, Sink: folder, Blocks: 2, Directions: []model.Direction{model.To, model.From},
		Flow: model.Flow{Engine: filecopy.Name, Direction: model.To, Bytes: 2 << 20, Params: traffic.Write(files.Params{Sync: true})},
	})
	must.Do(t, err)
	for _, d := range p.Directions {
		in := bottleneck.Input{Rates: map[string]bottleneck.Rates{}}
		for b, order := range p.Order {
			for i, name := range order {
				set, _ := p.Setting(name)
				flow := p.Flow
				flow.Direction = d
				run, _, err := r.Run(t.Context(), runner.Spec{Number: 1, Block: b + 1, Position: i + 1, Attempt: 1, Setting: set, Flow: flow}, nil)
				must.Need(t, err == nil && run.State == model.RunValid, "%s %s: %v, %+v", name, d, err, run)
				rate, ok := run.Value(d, model.Goodput)
				must.True(t, ok && rate > 0, "%s %s: no goodput in %+v", name, d, run.Values)
				if in.Rates[name] == nil {
					in.Rates[name] = bottleneck.Rates{}
				}
				in.Rates[name][b+1] = rate
				for _, w := range run.Warnings {
					must.True(t, !strings.Contains(w, "stopped"), "%s %s: %s", name, d, w)
				}
			}
		}
		limits := bottleneck.Limits(in)
		must.Equal(t, len(limits), 4, "%s: %+v", d, limits)
		for _, l := range limits {
			must.True(t, l.Verdict != bottleneck.NotMeasured && l.Blocks == 2, "%s: %+v", d, l)
		}
	}
	for _, dir := range []string{folder, state} {
		left, err := os.ReadDir(dir)
		must.True(t, len(left) == 0 && err == nil, "left behind: %v, %v", left, err)
	}
}
