package selftest

import (
	"context"
	"strings"

	"linerate/internal/app/inspect"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// facts reads the machine and its interfaces.
func (t *trial) facts(ctx context.Context) {
	var err error
	t.host, err = inspect.Near(ctx, t.machine, "")
	if err != nil {
		t.add("facts", "this machine", Wrong, "%v", err)
		return
	}
	f := t.host.HostFacts
	add(t, "kernel", f.Kernel)
	t.add("facts", "processors", OK, "%d", f.CPUs)
	if m := f.Machine; m != nil {
		for _, one := range []struct {
			name string
			v    fact.Of[string]
		}{{"vendor", m.Vendor}, {"product", m.Product}, {"hypervisor", m.Virtual}, {"processor", m.CPU}} {
			add(t, one.name, one.v)
		}
		add(t, "memory", asText(m.Memory, units.Bytes.Binary))
	}
	add(t, "way out", f.Interface)
	add(t, "link rate", asText(f.LinkRate, units.BitRate.String))
	if len(f.NICs) == 0 {
		t.add("facts", "interfaces", Wrong, "none was found")
	}
	for _, n := range f.NICs {
		t.add("facts", "interface "+n.Name, OK, "%s", interfaceText(n))
	}
}

// asText is a fact as text.
func asText[T any](v fact.Of[T], text func(T) string) fact.Of[string] {
	if value, ok := v.Get(); ok {
		return fact.Known(text(value), v.Source())
	}
	return fact.Unknown[string](v.Reason())
}

// add adds a fact; an unknown fact is not a fault.
func add(t *trial, name string, v fact.Of[string]) {
	if text, ok := v.Get(); ok {
		t.add("facts", name, OK, "%s", text)
		return
	}
	t.add("facts", name, Unseen, "%s", v.Reason())
}

// interfaceText returns what identifies a card and its driver.
func interfaceText(n model.NIC) string {
	words := []string{n.Kind.Or("of unknown kind")}
	for _, one := range []struct {
		name string
		v    fact.Of[string]
	}{{"driver", n.Driver}, {"version", n.Version}, {"firmware", n.Firmware}, {"speed", asText(n.Media.Speed, units.BitRate.String)}, {"duplex", n.Media.Duplex}} {
		if text := one.v.Or(""); text != "" {
			words = append(words, one.name+" "+text)
		}
	}
	if up, ok := n.Up.Get(); ok && !up {
		words = append(words, "down")
	}
	return strings.Join(words, ", ")
}

// settings reads every setting that this system has: its value, or why it has none.
func (t *trial) settings(context.Context) {
	if len(t.host.Knobs) == 0 {
		t.add("settings", "all", Wrong, "none was read")
		return
	}
	for _, s := range t.host.Settings("", false) {
		if s.Scope == knob.ScopeFlow {
			continue
		}
		value, known := s.Value.Get()
		switch canonical, err := s.Of.Parse(value); {
		case !known && knob.ReasonOf(s.Value) == knob.OtherReason:
			t.add("settings", string(s.Knob), Wrong, "%s", s.Value.Reason())
		case !known:
			t.add("settings", string(s.Knob), Unseen, "%s", s.Value.Reason())
		case err == nil && canonical != value:
			t.add("settings", string(s.Knob), Wrong, "%q reads as %q", value, canonical)
		case err != nil: // a range that is too narrow is a fault of linerate, with no effect so far
			t.add("settings", string(s.Knob), OK, "%s (%s), which is not in linerate's own range: %v", s.Of.Format(value), s.Native, err)
		default:
			t.add("settings", string(s.Knob), OK, "%s (%s)", s.Of.Format(value), s.Native)
		}
	}
}
