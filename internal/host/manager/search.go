package manager

import (
	"cmp"
	"context"
	"slices"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/netplan"
	"linerate/internal/host/files/sysctl"
	"linerate/internal/host/files/tree"
	hostknob "linerate/internal/host/knob"
)

// Claims returns what sets the knobs ids, those of links for the interface link ("" omits
// them). The claims on a knob are in the order in which they are applied: of the active ones
// the last one counts. Claims skips unreadable files; it returns only the error of ctx.
func (m Machine) Claims(ctx context.Context, link string, ids []model.KnobID) ([]model.Claim, error) {
	ranked, err := m.ranked(ctx, link, ids)
	if err != nil {
		return nil, err
	}
	all := make([]model.Claim, len(ranked))
	for i, c := range ranked {
		all[i] = c.Claim
	}
	return all, nil
}

// Lines returns for each knob the line that sets it: the last one of a program that is, as
// far as known, active, else the last one of the permanent files.
func (m Machine) Lines(ctx context.Context, link string, ids []model.KnobID) (map[model.KnobID]model.FileLine, error) {
	ranked, err := m.ranked(ctx, link, ids)
	if err != nil {
		return nil, err
	}
	all := make(map[model.KnobID]model.FileLine)
	for _, atWork := range []bool{false, true} {
		for _, c := range ranked {
			if c.File != "" && c.Line > 0 && (atWork && c.Active.Or(true) || !atWork && c.permanent) {
				all[c.Knob] = model.FileLine{File: c.File, Number: c.Line, Text: c.Sets}
			}
		}
	}
	return all, nil
}

func (m Machine) ranked(ctx context.Context, link string, ids []model.KnobID) ([]ranked, error) {
	s := m.search(ctx, link, ids)
	switch m.System {
	case "linux":
		s.linux()
	case "freebsd":
		s.freebsd()
	case "darwin":
		s.darwin()
	case "windows":
		s.windows(ctx, m.Registry)
	}
	slices.SortStableFunc(s.claims, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(slices.Index(ids, a.Knob), slices.Index(ids, b.Knob)), cmp.Compare(a.turn, b.turn))
	})
	return s.claims, ctx.Err()
}

// turn orders the claims on a knob; the last one wins.
type turn int

// The turns of a boot of Linux, and of programs that run after it. If TuneD sets sysctls, it
// applies the files of sysctl.d(5) below /etc and /run once more over its own profile, unless
// reapply_sysctl of tuned-main.conf(5) is off.
const (
	turnKernel         turn = iota
	turnFiles               // sysctl.d, sorted by name
	turnBeforeAdmin         // TuneD, which lets the files of the administrator win
	turnAgain               // sysctl.d below /etc and /run, applied by TuneD
	turnBeforeLinkFile      // rules of udev that come before the one for .link files
	turnDevice              // udev, when the device appears
	turnLink                // the program that brings the interface up
	turnLease               // what comes with an address
	turnProfile             // TuneD, last
	turnAlways              // programs that watch and set again
)

type ranked struct {
	model.Claim
	turn      turn
	stated    bool // by a line of a permanent file
	permanent bool // stated, and read at boot
}

// source is a kind of permanent files: the program that applies its lines, and when.
type source struct {
	turn    turn
	manager model.Manager
	when    string
	active  fact.Of[bool]
	unread  bool // no program reads it at boot
}

// search is one call of Claims.
type search struct {
	tree    tree.Tree
	link    string
	device  device.Device // Linux: link
	ids     []model.KnobID
	knobs   *knob.Index
	names   map[string][]model.KnobID // of sysctls, by sysctl.Key of the native name
	running map[string]bool           // nil: unknown
	claims  []ranked

	// The files of Linux that define link; File is "" if there is none.
	netplan                      netplan.Definition
	keyfile, network, interfaces model.FileLine
}

func (m Machine) search(ctx context.Context, link string, ids []model.KnobID) *search {
	s := &search{tree: tree.Tree{Root: m.Root}, link: link, ids: ids, knobs: m.Catalogue, names: make(map[string][]model.KnobID)}
	if m.Root == nil {
		s.tree.Root = nothing{}
	}
	if m.System == "linux" && link != "" {
		s.device = device.Look(s.tree, link)
	}
	for _, id := range ids {
		k, ok := m.Catalogue.ByID(id)
		if n := k.Native[m.System]; ok && n.Mechanism == knob.Sysctl {
			name := sysctl.Key(hostknob.Host{Interface: link}.Expand(n.Name))
			s.names[name] = append(s.names[name], id)
		}
	}
	if m.Running != nil {
		if running, err := m.Running(ctx); err == nil {
			s.running = running
		}
	}
	return s
}

// runs reports whether a process with one of these names runs.
func (s *search) runs(names ...string) fact.Of[bool] {
	if s.running == nil {
		return fact.Unknown[bool]("the list of processes is not known")
	}
	for _, n := range names {
		if s.running[n] {
			return fact.Known(true, "process "+n)
		}
	}
	return fact.Known(false, "list of processes")
}

// mayRun reports whether one of these runs, or that is unknown.
func (s *search) mayRun(names ...string) bool { return s.runs(names...).Or(true) }

// add adds a claim if its knob is wanted.
func (s *search) add(t turn, c model.Claim) { s.append(ranked{Claim: c, turn: t}) }

func (s *search) append(c ranked) {
	if !slices.Contains(s.ids, c.Knob) {
		return
	}
	if k, ok := s.knobs.ByID(c.Knob); ok && k.Scope != knob.ScopeHost {
		if s.link == "" {
			return
		}
		c.Link = s.link
	}
	s.claims = append(s.claims, c)
}

// addSysctl adds claims about a sysctl by any of its names.
func (s *search) addSysctl(t turn, name string, c model.Claim) {
	for _, id := range s.names[sysctl.Key(name)] {
		c.Knob = id
		s.add(t, c)
	}
}

// say adds the setting of a line of a permanent file.
func (s *search) say(from source, id model.KnobID, l model.FileLine, text string) {
	s.append(ranked{model.Claim{
		Knob: id, Manager: from.manager, Sets: text, When: from.when, File: l.File, Line: l.Number, Active: from.active,
	}, from.turn, true, !from.unread})
}

// saySysctl adds a line of a permanent file that sets a sysctl, by any of its names.
func (s *search) saySysctl(from source, name string, l model.FileLine, text string) {
	for _, id := range s.names[sysctl.Key(name)] {
		s.say(from, id, l, text)
	}
}

// sayCommand adds the settings of a command in a permanent file.
func (s *search) sayCommand(from source, l model.FileLine, text string) {
	for _, one := range command.Settings(text, s.link) {
		s.say(from, one.Knob, l, one.Text)
	}
	for name, value := range command.Sysctls(text) {
		s.saySysctl(from, name, l, value)
	}
}

// states reports whether the files of one of these programs set a knob.
func (s *search) states(id model.KnobID, by ...model.Manager) bool {
	return slices.ContainsFunc(s.claims, func(c ranked) bool { return c.stated && c.Knob == id && slices.Contains(by, c.Manager) })
}
