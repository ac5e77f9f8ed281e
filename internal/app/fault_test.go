package app

import (
	"testing"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

func TestNobodyAnswers(t *testing.T) {
	var asker Asker = NoUser{}
	must.Is(t, must.Err(asker.Ask(t.Context(), Question{Kind: KeepChange})), ErrNoTerminal, "Ask")
}

// TestPatienceScales: --timeout is how long a host may be silent. All timeouts of a host grow
// in proportion to it, and are never shorter than the default.
func TestPatienceScales(t *testing.T) {
	usual := session.DefaultTimeouts()
	for _, most := range []time.Duration{time.Second, DefaultTimeout} {
		must.Equal(t, patient(most), (session.Timeouts{}), "%s", most)
	}
	got := patient(4 * DefaultTimeout)
	must.True(t, got.Hello == 4*DefaultTimeout && got.Call == 4*usual.Call && got.Ping == 4*usual.Ping && got.Pong == 4*usual.Pong && got.Send == 4*usual.Send && got.Idle == 0, "four times as patient: %+v", got)
}

// TestReturned: what another program changed is not said to be back.
func TestReturned(t *testing.T) {
	undone, foreign := model.Change{Knob: "link.mtu", State: model.ChangeUndone}, model.Change{Knob: "tcp.sack", State: model.ChangeForeign}
	for _, c := range []struct {
		changes []model.Change
		want    string
	}{
		{nil, "all settings are back"},
		{[]model.Change{undone}, "all settings are back"},
		{[]model.Change{undone, foreign, foreign}, "all settings are back but tcp.sack, which another program changed meanwhile"},
		{[]model.Change{foreign}, "what another program set meanwhile stays: tcp.sack"},
	} {
		must.Equal(t, Returned(c.changes), c.want)
	}
}
