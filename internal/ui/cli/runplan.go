package cli

import (
	"cmp"
	"errors"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"linerate/internal/app/target"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/fault"
	"linerate/internal/ui/config"
)

// file returns the plan file of the command line, or that of a preset, with the flags applied.
func (a *console) file(f *runFlags, preset *config.File, fl *pflag.FlagSet, args []string) (config.File, error) {
	file := config.File{Kinds: a.kinds()}
	if preset != nil {
		file = *preset
	}
	check := knobChecker{a.knobs, file.Kinds, a.textOf}
	var bad faults
	if n := len(args); n == 2 || n == 1 && !isPlanFile(args[0]) {
		if f.far != "" && f.far != args[n-1] {
			return file, fault.WithHint(fault.Usagef("two far ends: %s and --far %s", target.Redact(args[n-1]), target.Redact(f.far)), "give one of them; the near end is --from")
		}
		f.far = args[n-1]
	}
	if len(args) > 0 && isPlanFile(args[0]) {
		b, err := readText(args[0])
		if err != nil {
			return file, fault.WithHint(err, "name a plan file that is there, or a HOST and --factor KNOB=VALUE,VALUE")
		}
		if file, err = config.Parse(args[0], b, check, file.Kinds); err != nil {
			return file, err
		}
		if err := f.mayExec(args[0], file.Near, file.Far); err != nil {
			return file, err
		}
		var ends []string
		factor, _ := file.FarEnds()
		for _, l := range factor.Levels {
			ends = append(ends, l.Value)
		}
		replaced := len(f.factors)+len(f.sets) > 0
		if err := f.mayReach(args[0], ends); err != nil && !replaced {
			return file, err
		}
		settings, _ := file.Settings()
		hooks := file.Hooks
		if replaced {
			settings = nil
		}
		if len(f.before)+len(f.after) > 0 {
			hooks = nil
		}
		commands, _ := commandsOf(settings, hooks)
		if err := f.mayRun(args[0], commands); err != nil {
			return file, err
		}
	}
	file.Far, file.Near = cmp.Or(f.far, file.Far), cmp.Or(f.from, file.Near)
	f.factorsOver(&file, check, &bad)
	f.commandFlags(&file, fl.Changed, &bad)
	if choose(fl, file.Kinds, &file.Flow, "", &bad) && f.udp && file.Flow.Engine != udp.Name && file.Flow.Engine != probes.Name {
		bad.add("udp", errors.New("one kind of traffic at a time: leave it out, or choose no other"))
	}
	if f.udp && !udp.Carries(file.Flow) {
		load := model.Flow{Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: udp.DefaultRate})}
		if file.Flow.Engine == probes.Name {
			load = probes.Over(load)
		}
		file.Flow.Engine, file.Flow.Params = load.Engine, load.Params
	}
	file, err := a.over(file, fl)
	bad.join(err)
	if len(file.Directions) == 0 {
		file.Directions, file.Flow.Direction = []model.Direction{model.To}, model.To
	}
	if len(file.Factors) == 0 && len(file.Named) == 0 && len(bad) == 0 {
		return file, fault.WithHint(fault.Usagef("nothing to compare"), "name a plan file, a set of settings, or a factor:\nlinerate run HOST --factor far.tcp.recv_buffer_max=64KiB,1MiB")
	}
	if err := bad.err(); err != nil {
		return file, err
	}
	return file, file.Validate()
}

func (f *runFlags) factorsOver(file *config.File, check knobChecker, bad *faults) {
	if len(f.factors)+len(f.sets) > 0 {
		file.Factors, file.Named = nil, nil
	}
	for _, text := range f.sets {
		s, err := config.ParseNamed(text, check)
		bad.add("set", err)
		file.Named = append(file.Named, s)
	}
	for _, text := range f.factors {
		factor, err := config.ParseFactor(text, check)
		bad.add("factor", err)
		file.Factors = append(file.Factors, factor)
		if k, _, ok := check.kinds.Owner(string(factor.Knob)); ok && k.Name == files.Name {
			file.Copies()
		}
	}
	if f.group != "" {
		bad.add("group", file.Hold(f.group))
	}
}

func isPlanFile(arg string) bool {
	info, err := os.Stat(arg)
	return isYAML(arg) || err == nil && info.Mode().IsRegular()
}

func isYAML(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}
