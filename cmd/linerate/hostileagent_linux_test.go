package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// TestHostileAgent: whatever an agent sends, the controller ends soon, with a plain
// sentence, and has neither memory nor disk filled.
func TestHostileAgent(t *testing.T) {
	t.Parallel()
	for _, h := range badAgents() {
		t.Run(string(h.manner), func(t *testing.T) {
			t.Parallel()
			meetHostile(t, h)
		})
	}
}

// badAgent is one manner of an agent, what the controller says of it, and how long it
// takes on a quiet machine, which make truth asks.
type badAgent struct {
	manner hostileManner
	says   string
	within time.Duration
}

func badAgents() []badAgent {
	return []badAgent{
		{floodsSamples, "the agent sent more than this run can have", 25 * time.Second},
		{floodsMeasured, "the agent sent more than this run can have", 25 * time.Second},
		{floodsParts, "nics has more than 64 entries", 25 * time.Second},
		{floodsBody, "no answer in time", 60 * time.Second},
		{floodsStdout, "", 25 * time.Second},
		{floodsStderr, "", 30 * time.Second},
		{neverEnds, "did not end the run when it was told to", 50 * time.Second}, // once, whatever the plan repeats
		{drips, "no answer in time", 60 * time.Second},
	}
}

// meetHostile runs a test with a hostile agent, demands words and an end, and returns how
// long that took.
func meetHostile(t testing.TB, h badAgent) time.Duration {
	t.Helper()
	dir := t.TempDir()
	cmd := command(t, "test", hostileTarget(h.manner), "--to", "-t", "1s", "--omit", "0")
	cmd.Env = append(cmd.Env, "LINERATE_DB="+filepath.Join(dir, "results.db"))
	began := time.Now()
	p := start(t, cmd)
	peak := residentPeak(cmd.Process.Pid)
	r := p.wait(t, h.within+time.Minute)
	took, used := time.Since(began), <-peak
	t.Logf("exit code %d after %v, %d MB\n%s", r.code, took.Round(time.Millisecond), used>>10, r.err[:min(len(r.err), 2000)])
	must.True(t, (h.manner == floodsStderr || r.code != 0) && r.code >= 0 && strings.Contains(r.err, h.says), "exit code %d, want words %q", r.code, h.says)
	must.True(t, used <= 150<<10, "used %d MB", used>>10)
	must.True(t, len(r.out)+len(r.err) <= 64<<10, "%d bytes on stdout, %d on stderr", len(r.out), len(r.err))
	var disk int64
	_ = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil {
			disk += info.Size()
		}
		return nil
	})
	must.True(t, disk <= 8<<20, "wrote %d MB", disk>>20)
	return took
}

// residentPeak sends the most memory that a process ever had resident, in kB, once it
// has ended (VmHWM of proc_pid_status(5)). getrusage(2) would tell that of this process
// too, from before the exec.
func residentPeak(pid int) <-chan int64 {
	out := make(chan int64, 1)
	go func() {
		var most int64
		for {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, rest, found := strings.Cut(string(text), "VmHWM:")
			if err != nil || !found { // gone, or not yet waited for
				out <- most
				return
			}
			var kB int64
			if _, err := fmt.Sscan(rest, &kB); err == nil {
				most = max(most, kB)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return out
}
