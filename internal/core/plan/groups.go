package plan

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
)

// group returns what s assigns to knob k on all hosts, as one text: settings with equal text
// are measured one after another while k holds. "" is no assignment.
func group(s model.Setting, k model.KnobID) string {
	var out []string
	for _, a := range s.Assignments {
		if a.Knob == k {
			out = append(out, string(a.Host)+"="+a.Value)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// grouped returns the names of the settings by their assignment to knob k, in the given order.
func grouped(settings []model.Setting, k model.KnobID) [][]string {
	var keys []string
	var out [][]string
	for _, s := range settings {
		key := group(s, k)
		i := slices.Index(keys, key)
		if i < 0 {
			i, keys, out = len(keys), append(keys, key), append(out, nil)
		}
		out[i] = append(out[i], s.Name)
	}
	return out
}

// groupedBlock is a block of whole plots (statistics.md section 11.3; Fisher, Statistical
// Methods for Research Workers, 1925, on split plots): the groups in random order, and the
// settings of each in random order. All groups have the same size, so that every setting is
// equally likely at each position of the block, and first after a change: the effect of a
// position cannot pass for the effect of a setting.
func groupedBlock(p model.Plan, rng *rand.Rand) []string {
	var out []string
	for _, g := range shuffled(grouped(p.Settings, p.Held), rng) {
		out = append(out, shuffled(g, rng)...)
	}
	return out
}

// assigned returns the knobs that s assigns, with their hosts.
func assigned(s model.Setting) []string {
	out := lists.Each(s.Assignments, func(a model.Assignment) string { return a.Host.Of(a.Knob) })
	slices.Sort(out)
	return out
}

// checkGroups rejects groups that could not be compared fairly, or hold nothing.
func (o Request) checkGroups(f *faults) {
	if o.Held == "" {
		return
	}
	f.add(o.Factor == o.Held, "%s is held over groups of runs, so that its own plateau cannot be looked for", o.Held)
	f.add(slices.ContainsFunc(o.Settings, func(s model.Setting) bool { return s.FarEnd() != "" }), "several far ends are a factor, whose hosts take turns: what %s is held with on one of them would stay there while another is measured: leave the group out, or measure each far end in a session of its own", o.Held)
	f.add(o.Null == NullTwin, "a twin of the baseline would make one group larger than the others; %s is held over groups, whose baseline is compared with itself in pairs at the start", o.Held)
	before := len(*f)
	for _, s := range o.Settings {
		f.add(group(s, o.Held) == "", "setting %q does not assign %s, which is held over groups of runs: each setting, the baseline too, needs a level of it", s.Name, o.Held)
	}
	if len(*f) > before {
		return // the same fault was reported above
	}
	f.add(len(o.Hooks) > 0, "hooks are taken back after every run, and what %s is held with only after a group: leave one of them out", o.Held)
	for _, s := range o.Settings {
		f.add(slices.ContainsFunc(s.Assignments, model.Assignment.IsCommand), "setting %q runs a command, which is taken back after every run, and what %s is held with only after a group", s.Name, o.Held)
		f.add(!slices.Equal(assigned(s), assigned(o.Settings[0])), "settings %q and %q do not assign the same: in a group nothing would take back what one leaves out", o.Settings[0].Name, s.Name)
	}
	all := grouped(o.Settings, o.Held)
	f.add(len(all) == 1, "%s has the same value in all settings: there is nothing to group", o.Held)
	if len(all) > 1 {
		bySize := func(a, b []string) int { return cmp.Compare(len(a), len(b)) }
		few, most := slices.MinFunc(all, bySize), slices.MaxFunc(all, bySize)
		f.add(len(few) != len(most), "groups must be equally large: %d of the settings have the %s of %q, and %d that of %q", len(few), o.Held, few[0], len(most), most[0])
		f.add(len(most) == 1, "every setting has a %s of its own: there is nothing that could be changed while it is held", o.Held)
	}
}

// Groups returns the settings of a block in the order of measurement, grouped by the value of
// the knob that p holds. Without a held knob, and for the baseline pairs at the start, each run
// is a group; block counts from 1.
func Groups(p model.Plan, block int) [][]string {
	var out [][]string
	var last string
	for i, name := range p.Order[block-1] {
		s, _ := p.Setting(name)
		key := group(s, p.Held)
		if p.Held == "" || block <= p.NullBlocks || i == 0 || key != last {
			out = append(out, nil)
		}
		out[len(out)-1], last = append(out[len(out)-1], name), key
	}
	return out
}
