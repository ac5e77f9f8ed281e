package judge

import (
	"fmt"
	"slices"
	"strings"

	"linerate/bench/internal/results"
	"linerate/internal/core/locate"
	"linerate/internal/core/model"
	"linerate/internal/lab/faults"
)

// Routers is the kind that stands for all of faults.RouterKinds, which alternate from seed to
// seed.
const Routers = "routers"

// The bars for places.
const (
	claimLocate = "locate"

	barPlace   = 0.95
	barWrong   = 0.02
	barNoPlace = 0.98
)

// Place is how the named place compares with the full link.
type Place string

// The places.
const (
	PlaceRight   Place = "right"    // it holds the link, and nothing that answers could exclude; or correctly none was named
	PlaceWide    Place = "wide"     // it holds the link, and more
	PlaceWrong   Place = "wrong"    // it does not hold the link
	PlaceMissing Place = "no place" // none was named
	PlaceClaimed Place = "claimed"  // one was named but there is no full link
)

func places() []Place {
	return []Place{PlaceRight, PlaceWide, PlaceWrong, PlaceMissing, PlaceClaimed}
}

// located judges the place in the first finding of the direction or, if no link is full,
// whether no finding names one.
func (r *Row) located(f faults.Full, s *model.Session) {
	r.Place = PlaceMissing
	if f.None {
		r.Place = PlaceRight
	}
	first := true
	for _, said := range s.Findings {
		if said.Direction != f.Direction {
			continue
		}
		if p := said.Place; p != nil && p.Kind == model.PlaceLink && (first || f.None) {
			r.Place, r.Named = compare(f, *p), said.Rule+" "+locate.Between(*p, func(h model.Host) string { return string(h) })
		} else if first {
			r.Named = said.Rule
		}
		first = false
	}
	r.First = r.Place == PlaceRight
	r.All = r.First
}

// compare compares a named place with the full link.
func compare(f faults.Full, p model.Place) Place {
	before, behind := p.Before.Hop, p.Behind.Hop
	if p.Behind.Host != "" {
		behind = f.Routers + 1
	}
	switch {
	case f.None:
		return PlaceClaimed
	case before > f.At || behind <= f.At:
		return PlaceWrong
	case before < f.Before || behind > f.Behind:
		return PlaceWide
	}
	return PlaceRight
}

// ofRouters reports whether o selects cases with routers.
func (o Options) ofRouters() bool {
	return o.Kind == Routers || slices.ContainsFunc(faults.RouterKinds(), func(k faults.RouterKind) bool { return k.Name == o.Kind })
}

// countPlaces counts the places of rows with a full link, or without one.
func countPlaces(rows []Row, none bool) (of map[Place]int, all int) {
	of = map[Place]int{}
	for _, r := range rows {
		if r.Late > mostLate || r.Clean != none {
			continue
		}
		all++
		of[r.Place]++
	}
	return of, all
}

// scores returns the rows of the summary.
func scores(rows []Row) (out []results.Verdict) {
	say := func(what, bar string, n, of int, met func(share float64) bool) {
		if of == 0 {
			return
		}
		word := "missed"
		if met(ratio(n, of)) {
			word = "met"
		}
		out = append(out, results.Verdict{Claim: claimLocate, What: what, Bar: bar, Result: percent(n, of), Word: word})
	}
	link, all := countPlaces(rows, false)
	say("place of the full link right", fmt.Sprintf("≥ %.0f %%", 100*barPlace), link[PlaceRight], all, func(s float64) bool { return s >= barPlace })
	say("place wrong, of the same", fmt.Sprintf("≤ %.0f %%", 100*barWrong), link[PlaceWrong], all, func(s float64) bool { return s <= barWrong })
	ends, none := countPlaces(rows, true)
	say("no place claimed where no link is the limit", fmt.Sprintf("≥ %.0f %%", 100*barNoPlace), ends[PlaceRight], none, func(s float64) bool { return s >= barNoPlace })
	return out
}

// placesTable returns the section of the results.
func placesTable(rows []Row, note string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| score | bar | result |\n|---|---|---|\n", note)
	for _, v := range scores(rows) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", v.What, v.Bar, v.Result)
	}
	busy, failed := 0, 0
	for _, r := range rows {
		if r.Late > mostLate {
			busy++
		} else if r.Failed != "" {
			failed++
		}
	}
	fmt.Fprintf(&b, "\n%d cases: %d during which the machine was late for more than %.0f %% of the time are in no share above; %d without an answer are right in none.\n\n", len(rows), busy, 100*mostLate, failed)
	b.WriteString("| kind | what it is | cases | right | wide | wrong | no place | claimed | mean time |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, k := range faults.RouterKinds() {
		of, cases, seconds := map[Place]int{}, 0, 0.0
		for _, r := range rows {
			if r.Kind == k.Name && r.Late <= mostLate {
				of[r.Place]++
				cases++
				seconds += r.Seconds
			}
		}
		if cases == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %d |", k.Name, k.Says, cases)
		for _, p := range places() {
			fmt.Fprintf(&b, " %d |", of[p])
		}
		fmt.Fprintf(&b, " %.0f s |\n", seconds/float64(cases))
	}
	return b.String()
}
