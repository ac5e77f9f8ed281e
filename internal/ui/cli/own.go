package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
)

// ownFlags choose the engine of a flow, and say what belongs to it: one flag for
// each option that an engine states.
type ownFlags struct {
	kinds   traffic.Kinds
	engine  string
	options []*ownFlag
}

// ownFlag is one option as a flag.
type ownFlag struct {
	kind   traffic.Kind
	option traffic.Option
	text   string
}

// String implements pflag.Value.
func (o *ownFlag) String() string { return o.text }

// Set implements pflag.Value; whether the text is any good is asked of the engine
// later, with all other mistakes.
func (o *ownFlag) Set(text string) error {
	o.text = text
	return nil
}

// Type implements pflag.Value.
func (o *ownFlag) Type() string {
	if o.option.Switch {
		return "bool"
	}
	return "string"
}

// register adds the flags that fl does not have yet.
func (f *ownFlags) register(fl *pflag.FlagSet, kinds traffic.Kinds) {
	f.kinds = kinds
	fl.StringVar(&f.engine, "engine", "", "the kind of traffic: "+strings.Join(kinds.Names(), ", "))
	for _, k := range kinds {
		for _, o := range k.Options {
			if o.Usage == "" || fl.Lookup(o.Name) != nil {
				continue
			}
			one := &ownFlag{kind: k, option: o}
			f.options = append(f.options, one)
			if flag := fl.VarPF(one, o.Name, "", o.Usage); o.Switch {
				flag.NoOptDefVal = "true"
			}
		}
	}
}

// choose puts the engine that the flags choose into flow; also is one that another
// flag chooses, "" for none. It reports whether any does.
func (f *ownFlags) choose(flow *model.Flow, also string, given func(string) bool, bad *faults) bool {
	chosen, by := also, ""
	pick := func(flag, engine string) {
		if chosen != "" && chosen != engine {
			first, _ := f.kinds.ByName(chosen)
			bad.add(flag, fmt.Errorf("one kind of traffic at a time: leave it out, or %s", first.Chosen()))
			return
		}
		chosen, by = engine, flag
	}
	if f.engine != "" {
		pick("engine", f.engine)
	}
	for _, o := range f.options {
		if o.option.Chooses && given(o.option.Name) {
			pick(o.option.Name, o.kind.Name)
		}
	}
	if chosen == "" || len(*bad) > 0 && by == "" && also == "" {
		return false
	}
	kind, known := f.kinds.ByName(chosen)
	switch {
	case !known && also == "":
		bad.add("engine", fmt.Errorf("%s%q is not one of %s", meantWord(chosen, f.kinds.Names()), chosen, strings.Join(f.kinds.Names(), ", ")))
		return false
	case kind.Command != "":
		bad.add("engine", fmt.Errorf("%s has a command of its own: use linerate %s", chosen, kind.Command))
		return false
	}
	if flow.Engine != chosen {
		flow.Engine, flow.Params = chosen, kind.Initial
	}
	return true
}

// apply puts what belongs to the engine of flow into it, and reports what belongs to
// another.
func (f *ownFlags) apply(flow *model.Flow, given func(string) bool, bad *faults) {
	for _, o := range f.options {
		if !given(o.option.Name) {
			continue
		}
		mine, ok := f.kinds.Option(*flow, o.option.Name)
		switch {
		case !ok && o.kind.Title != "":
			bad.add(o.option.Name, fmt.Errorf("belongs to %s: add %s", o.kind.Title, o.kind.Chosen()))
		case !ok:
			bad.add(o.option.Name, errors.New("belongs to "+o.kind.Chosen()))
		default:
			bad.add(o.option.Name, mine.Set(flow, o.text))
		}
	}
}
