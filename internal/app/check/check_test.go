package check_test

import (
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/check"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

// TestLength: a check lasts about a minute at most, a quick one 10 s, and what cannot
// be meant is refused.
func TestLength(t *testing.T) {
	hosts := []model.HostFacts{{CPUs: 64}, {CPUs: 4}}
	for name, c := range map[string]struct {
		quick, foreign bool
		most           time.Duration
	}{
		"whole": {false, false, 60 * time.Second}, "quick": {true, false, 10 * time.Second}, "foreign": {false, true, 60 * time.Second},
	} {
		p := check.Plan(check.Request{Quick: c.quick}, hosts, c.foreign)
		if took := plan.Left(p, 0); took > c.most || took < c.most/3 {
			t.Errorf("%s takes %s", name, took)
		}
		for _, test := range p.Tests {
			if c.foreign && (test.Flow.Engine == "loaded" || test.Flow.Lead > 0) {
				t.Errorf("a foreign peer is probed: %+v", test)
			}
			must.True(t, test.Flow.Streams <= 4, "%d streams where a host has 4 cores", test.Flow.Streams)
		}
	}
	above := map[model.Direction]int{} // what TCP reached: there a policer is told from what only TCP meets
	for _, test := range check.Plan(check.Request{}, hosts, false).Tests {
		if test.Share > 1 {
			above[test.Flow.Direction]++
		}
	}
	if above[model.To] != 1 || above[model.From] != 1 {
		t.Errorf("rungs above the rate of TCP: %v, want one in each direction", above)
	}
	for _, q := range []check.Request{{Expect: "fast"}, {For: "10gbit"}} {
		must.Equal(t, app.KindOf(q.Validate()), app.Usage, "%+v", q)
	}
}
