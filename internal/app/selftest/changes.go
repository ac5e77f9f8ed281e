package selftest

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"linerate/internal/app/inspect"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// heldFor is how long the watchdog holds a change before it rolls it back.
const heldFor = 30 * time.Second

// changes sets each harmless setting to another value, through the journal and the watchdog
// as linerate set does, undoes that, and reads the setting again.
func (t *trial) changes(ctx context.Context) {
	tried := 0
	for _, s := range t.host.Settings("", false) {
		other, ok := another(s, t.host.OS)
		if !ok || len(t.Only) > 0 && !slices.Contains(t.Only, s.Knob) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		tried++
		t.change(ctx, s, other)
	}
	if tried == 0 {
		t.add("changes", "all", Unseen, "this machine shows no setting that is harmless to change")
	}
}

// change tries one setting. It undoes the change even if ctx has ended meanwhile.
func (t *trial) change(ctx context.Context, s inspect.Setting, other string) {
	began, was := time.Now(), s.Value.Or("")
	ids := []model.KnobID{s.Knob}
	from, to := s.Of.Format(was), s.Of.Format(other)
	_, err := t.machine.Apply(ctx, []model.Assignment{{Host: model.Near, Knob: s.Knob, Value: other}}, heldFor)
	if err == nil {
		err = t.machine.Verify(ctx)
	}
	after := context.WithoutCancel(ctx)
	changes, back := t.machine.Undo(after)
	for _, c := range changes {
		if c.State != model.ChangeUndone {
			back = errors.Join(back, errors.New(string(c.State)+": "+c.Detail))
		}
	}
	now, read := t.machine.Read(after, ids)
	value, known := now[s.Knob].Get()
	switch {
	case back != nil || read != nil || !known || value != was:
		t.notBack = append(t.notBack, string(s.Knob))
		t.timed(began, "changes", string(s.Knob), Wrong, "was %s and is %s: %v", from, s.Of.Format(value), errors.Join(back, read))
	case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission):
		t.timed(began, "changes", string(s.Knob), Unseen, "%s as before; %s was not taken: %v", from, to, err)
	case err != nil:
		t.timed(began, "changes", string(s.Knob), Wrong, "%s as before; %s was not taken: %v", from, to, err)
	default:
		t.timed(began, "changes", string(s.Knob), OK, "%s, %s, and %s again", from, to, from)
	}
}

// another returns another, harmless value of a setting: only if a bad value could at worst
// waste memory or time (risk 0 and 1), if it takes effect at once or for new connections, and
// if writing the old value undoes it.
func another(s inspect.Setting, system string) (string, bool) {
	value, known := s.Value.Get()
	k := s.Of
	if !known || s.Scope == knob.ScopeFlow || s.ReadOnly || k.Risk > knob.RiskWaste || k.Writable(system) != nil {
		return "", false
	}
	if e := k.EffectOn(system); e != knob.EffectNow && e != knob.EffectNew {
		return "", false
	}
	switch k.Type {
	case knob.TypeBool:
		return map[string]string{"0": "1", "1": "0"}[value], value == "0" || value == "1"
	case knob.TypeBytes, knob.TypeInt:
		n, err := strconv.ParseInt(value, 10, 64)
		low, high := k.Bounds(system)
		switch {
		case err != nil || n < low || n > high || n <= 0: // 0 and values outside the range have special meanings
			return "", false
		case n <= high/2:
			return strconv.FormatInt(2*n, 10), true
		case n/2 >= max(low, 1):
			return strconv.FormatInt(n/2, 10), true
		}
	case knob.TypeEnum:
		for _, c := range k.Choices {
			if c.Value != value {
				return c.Value, true
			}
		}
	case knob.TypeRate, knob.TypeName, knob.TypeWords: // only the system knows the other values
	}
	return "", false
}
