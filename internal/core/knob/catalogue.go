package knob

import (
	"cmp"
	"math"
	"strings"

	"linerate/internal/core/model"
)

// Catalogue returns every knob that linerate knows, in the order of display. The caller owns
// the slice. One file per theme holds the entries: catalogue_buffers.go and so on. Settings
// that only old guides name are in dead.go.
//
// sources.go explains the tags in Source; Cite replaces them by words.
func Catalogue() []Knob {
	var all []Knob
	for _, theme := range themes() {
		all = append(all, theme.knobs()...)
	}
	table := adviceTable()
	for i := range all {
		advise(&all[i], table)
	}
	return all
}

// Theme is a part of the catalogue, for display.
type Theme struct {
	Name  string // "TCP buffers"
	Knobs []model.KnobID
}

// Themes returns the parts of the catalogue, in its order.
func Themes() []Theme {
	var all []Theme
	for _, t := range themes() {
		one := Theme{Name: t.name}
		for _, k := range t.knobs() {
			one.Knobs = append(one.Knobs, k.ID)
		}
		all = append(all, one)
	}
	return all
}

type theme struct {
	name  string
	knobs func() []Knob
}

// themes are the parts of the catalogue in order.
func themes() []theme {
	return []theme{
		{"socket and TCP buffers", bufferKnobs}, {"TCP", tcpKnobs}, {"TCP in detail", tcpDetailKnobs}, {"packet size of a path", pathKnobs},
		{"link", linkKnobs}, {"link mode", mediaKnobs}, {"network card", nicKnobs}, {"offloads", offloadKnobs},
		{"receiving", receiveKnobs}, {"spreading over processors", steeringKnobs}, {"memory", memoryKnobs}, {"power", powerKnobs},
		{"Windows", windowsKnobs}, {"route", routeKnobs}, {"test traffic", flowKnobs},
	}
}

// Index is the catalogue built once, for fast lookups. It never changes, so it is safe for
// concurrent use; callers must not modify the slices and maps of its entries. A process passes
// one on; a nil *Index works too.
type Index struct {
	all []Knob
	at  map[model.KnobID]int
}

// whole is the only index, built at the start of the process in some 0.6 ms.
var whole = index(Catalogue())

func index(all []Knob) *Index {
	x := &Index{all: all, at: make(map[model.KnobID]int, len(all))}
	for i, k := range all {
		x.at[k.ID] = i
	}
	return x
}

// NewIndex returns the index of the whole catalogue.
func NewIndex() *Index { return whole }

// All returns the entries in the order of Catalogue.
func (x *Index) All() []Knob {
	if x == nil {
		x = whole
	}
	return x.all
}

// ByID returns the entry for id.
func (x *Index) ByID(id model.KnobID) (Knob, bool) {
	if x == nil {
		x = whole
	}
	i, ok := x.at[id]
	if !ok {
		return Knob{}, false
	}
	return x.all[i], true
}

// advise fills in the advice of the symptom table for a whole family of knobs, unless the entry
// has its own.
func advise(k *Knob, table []advice) {
	if k.Scope == ScopeFlow {
		return
	}
	best := advice{}
	for _, a := range table {
		if strings.HasPrefix(string(k.ID), a.prefix) && len(a.prefix) >= len(best.prefix) {
			best = a
		}
	}
	k.When = cmp.Or(k.When, best.when)
	if k.Verify == "" && !k.ReadOnly {
		k.Verify = best.verify
	}
	k.Avoid = cmp.Or(k.Avoid, best.avoid)
}

// most is the largest size that every system accepts: constraint C-18.
const most = math.MaxInt32

// minCeiling is the least autotuning ceiling that linerate sets: the default
// of the first field of tcp_rmem and tcp_wmem (SK_MEM_QUANTUM, one page, in
// net/ipv4/tcp.c tcp_init). The kernel itself accepts 1.
const minCeiling = 4096

// sysctls returns native sysctls by system; "" omits the system.
func sysctls(linux, freebsd, darwin string) map[string]Native {
	m := make(map[string]Native)
	for system, name := range map[string]string{"linux": linux, "freebsd": freebsd, "darwin": darwin} {
		if name != "" {
			m[system] = Native{Mechanism: Sysctl, Name: name}
		}
	}
	return m
}

// on adds the native setting of one more system to m.
func on(m map[string]Native, system string, n Native) map[string]Native {
	m[system] = n
	return m
}

// only returns the native setting of a knob that only one system has.
func only(system string, n Native) map[string]Native { return map[string]Native{system: n} }

// defaults parses pairs of system and value.
func defaults(pairs ...string) []Default {
	var all []Default
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, Default{pairs[i], pairs[i+1]})
	}
	return all
}

// onOff returns the choices of an enumeration that begins with off and on.
func onOff(more ...Choice) []Choice {
	return append([]Choice{{"0", "off"}, {"1", "on"}}, more...)
}

func knobID(s string) model.KnobID { return model.KnobID(s) }
