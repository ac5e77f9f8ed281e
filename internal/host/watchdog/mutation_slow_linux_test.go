//go:build slow

package watchdog

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// mutations are deliberate faults in this package and in package journal.
func mutations() []struct{ name, file, old, new string } {
	return []struct{ name, file, old, new string }{
		{"skip the sync of a record", "../journal/journal.go", "err = f.Sync()", "err = nil"},
		{"skip the sync of the names", "../journal/copies.go", "if !j.named {", "if false {"},
		{"forget one copy", "../journal/journal.go", "for i, f := range j.files {\n\t\tj.ok[i] = false", "for i, f := range j.files[:1] {\n\t\tj.ok[i] = false"},
		{"accept a damaged record", "../journal/line.go", "if sum != checksum(rest) {", "if len(sum) == 0 {"},
		{"drop the lock", "../journal/lock.go", "err = f.Lock()", "err = nil"},
		{"undo in the wrong order", "machine.go", "\t\tslices.Reverse(groups[p])\n", ""},
		{"forget recovery of one knob", "machine.go", "for _, group := range groups {", "for _, group := range groups[:min(1, len(groups))] {"},
		{"restore without compare", "machine.go", "case !wrote(group, now):", "case len(group) == 0:"},
		{"end older changes below one whose end is not on disk", "machine.go", "break // a later change", "continue // a later change"},
		{"take a link by its name alone", "machine.go", "if again, _, err := m.find(o); err != nil || again != place {", "if again, _, err := m.find(o); err != nil && again != place {"},
		{"write without an intent", "transaction.go", "t.announce(steps, deadline)", "t.announce(steps[:0], deadline)"},
		{"write over what came since the plan", "transaction.go", "if p.Mechanism == knob.Sysctl {", "if p.Mechanism == knob.Command {"},
		{"ignore the deadline", "serve.go", "s.expires = s.clock() + r.Deadline", "s.expires = s.clock() + r.Deadline + time.Hour"},
		{"leave what is stuck", "stuck.go", "|| stuck(err) != nil && stuck(err).worthATry() {", "|| stuck(err) != nil && s.clock() < 0 {"},
		{"confirm what is not on disk", "confirm.go", "if !dir.Confirming(transaction) {", "if transaction != \"\" {"},
	}
}

// TestTheProofFindsMutations: the proof detects each mutation.
func TestTheProofFindsMutations(t *testing.T) {
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			began := time.Now()
			path := must.Get(filepath.Abs(m.file))(t)
			text := must.Get(os.ReadFile(path))(t)
			n := strings.Count(string(text), m.old)
			must.Need(t, n == 1, "%d places of %s have %q, want one", n, m.file, m.old)
			changed, overlay := filepath.Join(t.TempDir(), "changed.go"), filepath.Join(t.TempDir(), "overlay.json")
			must.Do(t, os.WriteFile(changed, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600))
			must.Do(t, os.WriteFile(overlay, must.Get(json.Marshal(map[string]map[string]string{"Replace": {path: changed}}))(t), 0o600))
			out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-overlay", overlay, "-run", "^TestEveryFaultAfterEveryStep$", ".").CombinedOutput()
			must.Need(t, err != nil && strings.Contains(string(out), "--- FAIL: TestEveryFaultAfterEveryStep"), "it is not found: %v\n%s", err, out)
			_, first, _ := strings.Cut(string(out), "_test.go:")
			first, _, _ = strings.Cut(first, "\n")
			t.Logf("%-55s found in %3.0f s: %s", m.name, time.Since(began).Seconds(), first)
		})
	}
}
