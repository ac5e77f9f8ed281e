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

// Word is something that can stand in a command line, and what it means.
type Word struct{ Text, About string }

// Names are the settings that a person can name and change, by theme: of this system,
// or with all those of every one. Those of the test traffic are among them where
// traffic is set.
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

// Values are values of a setting that are known without a person: its choices, the word
// for what is special, the one that this machine holds, and what systems begin with.
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
	plain := func(value string) string { // as a person writes it, in one word
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

// present is what this machine holds.
func present(ctx context.Context, id model.KnobID) fact.Of[string] {
	return hostknob.Host{}.Read(ctx, id)[id]
}

// Algorithms are the words that this machine takes for a setting of names, as those of
// congestion control, also where traffic asks for one; none where it keeps no list.
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
