package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/files"
	"linerate/internal/fault"
	"linerate/internal/report/term"
	"linerate/internal/ui/config"
)

// files returns the plans of the command line with the flags applied: one, or one for each
// variant of a preset, between which the hosts decide.
func (a *console) files(f *runFlags, fl *pflag.FlagSet, args []string) ([]config.File, error) {
	if f.preset == "" {
		file, err := a.file(f, nil, fl, args)
		return []config.File{file}, err
	}
	p, err := config.ByPresetName(f.preset)
	switch {
	case err != nil:
		return nil, fault.WithHint(fault.Usagef("--preset: %w", err), "linerate run HOST --preset windows")
	case len(args) > 0 && isPlanFile(args[0]):
		return nil, fault.Usagef("--preset: %s is a plan of its own: leave one of the two out", args[0])
	case fl.Changed("factor"):
		return nil, fault.WithHint(fault.Usagef("--preset: the factors are those of the preset: leave --factor out"), "write the plan of the preset into a file and change it there: see docs/plan-files.md")
	case p.Copies && fl.Changed("time"):
		return nil, fault.Usagef("--time: a copy ends when the file is there: use --bytes")
	}
	variants, err := p.Files(knobChecker{a.knobs, a.kinds(), nil}, a.kinds())
	for i := range variants {
		if err == nil {
			variants[i], err = a.file(f, &variants[i], fl, args)
		}
	}
	return variants, err
}

// fitted returns the question that the hosts can answer: for a preset, its first variant whose
// settings they accept.
func (a *console) fitted(ctx context.Context, q question, e *target.Ends) (question, error) {
	p, err := config.ByPresetName(q.preset)
	if q.preset == "" || err != nil {
		return q, nil
	}
	var lacks []string
	for i, v := range q.variants {
		settings, _ := v.Settings()
		lack := config.Lacking(settings, e.Hosts)
		if p.Copies && lack == "" {
			var out []string
			v.Named, out = config.Raising(v.Named, e.Hosts)
			if settings, _ = v.Settings(); len(settings) < 2 {
				lack, out = "the hosts have already what it would raise", nil
			}
			for _, text := range out {
				a.talk("left out %s", text)
			}
		}
		if lack == "" && !q.dry { // a dry run changes nothing, not even for a moment
			if lack, err = trial.Rehearse(ctx, e, settings); err != nil {
				return q, err
			}
			if lack == "" {
				if v.Named, lack, err = a.arriving(ctx, e, q.Flow, v.Named, settings); err != nil {
					return q, err
				}
			}
		}
		if lack == "" {
			if i > 0 {
				a.talk("preset %s as for %s; not as for %s", p.Name, p.Variants[i].Of, strings.Join(lacks, "; "))
			}
			q.File = v
			return q, nil
		}
		if of := p.Variants[i].Of; of != "" {
			lack = of + ": " + lack
		}
		lacks = append(lacks, lack)
	}
	err = fmt.Errorf("preset %s cannot be measured here: %s", p.Name, strings.Join(lacks, "; "))
	return q, fault.WithHint(fault.WithKind(fault.Unsupported, err), "it needs %s", p.Needs)
}

// probing returns the traffic that measures the round trip before a plan of flow. Copies of
// files cannot.
func probing(flow model.Flow) model.Flow {
	if flow.Engine == files.Name {
		flow.Engine, flow.Params = bulk.Name, ""
	}
	return flow
}

// presetWidth is the width of a sentence after a name in the list of presets.
const presetWidth = 68

// presetHelp lists the presets for the help of run.
func presetHelp() string {
	var b strings.Builder
	for _, p := range config.Presets() {
		fmt.Fprintf(&b, "\n  %-8s %s", p.Name, strings.Join(term.Wrap(p.Summary, presetWidth, presetWidth), "\n           "))
	}
	return b.String()
}

// arriving drops those of the named settings whose packets are too large for the path. If fewer
// than two are left to compare, lack says why.
func (a *console) arriving(ctx context.Context, e *target.Ends, flow model.Flow, named, settings []model.Setting) (left []model.Setting, lack string, err error) {
	var out []string
	for _, s := range settings {
		text, err := trial.Arrives(ctx, e, s, probing(flow), []model.Direction{model.To, model.From})
		if err != nil {
			return named, "", err
		}
		if text != "" {
			lack, out = text, append(out, s.Name)
		}
	}
	left = slices.DeleteFunc(slices.Clone(named), func(s model.Setting) bool { return slices.Contains(out, s.Name) })
	if lack != "" && len(left) > 1 {
		a.talk("left out %s: %s", plain.And(out), lack)
		lack = ""
	}
	return left, lack, nil
}
