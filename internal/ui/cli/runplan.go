package cli

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"linerate/internal/app/reach"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/ui/config"
)

// file returns the plan file of the command line, or that of a preset, with the flags
// over it.
func (f *runFlags) file(preset *config.File, given func(string) bool, args []string) (config.File, error) {
	file := config.File{Kinds: f.own.kinds}
	if preset != nil {
		file = *preset
	}
	var bad faults
	if n := len(args); n == 2 || n == 1 && !isPlanFile(args[0]) {
		if f.far != "" && f.far != args[n-1] {
			return file, withHint(usagef("two far ends: %s and --far %s", reach.Redact(args[n-1]), reach.Redact(f.far)), "give one of them; the near end is --from")
		}
		f.far = args[n-1]
	}
	if len(args) > 0 && isPlanFile(args[0]) {
		b, err := readText(args[0])
		if err != nil {
			return file, withHint(err, "name a plan file that is there, or a HOST and --factor KNOB=VALUE,VALUE")
		}
		if file, err = config.Parse(args[0], b, knobChecker{f.knobs, f.own.kinds, f.end}, f.own.kinds); err != nil {
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
		if given("before") || given("after") {
			hooks = nil
		}
		commands, _ := commandsOf(settings, hooks)
		if err := f.mayRun(args[0], commands); err != nil {
			return file, err
		}
	}
	if f.far != "" {
		file.Far = f.far
	}
	if f.from != "" {
		file.Near = f.from
	}
	if f.title != "" {
		file.Title = f.title
	}
	f.factorsOver(&file, &bad)
	f.commandFlags(&file, given, &bad)
	if f.own.choose(&file.Flow, "", given, &bad) && f.udp && file.Flow.Engine != udp.Name && file.Flow.Engine != probes.Name {
		bad.add("udp", errors.New("one kind of traffic at a time: leave it out, or choose no other"))
	}
	f.flow.overlay(&file.Flow, given, file.Has, &bad)
	f.own.apply(&file.Flow, given, &bad)
	f.datagrams(&file.Flow, &bad)
	f.design(&file, given, &bad)
	if len(file.Directions) == 0 || given("direction") {
		d, err := parseDirections(f.direction)
		bad.add("direction", err)
		file.Directions = d
	}
	if len(file.Directions) > 0 {
		file.Flow.Direction = file.Directions[0]
	}
	if len(file.Factors) == 0 && len(file.Named) == 0 && len(bad) == 0 {
		return file, withHint(usagef("nothing to compare"), "name a plan file, a set of settings, or a factor:\nlinerate run HOST --factor far.tcp.recv_buffer_max=64KiB,1MiB")
	}
	if err := bad.err(); err != nil {
		return file, err
	}
	return file, file.Validate()
}

func (f *runFlags) factorsOver(file *config.File, bad *faults) {
	if len(f.factors)+len(f.sets) > 0 {
		file.Factors, file.Named = nil, nil
	}
	for _, text := range f.sets {
		s, err := config.ParseNamed(text, knobChecker{f.knobs, f.own.kinds, f.end})
		bad.add("set", err)
		file.Named = append(file.Named, s)
	}
	for _, text := range f.factors {
		factor, err := config.ParseFactor(text, knobChecker{f.knobs, f.own.kinds, f.end})
		bad.add("factor", err)
		file.Factors = append(file.Factors, factor)
		if k, _, ok := f.own.kinds.Owner(string(factor.Knob)); ok && k.Name == files.Name {
			file.Copies()
		}
	}
	if f.group != "" {
		bad.add("group", file.Hold(f.group))
	}
	if f.baseline != "" {
		file.Baseline = f.baseline
	}
}

// datagrams makes the traffic UDP, or the load where there are probes beside it.
func (f *runFlags) datagrams(flow *model.Flow, bad *faults) {
	if f.udp && !udp.Carries(*flow) {
		load := model.Flow{Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: udp.DefaultRate})}
		if flow.Engine == probes.Name {
			load = probes.Over(load)
		}
		flow.Engine, flow.Params = load.Engine, load.Params
	}
	switch {
	case f.rate == "":
		return
	case !udp.Carries(*flow):
		bad.add("bitrate", errors.New("belongs to UDP: add --udp"))
		return
	}
	next, err := knob.ApplyFlow(*flow, []model.Assignment{{Knob: "rate", Value: f.rate}})
	bad.add("bitrate", err)
	*flow = next
}

// design overlays the flags that say how the experiment goes.
func (f *runFlags) design(file *config.File, given func(string) bool, bad *faults) {
	if given("blocks") {
		if f.blocks < 1 || f.blocks > mostBlocks {
			bad.add("blocks", fmt.Errorf("%d is not a number of blocks from 1 to %d", f.blocks, mostBlocks))
		}
		file.Blocks = f.blocks
	}
	if given("max-blocks") || file.MaxBlocks == 0 {
		if given("blocks") && given("max-blocks") {
			bad.add("max-blocks", errors.New("--blocks says exactly how many: leave one of the two out"))
		}
		if f.maxBlocks < 1 || f.maxBlocks > mostBlocks {
			bad.add("max-blocks", fmt.Errorf("%d is not a number of blocks from 1 to %d", f.maxBlocks, mostBlocks))
		}
		file.MaxBlocks = f.maxBlocks
	}
	if given("budget") {
		if file.Budget = bad.duration("budget", f.budget); file.Budget == 0 && len(*bad) == 0 {
			bad.add("budget", errors.New("no time at all measures nothing; leave it out for no bound"))
		}
	}
	if given("data") {
		file.Data = bad.data(f.data)
	}
	if given("objective") {
		m, err := config.ParseObjective(f.objective)
		bad.add("objective", err)
		file.Objective = m
	}
	if len(f.guards) > 0 {
		file.Guards = nil
	}
	for _, text := range f.guards {
		g, err := config.ParseGuard(text)
		bad.add("guard", err)
		if err == nil {
			file.Guards = append(file.Guards, g)
		}
	}
	percent := func(flag, text string, to *units.Percent) {
		if given(flag) || *to == 0 {
			p, err := units.ParsePercent(text)
			if err == nil && p == 0 {
				err = errors.New("no number of blocks tells differences of any size: write it like 1% or 0.1%")
			}
			bad.add(flag, err)
			*to = p
		}
	}
	percent("margin", f.margin, &file.Margin)
	percent("tolerance", f.tolerance, &file.Tolerance)
	if given("settle") || !file.Has("settle") {
		file.Settle = bad.duration("settle", f.settle)
		if file.Settle == 0 {
			file.Settle = -1 // none, where plan.Options takes 0 for its default
		}
	}
	if given("cooldown") {
		file.Cooldown = bad.duration("cooldown", f.cooldown)
	}
	file.Incomplete = file.Incomplete || f.incomplete
	if f.noTwin {
		file.Null = plan.NullNone
	}
}

func (f *runFlags) seedOr(file config.File) uint64 {
	switch {
	case f.seed != 0:
	case file.Seed != 0:
		f.seed = file.Seed
	default:
		f.seed = rand.Uint64() >> 11 // JSON numbers hold 53 bits exactly
	}
	return f.seed
}

func isPlanFile(arg string) bool {
	if strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml") {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular()
}

func parseDirections(s string) ([]model.Direction, error) {
	switch s {
	case "to", "from", "both":
		return []model.Direction{model.Direction(s)}, nil
	case "each":
		return []model.Direction{model.To, model.From}, nil
	}
	return nil, fmt.Errorf("%s%q is none of to, from, each, both", meantWord(s, []string{"to", "from", "each", "both"}), s)
}
