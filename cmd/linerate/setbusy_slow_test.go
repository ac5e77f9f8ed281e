//go:build slow && linux

package main

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/must"
)

// TestSlowSetOnABusyMachine holds a change until its time is over while every
// processor has something else to do for as long: that it is over is told, by
// whichever end sees it first, and is no failure.
func TestSlowSetOnABusyMachine(t *testing.T) {
	needRoot(t)
	n := newNetns(t)
	before := n.bothKnobs(t)
	over := time.Now().Add(6 * time.Second)
	var busy sync.WaitGroup
	defer busy.Wait()
	for range 2 * runtime.NumCPU() {
		busy.Go(func() {
			for time.Now().Before(over) {
			}
		})
	}
	r := run(t, n.inside(t, "near", setArgs("--for", "3s", "--both", n.agent("far"))...))
	n.restored(t, before)
	must.True(t, r.code == 0 && !strings.Contains(r.err, "deadline passed"), "exit code %d\n%s%s", r.code, r.out, r.err)
}
