//go:build slow

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// identicalPlan compares three equal settings.
const identicalPlan = `title: three identical settings
far: %s
flow: {direction: to, duration: 300ms, omit: 200ms, interval: 100ms, congestion: %s}
settings:
  - {name: one, set: {far.tcp.recv_buffer_max: 4MiB}}
  - {name: two, set: {far.tcp.recv_buffer_max: 4MiB}}
  - {name: three, set: {far.tcp.recv_buffer_max: 4MiB}}
baseline: one
max_blocks: 12
settle: 50ms
`

// TestSlowNoDifference runs 20 sessions without any difference, half of them on a clean link
// and half on one whose random losses make the runs of one setting differ by a tenth and more.
// At 5 % false sessions, more than two in 20 have a probability of 7.5 %; the evidence used
// here errs far less (statistics.md 5.3), so that a third one is an error.
func TestSlowNoDifference(t *testing.T) {
	needLab(t)
	type job struct{ spec, congestion string }
	jobs := make(chan job)
	var mu sync.Mutex
	falsely, sessions, untrusted := 0, 0, 0
	outcomes := map[model.Outcome]int{}
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for j := range jobs {
				plan := filepath.Join(t.TempDir(), "plan.yaml")
				if err := os.WriteFile(plan, fmt.Appendf(nil, identicalPlan, j.spec, j.congestion), 0o600); err != nil {
					t.Error(err)
					continue
				}
				r := run(t, command(t, "run", plan, "--json", "-q"))
				if r.code != 0 && r.code != 5 {
					t.Errorf("%s: exit code %d: %s", j.spec, r.code, r.err)
					continue
				}
				d := decode[document](t, r.out)
				mu.Lock()
				sessions++
				if r.code == 5 {
					untrusted++
				}
				wrong := false
				for _, v := range d.Session.Verdicts {
					outcomes[v.Outcome]++
					// The twin's verdict is the session's own check, counted above.
					wrong = wrong || !v.IsTwin && (v.Outcome == "better" || v.Outcome == "worse" || v.Guard != nil && v.Guard.State == "violated")
				}
				if wrong {
					falsely++
				}
				mu.Unlock()
			}
		})
	}
	for i := range 20 {
		if i%2 == 0 {
			jobs <- job{"lab:rate=100mbit,rtt=2ms", "reno"}
		} else {
			jobs <- job{fmt.Sprintf("lab:rate=100mbit,rtt=20ms,loss=0.1%%,seed=%d", i), "reno"}
		}
	}
	close(jobs)
	workers.Wait()
	t.Logf("%d sessions without a difference: %d with a better or worse, %d untrustworthy, verdicts %v",
		sessions, falsely, untrusted, outcomes)
	must.True(t, sessions == 20 && falsely <= 2, "%d of %d sessions found a difference where there is none", falsely, sessions)
}
