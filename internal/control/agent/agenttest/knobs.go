package agenttest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
)

// Knobs is a host whose knobs are a map. It implements agent.Knobs and records its calls. The
// zero value has no knobs.
type Knobs struct {
	Host       model.Host
	FailApply  error // returned by Apply after it has written its first knob
	FailVerify int   // which call of Verify fails, from 1; 0 if none

	mu       sync.Mutex
	values   map[model.KnobID]string
	changes  []model.Change // not yet undone, in order
	withins  []time.Duration
	calls    []string
	verified int
}

var _ agent.Knobs = (*Knobs)(nil)

// NewKnobs returns the knobs of h with these values.
func NewKnobs(h model.Host, values map[model.KnobID]string) *Knobs {
	return &Knobs{Host: h, values: maps.Clone(values)}
}

func (k *Knobs) called(name string) { k.calls = append(k.calls, name) }

// Calls returns the names of the methods called so far, in order.
func (k *Knobs) Calls() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.calls)
}

// Withins returns the time limits of all Apply calls.
func (k *Knobs) Withins() []time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.withins)
}

// Value returns the current value of a knob.
func (k *Knobs) Value(id model.KnobID) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.values[id]
}

// Apply writes the values.
func (k *Knobs) Apply(_ context.Context, as []model.Assignment, within time.Duration) ([]model.Change, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.called("apply")
	k.withins = append(k.withins, within)
	var out []model.Change
	for _, a := range as {
		old, ok := k.values[a.Knob]
		if !ok {
			return nil, errors.New("no knob " + string(a.Knob))
		}
		c := model.Change{
			Host: k.Host, Knob: a.Knob, Native: "mem." + string(a.Knob), Old: old, New: a.Value, State: model.ChangeApplied,
		}
		k.values[a.Knob] = a.Value
		k.changes = append(k.changes, c)
		out = append(out, c)
		if k.FailApply != nil {
			return nil, k.FailApply
		}
	}
	return out, nil
}

// Verify fails on the call that FailVerify names.
func (k *Knobs) Verify(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.called("verify")
	k.verified++
	if k.verified == k.FailVerify {
		return errors.New("a knob reads back as something else")
	}
	return nil
}

// Extend only records the call.
func (k *Knobs) Extend(context.Context, time.Duration) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.called("extend")
	return nil
}

// Undo puts the old values back, newest first.
func (k *Knobs) Undo(context.Context) ([]model.Change, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.called("undo")
	var out []model.Change
	for _, c := range slices.Backward(k.changes) {
		k.values[c.Knob], c.State = c.Old, model.ChangeUndone
		out = append(out, c)
	}
	k.changes = nil
	return out, nil
}

// Read reads values.
func (k *Knobs) Read(_ context.Context, ids []model.KnobID) (map[model.KnobID]fact.Of[string], error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[model.KnobID]fact.Of[string]{}
	for _, id := range ids {
		if v, ok := k.values[id]; ok {
			out[id] = fact.Known(v, "memory")
		}
	}
	return out, nil
}

// Close only records the call.
func (k *Knobs) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.called("close")
	return nil
}
