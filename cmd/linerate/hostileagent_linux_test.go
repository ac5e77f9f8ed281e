package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHostileAgent: whatever an agent sends, the controller ends soon, with a plain
// sentence, and has neither memory nor disk filled.
func TestHostileAgent(t *testing.T) {
	for _, c := range []struct {
		manner hostileManner
		says   string
		within time.Duration
	}{
		{floodsSamples, "the agent sent more than this run can have", 25 * time.Second},
		{floodsMeasured, "the agent sent more than this run can have", 25 * time.Second},
		{floodsParts, "a message has more than 65536 parts", 25 * time.Second},
		{floodsBody, "no answer in time", 60 * time.Second},
		{floodsStdout, "", 25 * time.Second},
		{floodsStderr, "", 30 * time.Second},
		{neverEnds, "did not end the run when it was told to", 50 * time.Second}, // once, whatever the plan repeats
		{drips, "no answer in time", 60 * time.Second},
	} {
		t.Run(string(c.manner), func(t *testing.T) {
			t.Parallel()
			meetHostile(t, c.manner, c.says, c.within)
		})
	}
}

// meetHostile runs a test with a hostile agent and demands words, and an end.
func meetHostile(t *testing.T, manner hostileManner, says string, within time.Duration) {
	t.Helper()
	dir := t.TempDir()
	cmd := command(t, "test", hostileTarget(manner), "--to", "-t", "3s", "--omit", "0")
	cmd.Env = append(cmd.Env, "LINERATE_DB="+filepath.Join(dir, "results.db"))
	start := time.Now()
	r := run(t, cmd)
	took := time.Since(start)
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	t.Logf("exit code %d after %v, %d MB\n%s", r.code, took.Round(time.Millisecond), usage.Maxrss>>10, r.err[:min(len(r.err), 2000)])
	if manner != floodsStderr && r.code == 0 || r.code < 0 || !strings.Contains(r.err, says) {
		t.Errorf("exit code %d, want words %q", r.code, says)
	}
	if usage.Maxrss > 150<<10 { // kB (getrusage(2)); of the controller and of those it waited for
		t.Errorf("used %d MB", usage.Maxrss>>10)
	}
	if took > within {
		t.Errorf("took %v", took)
	}
	if len(r.out)+len(r.err) > 64<<10 {
		t.Errorf("%d bytes on stdout, %d on stderr", len(r.out), len(r.err))
	}
	var disk int64
	_ = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil {
			disk += info.Size()
		}
		return nil
	})
	if disk > 8<<20 {
		t.Errorf("wrote %d MB", disk>>20)
	}
}
