package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/deploy"
	"linerate/internal/must"
)

// TestRootRunsWhatWasChecked has somebody on the far host, with the rights of the
// user who logs in there, swap the program for another over and over: whatever
// moment he hits, root never runs his.
func TestRootRunsWhatWasChecked(t *testing.T) {
	for name, o := range map[string]deploy.Options{"copied": {Sudo: true}, "kept": {Sudo: true, Keep: deploy.KeepYes}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, sudoers(t, "Defaults env_keep+=HOME,!always_set_home,!set_home,lecture=never\nsomeone ALL=(ALL) NOPASSWD: ALL"))
			evidence := filepath.Join(openDir(t), "ran")
			if o.Keep == deploy.KeepYes { // the file that the swapper is after is there from the beginning
				closeSession(t, h.session(t, o))
			}
			stop := swap(t, h, evidence)
			good, refused := 0, 0
			for range rounds {
				p, err := h.agent(t, o)
				if err != nil {
					refused++
					continue
				}
				good++
				_ = p.Close()
			}
			swaps := stop()
			ran, err := os.ReadFile(evidence)
			t.Logf("%d swaps, %d agents, %d refused", swaps, good, refused)
			must.True(t, swaps != 0, "nothing was swapped")
			must.Need(t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err)
			for line := range strings.Lines(string(ran)) {
				must.Need(t, strings.TrimSpace(line) != "0", "root ran the other program: %q", ran)
			}
			agenttest.Eventually(t, "root's copies to be gone", func() bool {
				left, _ := filepath.Glob("/var/lib/linerate-??????????/linerate")
				return len(left) == 0
			})
		})
	}
}

// swap exchanges every program that is deployed to h for one that writes down who
// runs it, and puts it back, until the returned function is called, which says how
// often.
func swap(t *testing.T, h *host, evidence string) func() int {
	t.Helper()
	other := filepath.Join(filepath.Dir(evidence), "other")
	script(t, other, fmt.Sprintf("id -u >>%s", evidence))
	text := must.Get(os.ReadFile(other))(t)
	ctx, cancel := context.WithCancel(t.Context())
	swaps := 0
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for ctx.Err() == nil {
			files, _ := filepath.Glob(h.Home(h.user) + "/.cache/linerate/agent-*")
			for _, dir := range h.tmp(t) {
				files = append(files, dir+"/linerate")
			}
			for _, file := range files {
				if strings.HasSuffix(file, ".good") {
					continue
				}
				if info, err := os.Stat(file); err != nil || info.Size() < 1<<20 {
					continue // it is still on its way
				}
				if os.Rename(file, file+".good") != nil {
					continue
				}
				if os.WriteFile(file, text, 0o755) == nil {
					swaps++
				}
				waitTick(ctx, time.Millisecond)
				_ = os.Rename(file+".good", file)
			}
			waitTick(ctx, time.Millisecond)
		}
	})
	stop := func() int {
		cancel()
		swapping.Wait()
		return swaps
	}
	t.Cleanup(func() { stop() })
	return stop
}
