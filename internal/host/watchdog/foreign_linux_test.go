package watchdog

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/host/journal"
)

// TestForeignChangeBeforeTheWriteStays: somebody else sets a knob after the
// watchdog has read it, and before it writes. To write over that would lose it.
func TestForeignChangeBeforeTheWriteStays(t *testing.T) {
	b := fakeBench(t)
	steps := b.steps(t)
	sack := filepath.Join(b.host.ProcSys, "net", "ipv4", "tcp_sack")
	want := b.values(t)
	want["tcp.sack"] = "7"
	write := slices.Index(steps, "write tcp.sack")
	if write < 3 {
		t.Fatalf("steps %q", steps)
	}
	for n := range write {
		setFile(t, sack, "1")
		// Nobody crashes, but the agent fails.
		dir, output := b.run(t, crashVar+"=0:nobody", fmt.Sprintf("%s=%d:%s=7", foreignVar, n+1, sack))
		when := fmt.Sprintf("foreign change after %q", steps[n])
		b.expect(t, want, when)
		if !strings.Contains(output, ErrForeign.Error()) || !strings.Contains(output, `now "7"`) {
			t.Errorf("%s: the agent says %q", when, output)
		}
		records, _, err := journal.Read(dir)
		if open := journal.OpenIntents(records); len(open) > 0 || err != nil {
			t.Errorf("%s: open %+v, %v", when, open, err)
		}
	}
}
