package manager

import (
	"cmp"
	"context"
	"slices"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/files/sysctl"
	"linerate/internal/host/files/tree"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/origin"
)

// Claims returns who sets the knobs ids, those of links for the interface link
// ("" leaves these out). For one knob they stand in the order in which they are
// applied: of those that are at work, the last one counts. Files that cannot be
// read are passed over; the only error is that of ctx.
func (m Machine) Claims(ctx context.Context, link string, ids []model.KnobID) ([]model.Claim, error) {
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
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.claims, func(a, b ranked) int {
		if c := cmp.Compare(slices.Index(ids, a.Knob), slices.Index(ids, b.Knob)); c != 0 {
			return c
		}
		return cmp.Compare(a.turn, b.turn)
	})
	all := make([]model.Claim, len(s.claims))
	for i, c := range s.claims {
		all[i] = c.Claim
	}
	return all, nil
}

// turn orders who sets a knob, the last one wins.
type turn int

// The turns of a start of Linux, and of what runs after it. Where TuneD sets
// sysctls, it applies the files of sysctl.d(5) below /etc and /run once more over
// its own profile, unless reapply_sysctl of tuned-main.conf(5) is off.
const (
	turnKernel      turn = iota
	turnFiles            // sysctl.d, in the order of its names
	turnBeforeAdmin      // TuneD, which lets the files of the administrator win
	turnAgain            // sysctl.d below /etc and /run, applied by TuneD
	turnDevice           // udev, when the device appears
	turnLink             // who brings the interface up
	turnLease            // what comes with an address
	turnProfile          // TuneD, last
	turnAlways           // programs that watch and set again
)

type ranked struct {
	model.Claim
	turn turn
}

// search is one call of Claims.
type search struct {
	tree    tree.Tree
	link    string
	ids     []model.KnobID
	knobs   *knob.Index
	names   map[string][]model.KnobID // of sysctls, by sysctl.Key of the native name
	found   origin.Found
	running map[string]bool // nil: not known
	claims  []ranked
}

func (m Machine) search(ctx context.Context, link string, ids []model.KnobID) *search {
	s := &search{tree: tree.Tree{Root: m.Root}, link: link, ids: ids, knobs: m.Catalogue, names: make(map[string][]model.KnobID)}
	if m.Root == nil {
		s.tree.Root = nothing{}
	}
	s.found = origin.All(m.Catalogue, s.tree.Root, m.System, link, ids)
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

// runs says whether a process of one of these names runs.
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

// mayRun is whether one of these runs, or it is not known.
func (s *search) mayRun(names ...string) bool { return s.runs(names...).Or(true) }

// add adds a claim if its knob is asked for.
func (s *search) add(t turn, c model.Claim) {
	if !slices.Contains(s.ids, c.Knob) {
		return
	}
	if k, ok := s.knobs.ByID(c.Knob); ok && k.Scope != knob.ScopeHost {
		if s.link == "" {
			return
		}
		c.Link = s.link
	}
	s.claims = append(s.claims, ranked{c, t})
}

// addSysctl adds claims about a sysctl by any of its names.
func (s *search) addSysctl(t turn, name string, c model.Claim) {
	for _, id := range s.names[sysctl.Key(name)] {
		c.Knob = id
		s.add(t, c)
	}
}

// defined returns the definition of the interface by a source, nil where there
// is none.
func (s *search) defined(source origin.Source) *origin.Statement {
	for i, d := range s.found.Definitions {
		if d.Source == source {
			return &s.found.Definitions[i]
		}
	}
	return nil
}

// states reports whether files of a source set a knob.
func (s *search) states(source origin.Source, id model.KnobID) bool {
	return slices.ContainsFunc(s.found.Settings, func(st origin.Statement) bool { return st.Source == source && st.Knob == id })
}
