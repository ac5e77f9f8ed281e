package cli

import (
	"errors"
	"slices"
	"strings"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/core/analysis"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/ui/config"
)

// runEnds are the ends of an experiment: near, the baseline's far end, and those of other
// settings.
type runEnds struct {
	near, far target.Target
	others    []target.Target
}

// textOf parses a far end and returns it without its command.
func (a *console) textOf(text string) (string, error) {
	t, err := target.Parse(text, a.world())
	return t.Text, err
}

// oneFar handles a HOST that is also a level of the factor far: it is the first level, not an
// additional one, so that nothing is compared with itself.
func (a *console) oneFar(file *config.File) error {
	ends, several := file.FarEnds()
	if file.Far == "" || !several {
		return nil
	}
	text, err := a.textOf(file.Far)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(ends.Levels, func(l config.Level) bool { return l.Value == text })
	if i < 0 {
		return nil
	}
	ends.Targets[text], file.Far = file.Far, ""
	first := ends.Levels[i]
	ends.Levels = slices.Insert(slices.Delete(slices.Clone(ends.Levels), i, i+1), 0, first)
	file.Factors = slices.Clone(file.Factors)
	for n, f := range file.Factors {
		if f.Knob == model.FarEnd {
			file.Factors[n] = ends
		}
	}
	return nil
}

// targets parses the ends of a plan.
func (f *runFlags) targets(file config.File, env app.Env) (runEnds, error) {
	settings, baseline := file.Settings()
	main := file.Far
	ends, _ := file.FarEnds()
	used := false // whether the far end that is no level is used
	for _, s := range settings {
		end := s.FarEnd()
		used = used || end == ""
		if s.Name == baseline && end != "" {
			main = ends.Targets[end]
		}
	}
	switch {
	case main == "":
		return runEnds{}, fault.WithHint(fault.Usagef("no host named"), "name the far end: linerate run HOST ..., or far: in the plan file")
	case file.Far != "" && !used:
		return runEnds{}, fault.WithHint(fault.Usagef("%s is measured by no setting: the far ends are the levels of far, and the baseline is %s", target.Redact(file.Far), baseline),
			"leave it out, or make it a level")
	}
	e, err := pairOf(file.Near, main, env)
	for _, l := range ends.Levels {
		if err != nil || l.Value == e.far.Text {
			continue
		}
		var other runEnds
		other, err = pairOf(file.Near, ends.Targets[l.Value], env)
		e.others = append(e.others, other.far)
	}
	return e, err
}

func pairOf(near, far string, env app.Env) (e runEnds, err error) {
	e.near, e.far, err = target.Pair(near, far, env)
	return e, err
}

// mayReach is mayExec for the levels of far in a plan file or a session.
func (f *runFlags) mayReach(where string, ends []string) error {
	for _, end := range ends {
		if !f.allowExec && strings.HasPrefix(end, "exec:") {
			return fault.WithHint(fault.Usagef("%s wants to run a command on this machine: %s", where, end), "if that is what you want, add --allow-exec")
		}
	}
	return nil
}

// resumedEnds returns the far ends that the open blocks of a stored session still need, except
// the baseline's.
func (f *runFlags) resumedEnds(s model.Session, near string, env app.Env) ([]target.Target, error) {
	var out []target.Target
	for _, block := range analysis.OpenBlocks(s.Plan, s.Runs) {
		for _, name := range s.Plan.Order[block-1] {
			setting, _ := s.Plan.Setting(name)
			end := setting.FarEnd()
			if end == "" || end == s.Far || slices.ContainsFunc(out, func(t target.Target) bool { return t.Text == end }) {
				continue
			}
			pair, err := pairOf(near, end, env)
			if err != nil {
				return nil, err
			}
			if pair.far.Kind == target.Serve && pair.far.Named == "" {
				return nil, fault.WithHint(fault.Usagef("far end %s needs its join link, and secrets are not stored", end),
					"name servers by their host names, which are remembered, where a session is to be resumed")
			}
			out = append(out, pair.far)
		}
	}
	return out, nil
}

var errNoEnds = errors.New("far ends are a factor of linerate run, and no setting")
