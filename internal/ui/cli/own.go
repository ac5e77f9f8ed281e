package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
)

// ofEngine is the annotation of the flags that belong to one kind of traffic.
const ofEngine = "engine"

// registerOwn adds --engine, and a flag for each option of a kind of traffic, unless fl already
// has a flag of that name.
func registerOwn(fl *pflag.FlagSet, kinds traffic.Kinds) {
	fl.String("engine", "", "the kind of traffic: "+strings.Join(kinds.Names(), ", "))
	for _, k := range kinds {
		for _, o := range k.Options {
			if o.Usage == "" || fl.Lookup(o.Name) != nil {
				continue
			}
			if o.Switch {
				fl.Bool(o.Name, false, o.Usage)
			} else {
				fl.String(o.Name, "", o.Usage)
			}
			_ = fl.SetAnnotation(o.Name, ofEngine, []string{k.Name}) // fails only for an unknown flag
		}
	}
}

// choose sets flow's engine from the flags; also is an engine that another flag chooses, "" for
// none. It reports whether one was chosen.
func choose(fl *pflag.FlagSet, kinds traffic.Kinds, flow *model.Flow, also string, bad *faults) bool {
	chosen, by := also, ""
	pick := func(flag, engine string) {
		if chosen != "" && chosen != engine {
			first, _ := kinds.ByName(chosen)
			bad.add(flag, fmt.Errorf("one kind of traffic at a time: leave it out, or %s", first.Chosen()))
			return
		}
		chosen, by = engine, flag
	}
	if engine := fl.Lookup("engine").Value.String(); engine != "" {
		pick("engine", engine)
	}
	for _, k := range kinds {
		for _, o := range k.Options {
			if f := fl.Lookup(o.Name); o.Chooses && f != nil && f.Changed && f.Annotations[ofEngine] != nil && f.Annotations[ofEngine][0] == k.Name {
				pick(o.Name, k.Name)
			}
		}
	}
	if chosen == "" || len(*bad) > 0 && by == "" && also == "" {
		return false
	}
	kind, known := kinds.ByName(chosen)
	switch {
	case !known && also == "":
		bad.add("engine", fmt.Errorf("%s%q is not one of %s", meantWord(chosen, kinds.Names()), chosen, strings.Join(kinds.Names(), ", ")))
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
