package check_test

import (
	"testing"
	"time"

	"linerate/internal/app/check"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// TestLongRoundTrip: the tests last long enough for slow start and 20 round trips; up to 100
// ms they have their usual length (diagnosis-2.md section 4).
func TestLongRoundTrip(t *testing.T) {
	for _, c := range []struct {
		rate           units.BitRate
		rtt            time.Duration
		cc             string
		omit, duration time.Duration
	}{
		{1e9, 10 * time.Millisecond, "cubic", time.Second, 5 * time.Second},
		{100e6, 200 * time.Millisecond, "cubic", 2900 * time.Millisecond, 5 * time.Second},
		{100e6, 600 * time.Millisecond, "cubic", 9600 * time.Millisecond, 12 * time.Second},
		{100e6, 600 * time.Millisecond, "bbr", 12600 * time.Millisecond, 12 * time.Second},
		{0, 600 * time.Millisecond, "cubic", 11600 * time.Millisecond, 12 * time.Second},
	} {
		p := check.Plan(check.Request{}, []model.HostFacts{{CPUs: 2, Congestion: fact.Known(c.cc, "test")}}, c.rate, c.rtt)
		for _, test := range p.Tests {
			f := test.Flow
			if f.MSS > 0 || test.Share > 0 {
				must.Equal(t, f.Duration >= 5*c.rtt, true, "%s: %s", test.Name, f.Duration)
				continue
			}
			must.Equal(t, f.Omit, c.omit, "%v over %s, %s: warm-up of %s", c.rate, c.rtt, c.cc, test.Name)
			must.Equal(t, f.Duration >= 20*c.rtt && f.Duration <= c.duration, true, "%s over %s lasts %s", test.Name, c.rtt, f.Duration)
		}
	}
}

// TestLength: a check lasts at most about a minute, a quick one 10 s, and invalid requests
// are refused.
func TestLength(t *testing.T) {
	hosts := []model.HostFacts{{CPUs: 64}, {CPUs: 4}}
	for name, c := range map[string]struct {
		quick bool
		most  time.Duration
	}{"whole": {false, 60 * time.Second}, "quick": {true, 10 * time.Second}} {
		p := check.Plan(check.Request{Quick: c.quick}, hosts, 0, 0)
		took := plan.Left(p, 0, plan.Beside)
		must.True(t, took <= c.most && took >= c.most/3, "%s takes %s", name, took)
		for _, test := range p.Tests {
			must.True(t, test.Flow.Streams <= 4, "%d streams where a host has 4 cores", test.Flow.Streams)
		}
	}
	above := map[model.Direction]int{} // above what TCP reached: to distinguish a policer from a path that only TCP fails to fill
	for _, test := range check.Plan(check.Request{}, hosts, 0, 0).Tests {
		if test.Share > 1 {
			above[test.Flow.Direction]++
		}
	}
	must.True(t, above[model.To] == 1 && above[model.From] == 1, "rungs above the rate of TCP: %v, want one in each direction", above)
	for _, q := range []check.Request{{Expect: "fast"}, {For: "10gbit"}} {
		must.Equal(t, fault.KindOf(q.Validate()), fault.Usage, "%+v", q)
	}
}
