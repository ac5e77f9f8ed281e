package watchdog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	"linerate/internal/host/knob/knobtest"
)

// crashInAGroup kills the agent, the watchdog and both after every step of a group of
// three runs: the first applies what they share and a buffer, the others only another
// buffer. Whatever is killed, both hold what they held before the group.
func crashInAGroup(t *testing.T, b bench, shared model.KnobID) {
	before := b.values(t)
	var later [][]model.Assignment
	for _, buffer := range []string{"262144", "524288"} {
		later = append(later, []model.Assignment{{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: buffer}})
	}
	text, err := json.Marshal(later)
	if err != nil {
		t.Fatal(err)
	}
	group := groupVar + "=" + string(text)
	steps := b.steps(t, group)
	count := map[string]int{}
	for _, s := range steps {
		count[s]++
	}
	if w, s := count["write tcp.recv_buffer_max"], count["write "+string(shared)]; w != 3 || s != 1 {
		t.Fatalf("%d writes of the buffer and %d of what is shared: %q", w, s, steps)
	}
	b.expect(t, before, "undisturbed")
	for _, target := range []string{"agent", "watchdog", "both"} {
		for n, step := range steps {
			when := fmt.Sprintf("kill %s after step %d, %q", target, n+1, step)
			dir, _ := b.run(t, group, fmt.Sprintf("%s=%d:%s", crashVar, n+1, target))
			if target != "agent" {
				if _, err := Recover(t.Context(), Config{Dir: dir, Host: b.host}); err != nil {
					t.Errorf("%s: Recover: %v", when, err)
				}
			}
			b.expect(t, before, when)
			records, damage, err := journal.Read(dir)
			if open := journal.OpenIntents(records); len(open) > 0 || len(damage) > 0 || err != nil {
				t.Errorf("%s: open %v, damage %v, %v", when, open, damage, err)
			}
		}
	}
	t.Logf("%d steps: %s", len(steps), strings.Join(steps, ", "))
}

func TestCrashInAGroupOnFakeTree(t *testing.T) {
	b := fakeBench(t)
	b.changes = []model.Assignment{b.changes[2], b.changes[0]}
	crashInAGroup(t, b, "tcp.sack")
}

func TestCrashInAGroupInNamespace(t *testing.T) {
	if knobtest.InNamespace(t) {
		b := realBench(t)
		b.changes = []model.Assignment{b.changes[2], b.changes[0]}
		crashInAGroup(t, b, "link.mtu")
	}
}
