package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/host/durable"
	"linerate/internal/must"
)

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{errors.New("anything"), Failed},
		{Usagef("wrong %d", 1), Usage},
		{session.ErrRefused, Unreachable},
		{session.ErrLost, Unreachable},
		{session.ErrBusy, Unreachable},
		{session.ErrVersion, Unreachable},
		{errors.ErrUnsupported, Unsupported},
		{fs.ErrPermission, Unsupported},
		{durable.ErrUntrusted, Unsupported},
		{context.Canceled, Interrupted},
		{WithKind(NotUndone, context.Canceled), NotUndone},
		{errors.Join(errors.New("first"), &Fault{Kind: Store, Err: errors.New("second")}), Store},
	} {
		must.Equal(t, KindOf(c.err), c.want, "%v", c.err)
		wrapped := fmt.Errorf("wrapped: %w", WithHint(c.err, "do %s", "this"))
		if KindOf(wrapped) != c.want || HintOf(wrapped) != "do this" || !errors.Is(wrapped, c.err) {
			t.Errorf("%v with a hint: %d, %q", c.err, KindOf(wrapped), HintOf(wrapped))
		}
		if again := WithKind(Untrusted, wrapped); KindOf(again) != Untrusted || HintOf(again) != "do this" || again.Error() != wrapped.Error() {
			t.Errorf("%v with another kind: %d, %q, %v", c.err, KindOf(again), HintOf(again), again)
		}
	}
	must.True(t, WithHint(nil, "x") == nil && WithKind(Failed, nil) == nil, "an error out of nothing")
}

func TestNobodyAnswers(t *testing.T) {
	var asker Asker = Nobody{}
	must.Is(t, must.Err(asker.Ask(t.Context(), Question{Kind: KeepChange})), ErrNobody, "Ask")
}

// TestPatienceScales: --timeout is how long a host may be silent, and a host that is given
// longer for its first word is given as much longer for every other; never less than usual.
func TestPatienceScales(t *testing.T) {
	usual := session.DefaultTimeouts()
	for _, most := range []time.Duration{time.Second, DefaultTimeout} {
		must.Equal(t, patient(most), (session.Timeouts{}), "%s", most)
	}
	got := patient(4 * DefaultTimeout)
	if got.Hello != 4*DefaultTimeout || got.Call != 4*usual.Call || got.Ping != 4*usual.Ping || got.Pong != 4*usual.Pong || got.Send != 4*usual.Send || got.Idle != 0 {
		t.Errorf("four times as patient: %+v", got)
	}
}
