package runner_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"linerate/internal/control/runner"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// member is a run of a group that shares an MTU of both hosts and changes a buffer of the
// near one; another one follows where hold is not 0.
func member(number int, buffer string, hold time.Duration) runner.Spec {
	mtu := []model.Assignment{{Host: model.Near, Knob: "link.mtu", Value: "9000"}, {Host: model.Far, Knob: "link.mtu", Value: "9000"}}
	return runner.Spec{Number: number, Flow: wiretest.Flow(model.To), Held: mtu, Hold: hold, Setting: model.Setting{
		Name: buffer, Assignments: append(slices.Clone(mtu), model.Assignment{Host: model.Near, Knob: "tcp.recv_buffer_max", Value: buffer})}}
}

// demand says what both hosts hold of a group.
func (b *bed) demand(t *testing.T, mtu, buffer string) {
	t.Helper()
	n, f, v := b.near.Value("link.mtu"), b.far.Value("link.mtu"), b.near.Value("tcp.recv_buffer_max")
	must.True(t, n == mtu && f == mtu && v == buffer, "MTU %s and %s, buffer %s; want %s and %s", n, f, v, mtu, buffer)
}

// What a group shares is applied before its first run and undone after its last; in
// between only the rest is, and the deadline moves on both hosts.
func TestGroupIsHeldFromFirstToLastRun(t *testing.T) {
	b := newBed(t)
	for i, buffer := range []string{"2000", "3000", "4000"} {
		hold := time.Minute
		if i == 2 {
			hold = 0
		}
		run, changes, err := b.Run(t.Context(), member(i+1, buffer, hold), nil)
		must.Need(t, err == nil && run.State == model.RunValid, "run %d: %+v, %v", i+1, run, err)
		if i < 2 {
			b.demand(t, "9000", buffer)
			must.Equal(t, len(changes), 0, "run %d tells of changes that hold still: %+v", i+1, changes)
			continue
		}
		must.Equal(t, len(changes), 3, "%+v", changes)
		for _, c := range changes {
			must.Equal(t, c.State, model.ChangeUndone, "%+v", c)
		}
	}
	b.untouched(t)
	rest := []string{"verify", "verify", "extend"}
	near := slices.Concat([]string{"apply"}, rest, []string{"apply"}, rest, []string{"apply", "verify", "verify", "undo"})
	far := slices.Concat([]string{"apply"}, rest, []string{"extend"}, rest, []string{"extend", "verify", "verify", "undo"})
	must.Same(t, b.near.Calls(), near, "near")
	must.Same(t, b.far.Calls(), far, "far")
}

// A group that ends early is undone by Release, also when the caller has given up, and
// by a run of another group before that begins.
func TestGroupThatEndsEarly(t *testing.T) {
	b := newBed(t)
	run := func(s runner.Spec) []model.Change {
		t.Helper()
		r, changes, err := b.Run(t.Context(), s, nil)
		must.Need(t, err == nil && r.State == model.RunValid, "%+v, %v", r, err)
		return changes
	}
	run(member(1, "2000", time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	changes := must.Get(b.Release(ctx))(t)
	must.Equal(t, len(changes), 3, "%+v", changes)
	b.untouched(t)
	must.Len(t, must.Get(b.Release(t.Context()))(t), 0, "nothing is held")

	run(member(2, "2000", time.Minute))
	changes = run(runner.Spec{Number: 3, Setting: setting(), Flow: wiretest.Flow(model.To)})
	must.True(t, len(changes) == 3 && !slices.ContainsFunc(changes, func(c model.Change) bool { return c.State != model.ChangeUndone }),
		"%+v", changes)
	b.untouched(t)
}

// Whatever goes wrong in a group, the hosts are as they were when its run has ended.
func TestGroupIsUndoneWhateverFails(t *testing.T) {
	cancelled := func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(30*time.Millisecond, cancel)
		return ctx, cancel
	}
	background := func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }
	for name, c := range map[string]struct {
		fail  func(b *bed)
		begin func() (context.Context, context.CancelFunc)
		flow  time.Duration
		want  error
	}{
		"a value is refused":    {func(b *bed) { b.near.FailApply = errors.New("no such value") }, background, 0, runner.ErrInvalid},
		"a knob does not hold":  {func(b *bed) { b.far.FailVerify = 3 }, background, 0, runner.ErrInvalid},
		"the user presses keys": {func(*bed) {}, cancelled, time.Hour, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			_, _, err := b.Run(t.Context(), member(1, "2000", time.Minute), nil)
			must.Need(t, err == nil, "%v", err)
			c.fail(b)
			s := member(2, "3000", time.Minute)
			s.Flow.Duration = max(s.Flow.Duration, c.flow)
			ctx, cancel := c.begin()
			defer cancel()
			if _, changes, err := b.Run(ctx, s, nil); !errors.Is(err, c.want) || slices.ContainsFunc(changes, func(c model.Change) bool { return c.State != model.ChangeUndone }) {
				t.Errorf("%+v, %v", changes, err)
			}
			b.untouched(t)
			b.near.FailApply = nil
			if _, _, err := b.Run(t.Context(), member(3, "3000", 0), nil); err != nil { // and a group may begin
				t.Error(err)
			}
			b.untouched(t)
		})
	}
}

// A host that is lost while it holds a group undoes by itself, and so does the other.
func TestHostLostInAGroup(t *testing.T) {
	b := newBed(t)
	if _, _, err := b.Run(t.Context(), member(1, "2000", time.Minute), nil); err != nil {
		t.Fatal(err)
	}
	b.cut()
	run, _, err := b.Run(t.Context(), member(2, "3000", time.Minute), nil)
	must.True(t, errors.Is(err, runner.ErrContact) && run.LostContact, "%+v, %v", run, err)
	<-b.left[1]
	b.untouched(t)
	calls := b.far.Calls()
	must.True(t, slices.Contains(calls, "undo"), "far: %v", calls)
}
