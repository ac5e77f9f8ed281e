package cli

import (
	"testing"

	"linerate/internal/core/model"
)

// TestChangesOfAnotherSystem: what a far host held is read as its own system writes
// it, not as this one does.
func TestChangesOfAnotherSystem(t *testing.T) {
	a := &console{}
	for _, c := range []struct{ system, raw, want string }{
		{"linux", "4096 131072 6291456", "6 MiB"},
		{"freebsd", "2097152", "2 MiB"},
		{"darwin", "4194304", "4 MiB"},
		{"freebsd", "4096 131072 6291456", "4096 131072 6291456"},
	} {
		if got := a.readable(c.system, "tcp.recv_buffer_max", c.raw); got != c.want {
			t.Errorf("%s: %q is %q, want %q", c.system, c.raw, got, c.want)
		}
	}
	got := a.undoneText("freebsd", model.Change{Knob: "tcp.recv_buffer_max", State: model.ChangeUndone, Old: "2097152"})
	if got != "back to 2 MiB" {
		t.Errorf("%q", got)
	}
}
