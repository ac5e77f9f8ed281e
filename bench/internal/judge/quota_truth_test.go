//go:build truth && linux

package judge

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"linerate/internal/must"
	"linerate/internal/truth"
)

// quotaStopped matches the evidence of rule B16 for a quota, with its size if known.
var quotaStopped = regexp.MustCompile(`a quota of (processor time|[0-9.]+ processors) (stopped the process|was used up)`)

// TestSlowProcessor plants a CPU quota in a lab: linerate names the CPU of that host, and the
// quota, and not other programs.
func TestSlowProcessor(t *testing.T) {
	g, err := newGroup(true)
	must.SkipIf(t, err != nil, "no control group to plant in: %v", err)
	g.remove()
	program := filepath.Join(t.TempDir(), "linerate")
	text, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "linerate/cmd/linerate").CombinedOutput()
	must.Need(t, err == nil, "%v: %s", err, text)
	if text, err := exec.CommandContext(t.Context(), program, "lab", "lan", "--", "true").CombinedOutput(); err != nil {
		var exit *exec.ExitError
		must.SkipIf(t, errors.As(err, &exit) && exit.ExitCode() == 4, "no lab here: %s", text)
		t.Fatalf("%v: %s", err, text)
	}
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		o := Options{Program: program, First: 500, Last: 500, Kind: "quota-sender", Quick: true, Out: t.TempDir(), Talk: &strings.Builder{}}
		rows := must.Get(Run(t.Context(), o))(try)
		text := must.Get(os.ReadFile(filepath.Join(o.Out, evidenceFile)))(try)
		must.True(try, len(rows) == 1 && rows[0].First && rows[0].Failed == "", "%+v", rows)
		must.True(try, quotaStopped.Match(text) && !strings.Contains(string(text), "other programs had it"),
			"the quota is not named, or something else is as well: %s", text)
	})
}
