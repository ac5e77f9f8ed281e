package fleet

import (
	"fmt"
	"strings"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Cohort compares the hosts on which a condition has changed alike with all others: how many of each
// have become worse, or better, as one of them did (fleet.md section 6.6).
type Cohort struct {
	Change fingerprint.Change `json:"change"`
	Hosts  int                `json:"hosts"`        // hosts with the change
	Moved  int                `json:"moved"`        // how many of them have moved alike
	Others int                `json:"others"`       // hosts without it
	Beside int                `json:"others_moved"` // how many of them have moved alike
	P      float64            `json:"p"`            // the chance of Moved or more, if the change has no effect (Fisher's exact test)
	Cause  bool               `json:"cause"`        // whether the change is the likely cause
}

const (
	causeHosts = 3     // fewer hosts show no cause
	causeP     = 0.001 // of P times the number of changes that were looked at: above it, chance explains as much
)

// Cohort compares the hosts with a change, which is one of several that were looked at, with the others.
func (o *Outcome) Cohort(c fingerprint.Change, looked int, with map[int64]bool) Cohort {
	one := Cohort{Change: c}
	for host, has := range o.Moved {
		n, of := &one.Others, &one.Beside
		if with[host] {
			n, of = &one.Hosts, &one.Moved
		}
		if *n++; has {
			*of++
		}
	}
	one.P = stats.FisherUpper(one.Moved, one.Hosts-one.Moved, one.Beside, one.Others-one.Beside)
	one.Cause = one.Moved >= causeHosts && one.P*float64(looked) < causeP
	return one
}

// sentence says it for people: "7 of 7 hosts with kernel 6.1 -> 6.2 have become worse, and 0 of 93
// others: the likely cause (p 6e-11)".
func (c Cohort) sentence(worse bool) string {
	how := map[bool]string{true: "worse", false: "better"}[worse]
	what, _, _ := strings.Cut(c.Change.String(), " at ")
	end := "that may be chance"
	if c.Cause {
		end = "the likely cause"
	}
	return fmt.Sprintf("%d of %d hosts with %s have become %s, and %d of %d others: %s (p %.1g)", c.Moved, c.Hosts, what, how, c.Beside, c.Others, end, c.P)
}

// Lines returns the sentences about a change.
func (c Change) Lines() []string {
	fingerprint.Name(c.Changed, model.Names{Near: c.Near, Far: c.Far})
	lines := c.Report.Lines()
	for _, one := range c.Cohorts {
		if one.Hosts > 1 {
			lines = append(lines, "  "+one.sentence(c.Worse))
		}
	}
	return lines
}
