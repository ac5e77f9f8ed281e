package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestFlakyTestsAreWrittenDown holds scripts/flaky: what passed at the second try
// is in the ledger, tests without a clock may not, and nobody may twice.
func TestFlakyTestsAreWrittenDown(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a script of bash")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	const past = "# why\ninternal/lab TestGoodput 2026-11-22T12:49Z load 12.26\n"
	for name, c := range map[string]struct {
		ledger, report string
		fails          bool
		says           string
		lines          int // that are new
	}{
		"nothing":                        {past, "", false, "", 0},
		"a test that holds a clock":      {past, "linerate/internal/lab.TestRoundTrip: 2 runs, 1 failures", false, "TestRoundTrip", 1},
		"its parts count with it":        {past, "linerate/internal/lab.TestRoundTrip: 2 runs, 1 failures\nlinerate/internal/lab.TestRoundTrip/slow: 2 runs, 1 failures", false, "", 1},
		"a folder below a listed one":    {past, "linerate/internal/measure/iperf3/peer.TestBoth: 2 runs, 1 failures", false, "", 1},
		"a test without a clock":         {past, "linerate/internal/measure/filecopy.TestChangedSource: 2 runs, 1 failures", true, "once is enough", 1},
		"a second time":                  {past, "linerate/internal/lab.TestGoodput: 2 runs, 1 failures", true, "2 times", 1},
		"what stands there twice":        {past + past, "", true, "mend it", 0},
		"what failed both times is none": {past, "linerate/internal/core/stats.TestX: 2 runs, 2 failures", false, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ledger, report := filepath.Join(dir, "flakes"), filepath.Join(dir, "report")
			for path, text := range map[string]string{ledger: c.ledger, report: c.report + "\n"} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), bash, filepath.Join(module, "scripts", "flaky"), report)
			cmd.Env = append(os.Environ(), "LINERATE_FLAKES="+ledger)
			out, err := cmd.CombinedOutput()
			if (err != nil) != c.fails || !strings.Contains(string(out), c.says) {
				t.Errorf("%v: %s", err, out)
			}
			now, err := os.ReadFile(ledger)
			if added := strings.Count(string(now), "\n") - strings.Count(c.ledger, "\n"); err != nil || added != c.lines {
				t.Errorf("%d lines are new, want %d: %s", added, c.lines, now)
			}
		})
	}
}
