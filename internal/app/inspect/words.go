package inspect

import (
	"context"
	"runtime"
	"slices"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	hostknob "linerate/internal/host/knob"
)

// Word is a word of a command line, with its meaning.
type Word struct{ Text, About string }

// Names returns the settings that a user can change, by theme: those of this system, or with
// all those of every system; with traffic also those of the test traffic.
func Names(catalogue *knob.Index, all, traffic bool) (words []Word) {
	for _, theme := range knob.Themes() {
		for _, id := range theme.Knobs {
			k, _ := catalogue.ByID(id)
			flow := k.Scope == knob.ScopeFlow
			n, here := k.Native[runtime.GOOS]
			switch {
			case flow && traffic, !flow && !k.ReadOnly && (all || here && !n.ReadOnly):
				words = append(words, Word{string(id), k.Summary})
			}
		}
	}
	return words
}

// Values suggests values of a setting: its choices, the word for a special value, the current
// value on this machine, and the defaults of systems.
func Values(ctx context.Context, catalogue *knob.Index, id model.KnobID) (words []Word) {
	k, ok := catalogue.ByID(id)
	if !ok {
		return nil
	}
	add := func(text, about string) {
		if !slices.ContainsFunc(words, func(w Word) bool { return w.Text == text }) {
			words = append(words, Word{text, about})
		}
	}
	switch k.Type {
	case knob.TypeBool:
		add("on", "")
		add("off", "")
	case knob.TypeEnum:
		for _, c := range k.Choices {
			add(c.Value, c.Meaning)
		}
	case knob.TypeName:
		for _, name := range Algorithms(ctx, id) {
			add(name, "this machine has it")
		}
	case knob.TypeBytes, knob.TypeInt, knob.TypeRate, knob.TypeWords:
	}
	if k.Zero != "" {
		add(k.Zero, "the value 0")
	}
	plain := func(value string) string { // as the user writes it, in one word
		short, _, _ := strings.Cut(k.Format(value), " (")
		short = strings.ReplaceAll(short, " ", "")
		if again, err := k.Parse(short); err == nil && again == value {
			return short
		}
		return value
	}
	if k.Scope != knob.ScopeFlow {
		if v, known := present(ctx, id).Get(); known {
			add(plain(v), "as it is here")
		}
	}
	for _, d := range k.Defaults {
		if v, err := k.Parse(d.Value); err == nil {
			add(plain(v), "what "+d.System+" begins with")
		}
	}
	return words
}

// present returns the value on this machine.
func present(ctx context.Context, id model.KnobID) fact.Of[string] {
	return hostknob.Host{}.Read(ctx, id)[id]
}

// Algorithms returns the names that this machine accepts for a setting such as congestion
// control, also for one of the test traffic; none if the machine keeps no list.
func Algorithms(ctx context.Context, id model.KnobID) []string {
	if id == "congestion" {
		id = "tcp.congestion_control"
	}
	all, err := hostknob.Host{}.Choices(ctx, id)
	if err != nil {
		return nil
	}
	return all
}
