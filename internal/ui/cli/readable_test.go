package cli

import (
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
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
		must.Equal(t, a.readable(c.system, "tcp.recv_buffer_max", c.raw), c.want, "%s: %q", c.system, c.raw)
	}
	got := a.undoneText("freebsd", model.Change{Knob: "tcp.recv_buffer_max", State: model.ChangeUndone, Old: "2097152"})
	must.Equal(t, got, "back to 2 MiB")
}
