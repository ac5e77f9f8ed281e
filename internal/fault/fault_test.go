package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"linerate/internal/control/session"
	"linerate/internal/fault"
	"linerate/internal/host/durable"
	"linerate/internal/must"
)

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		err  error
		want fault.Kind
	}{
		{errors.New("anything"), fault.Failed},
		{fault.Usagef("wrong %d", 1), fault.Usage},
		{session.ErrRefused, fault.Unreachable},
		{session.ErrLost, fault.Unreachable},
		{session.ErrBusy, fault.Unreachable},
		{session.ErrVersion, fault.Unreachable},
		{errors.ErrUnsupported, fault.Unsupported},
		{fs.ErrPermission, fault.Unsupported},
		{durable.ErrUntrusted, fault.Unsupported},
		{context.Canceled, fault.Interrupted},
		{fault.WithKind(fault.NotUndone, context.Canceled), fault.NotUndone},
		{errors.Join(errors.New("first"), &fault.Error{Kind: fault.Store, Err: errors.New("second")}), fault.Store},
	} {
		must.Equal(t, fault.KindOf(c.err), c.want, "%v", c.err)
		wrapped := fmt.Errorf("wrapped: %w", fault.WithHint(c.err, "do %s", "this"))
		must.True(t, fault.KindOf(wrapped) == c.want && fault.HintOf(wrapped) == "do this" && errors.Is(wrapped, c.err), "%v with a hint: %d, %q", c.err, fault.KindOf(wrapped), fault.HintOf(wrapped))
		again := fault.WithKind(fault.Untrusted, wrapped)
		must.True(t, fault.KindOf(again) == fault.Untrusted && fault.HintOf(again) == "do this" && again.Error() == wrapped.Error(), "%v with another kind: %d, %q, %v", c.err, fault.KindOf(again), fault.HintOf(again), again)
	}
	joined := errors.Join(errors.New("first"), fault.WithHint(errors.New("second"), "do that"))
	must.True(t, fault.HintOf(joined) == "do that" && fault.Sentence(joined) == "first\nsecond; do that", "the hint of a joined error: %q", fault.Sentence(joined))
	must.True(t, fault.WithHint(nil, "x") == nil && fault.WithKind(fault.Failed, nil) == nil, "an error out of nothing")
}
