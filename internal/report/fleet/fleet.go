// Package fleet reports on the hosts of a hub: in ten lines, and as tables.
package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/fleet"
	"linerate/internal/core/lists"
	"linerate/internal/core/plain"
)

// The names of the documents.
const (
	Schema      = "linerate/fleet/v1"
	AlertSchema = "linerate/fleetalert/v1"
	HubSchema   = "linerate/hub/v1"
)

// Names returns the names of the hosts, in their order.
func Names(s *fleet.Status) []string {
	return lists.Each(s.Hosts, func(h fleet.HostStatus) string { return plain.Line(h.Name) })
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

// Day is how long a change counts as recent.
const Day = 24 * time.Hour

// Silent returns how many hosts are silent.
func Silent(s *fleet.Status) int {
	return lists.Count(s.Hosts, func(h fleet.HostStatus) bool { return h.Silent })
}

// Summary returns the state of a fleet in one line, and what people should know in few more.
func Summary(s *fleet.Status) (head string, all []Entry) {
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
	for _, text := range s.Odd {
		add("odd", "%s", text)
	}
	for _, p := range s.Problems {
		if slices.ContainsFunc(s.Hosts, func(h fleet.HostStatus) bool { return h.Silent && (h.Name == p.Near || h.Name == p.Far) }) {
			continue // its host is listed
		}
		add("path", "%s - %s: %s", p.Near, p.Far, p.Text)
	}
	if n := len(all); n > most {
		all = append(all[:most-1], Entry{"more", fmt.Sprintf("%d more: linerate fleet --json has all", n-most+1)})
	}
	head = fmt.Sprintf("%s, %d silent; %d of %s looked at in the last 24 h; results of the last hour: %s", plain.Count(len(s.Hosts), "host"), Silent(s), s.Seen, plain.Count(s.Pairs, "pair"), Tally(s.Hour))
	if len(s.Hour) == 0 && len(s.Queue) > 0 {
		head += ", the first at about " + s.Queue[0].Until.Format("15:04:05")
	}
	return plain.Line(head), all
}

// Tally formats how many leases ended how.
func Tally(t fleet.Tally) string {
	if len(t) == 0 {
		return "none yet"
	}
	return plain.And(lists.Each(slices.Sorted(maps.Keys(t)), func(state fleet.LeaseState) string { return fmt.Sprintf("%d %s", t[state], state) }))
}
