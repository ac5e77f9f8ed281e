// Package fleet reports on the hosts of a hub: in ten lines, and as the mesh that a report draws.
package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/odd"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// The names of the documents.
const (
	Schema      = "linerate/fleet/v1"
	AlertSchema = "linerate/fleetalert/v1"
	HubSchema   = "linerate/hub/v1"
)

// Mesh returns the present state of a fleet as a session of a mesh: all hosts, and the ways
// between them that were measured.
func Mesh(s *fleet.Status) model.Session {
	m := model.Session{
		ID: "fleet", Kind: model.KindMesh, Far: "the fleet", Created: s.Now, Ended: s.Now, State: model.SessionDone, Mesh: &model.Mesh{Rounds: 1},
		WireRate: fact.Unknown[units.BitRate]("a fleet has many paths"),
	}
	place := map[int64]int{}
	for i, h := range s.Hosts {
		place[h.ID], m.Version = i, plain.Line(h.Version)
		m.Mesh.Hosts = append(m.Mesh.Hosts, model.MeshHost{
			Name: plain.Line(h.Name), Kernel: fact.Unknown[string]("not read"), MTU: fact.Unknown[int]("not read"), Link: fact.Unknown[units.BitRate]("not read"),
		})
	}
	for _, w := range s.Ways {
		for _, one := range []struct {
			from, to int64
			rate     *float64
		}{{w.Low, w.High, w.To}, {w.High, w.Low, w.From}} {
			from, known := place[one.from]
			to, also := place[one.to]
			if !known || !also {
				continue
			}
			name := m.Mesh.Hosts[from].Name + " -> " + m.Mesh.Hosts[to].Name
			m.Mesh.Ways = append(m.Mesh.Ways, model.MeshWay{Name: name, From: from, To: to, LeftOut: leftOut(w)})
			r := model.Run{Number: len(m.Runs) + 1, Setting: name, State: model.RunValid, Flow: model.Flow{Direction: model.To}}
			if one.rate != nil {
				r.Values = append(r.Values, model.Value{Direction: model.To, Metric: model.Goodput, Value: *one.rate})
			}
			if w.RoundTrip != nil {
				r.Values = append(r.Values, model.Value{Direction: model.To, Metric: model.IdleP50, Value: *w.RoundTrip})
			}
			m.Runs = append(m.Runs, r)
		}
	}
	return m
}

// leftOut says why a path has no number yet.
func leftOut(w fleet.WayStatus) string {
	if w.To != nil || w.From != nil || w.RoundTrip != nil {
		return ""
	}
	if w.Problem != "" {
		return w.Problem
	}
	return "its first look is still to come"
}

// Entry is a line of a summary: a word that says of which kind it is, and a sentence.
type Entry struct{ Word, Text string }

// Line returns the entry with its word in a column.
func (e Entry) Line() string { return fmt.Sprintf("  %-7s %s", e.Word, e.Text) }

// most is how many entries a summary has, so that it is ten lines long with its first and its
// last one.
const most = 8

// recent is how long a change counts as news.
const recent = 7 * 24 * time.Hour

// Day is how long a look counts as recent.
const Day = 24 * time.Hour

// Counts returns how many pairs were looked at within Day, and how many hosts are silent.
func Counts(s *fleet.Status) (seen, silent int) {
	for _, w := range s.Ways {
		if !w.Last.IsZero() && s.Now.Sub(w.Last) < Day {
			seen++
		}
	}
	for _, h := range s.Hosts {
		if h.Silent {
			silent++
		}
	}
	return seen, silent
}

// Summary returns the state of a fleet in one line, and what people should know in few more.
func Summary(s *fleet.Status) (head string, all []Entry) {
	seen, silent := Counts(s)
	add := func(word, format string, args ...any) {
		all = append(all, Entry{word, plain.Line(fmt.Sprintf(format, args...))})
	}
	for _, f := range s.Faults {
		add("hub", "%s", f)
	}
	for _, h := range s.Hosts {
		for _, n := range h.Notes {
			add(map[bool]string{true: "silent", false: "host"}[h.Silent], "%s: %s", h.Name, n)
		}
	}
	for _, c := range s.Changes {
		if s.Now.Sub(c.Found) < recent {
			text := strings.Join(lists.Each(c.Lines(), strings.TrimSpace), "; ")
			add(map[bool]string{true: "worse", false: "better"}[c.Worse], "%s", text)
		}
	}
	m := Mesh(s)
	for _, t := range odd.Session(&m) {
		add("odd", "%s", t.Text)
	}
	names := map[int64]string{}
	for _, h := range s.Hosts {
		names[h.ID] = h.Name
	}
	for _, w := range s.Ways {
		if w.Problem != "" {
			add("path", "%s - %s: %s", names[w.Low], names[w.High], w.Problem)
		}
	}
	if n := len(all); n > most {
		all = append(all[:most-1], Entry{"more", fmt.Sprintf("%d more: linerate fleet --json, or --open for the page", n-most+1)})
	}
	head = fmt.Sprintf("%s, %d silent; %d of %s looked at in the last 24 h; results of the last hour: %s", plain.Count(len(s.Hosts), "host"), silent, seen, plain.Count(len(s.Ways), "pair"), Tally(s.Hour))
	return plain.Line(head), all
}

// Tally formats how many leases ended how.
func Tally(t fleet.Tally) string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, fmt.Sprintf("%d %s", t[state], state))
	}
	if len(parts) == 0 {
		return "none yet"
	}
	return plain.And(parts)
}
