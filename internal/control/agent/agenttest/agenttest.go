package agenttest

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/session"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/tcpbulk"
)

// Version is the version of test agents.
const Version = "v0.0-test"

// Timeouts returns timeouts that are short enough to test their expiry and long enough for a
// busy machine.
func Timeouts() session.Timeouts {
	return session.Timeouts{
		Hello: 2 * time.Second, Call: 10 * time.Second, Ping: 500 * time.Millisecond, Pong: 10 * time.Second,
		Send: 3 * time.Second, // net/http ends a stream then, even one that only a busy machine delays
	}
}

// Values returns the knobs of test agents.
func Values() map[model.KnobID]string {
	return map[model.KnobID]string{"tcp.recv_buffer_max": "1000", "tcp.sack": "1", "link.mtu": "1500"}
}

// Config returns a test agent with the knobs k, which may be nil.
func Config(k *Knobs) agent.Config {
	c := agent.Config{
		Version:  Version,
		Engines:  []engine.Engine{Engine{}, Refusing{}, tcpbulk.New()},
		Timeouts: Timeouts(),
		Prepare:  5 * time.Second,
		Facts: func(_ context.Context, peer string) (model.HostFacts, error) {
			return model.HostFacts{
				Name: "test", OS: runtime.GOOS, CPUs: 2, Address: peer,
				MTU: fact.Known(1500, "test"), Kernel: fact.Unknown[string]("not asked"),
			}, nil
		},
		Recovered: func(context.Context) ([]model.Change, error) {
			return []model.Change{{Knob: "link.mtu", Native: "mem.link.mtu", Old: "1500", New: "9000", State: model.ChangeUndone}}, nil
		},
	}
	if k != nil { // a nil *Knobs in the interface would not be nil
		c.Knobs = k
	}
	return c
}

// NoLeaks fails the test if it leaves goroutines behind. Call it first, in tests
// that are not parallel.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		if left := Leaks(before); left != "" {
			t.Error(left)
		}
	})
}

// Leaks waits up to half a minute until there are no more goroutines than before. It returns
// the stacks of those that are left, "" if there are none.
func Leaks(before int) string {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before; <-tick.C {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			return fmt.Sprintf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
	}
	return ""
}
