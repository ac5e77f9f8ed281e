package watchdog

import (
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	"linerate/internal/must"
)

// TestRevertOne takes one of three confirmed transactions back: the others stay,
// and a change on which a later one was made stays with it.
func TestRevertOne(t *testing.T) {
	d := newDesk(t)
	d.confirmed("tcp.sack", "0", "tcp.timestamps", "0")
	d.confirmed("tcp.sack", "1", "tcp.recv_buffer_max", "1MiB")
	records, _, err := d.state().Read()
	must.Do(t, err)
	all := journal.ConfirmedIntents(records)
	first, second := all[0].Transaction, all[len(all)-1].Transaction

	if changes, err := RevertOne(t.Context(), d.cfg, "of nobody"); len(changes) > 0 || err != nil {
		t.Errorf("of nobody: %+v, %v", changes, err)
	}
	changes, err := RevertOne(t.Context(), d.cfg, first)
	state := map[model.KnobID]model.ChangeState{}
	for _, c := range changes {
		state[c.Knob] = c.State
	}
	if err != nil || len(changes) != 2 || state["tcp.timestamps"] != model.ChangeUndone || state["tcp.sack"] != model.ChangeApplied {
		t.Errorf("RevertOne of the first = %+v, %v", changes, err)
	}
	d.expect(place("net.ipv4.tcp_timestamps"), "1")
	d.expect(rmem, "4096 131072 1048576")

	changes, err = RevertOne(t.Context(), d.cfg, second)
	must.True(t, err == nil && len(changes) == 2, "RevertOne of the second = %+v, %v", changes, err)
	d.expect(sack, "0") // as the first one left it
	d.expect(rmem, "4096\t131072\t33554432")
	must.Len(t, must.Get(Revert(t.Context(), d.cfg))(t), 1, "Revert")
	d.expect(sack, "1")
}
