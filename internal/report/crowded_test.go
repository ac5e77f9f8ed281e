package report_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
)

// A host whose processors others had while it was measured is told of, with how much and
// how often; what linerate itself used does not count, nor one run of many.
func TestCrowdedHostsAreTold(t *testing.T) {
	all := func(int) bool { return true }
	const near = "desk: others than linerate had 7.5 of its 8 processors in "
	for _, c := range []struct {
		what string
		busy float64 // cores of desk
		own  time.Duration
		runs func(i int) bool
		far  string
		want string        // the warning's beginning, "" for none
		peer time.Duration // what the far end used
	}{
		{"all runs", 7.5, 0, all, "root@nas", near, 0},
		{"a busy far end is another machine", 7.5, 0, all, "root@nas", near, 60 * time.Second},
		{"a third of them", 7.5, 0, func(i int) bool { return i%3 == 0 }, "root@nas", near, 0},
		{"one run", 7.5, 0, func(i int) bool { return i == 4 }, "root@nas", "", 0},
		{"not so much", 6, 0, all, "root@nas", "", 0},
		{"linerate itself", 7.5, 40 * time.Second, all, "root@nas", "", 0},
		{"a lab", 7.5, 0, all, "lab:rate=1gbit", "this machine: 7.5 of its 8 processors were busy with more than the two ends in ", 0},
		{"a busy far end of a lab", 7.5, 0, all, "lab:rate=1gbit", "", 60 * time.Second},
	} {
		i := slices.IndexFunc(reporttest.Cases(), func(c reporttest.Case) bool { return c.Name == "fixed" })
		s := reporttest.Cases()[i].Session
		s.Far = c.far
		for i := range s.Runs {
			s.Runs[i].Ends = []model.EndReport{{Host: model.Near, CPUUser: c.own, CPUWindow: 20 * time.Second, SystemBusy: fact.Known(0.5, "procfs")},
				{Host: model.Far, CPUUser: c.peer, CPUWindow: 20 * time.Second}}
			if c.runs(i) {
				s.Runs[i].Ends[0].SystemBusy = fact.Known(c.busy, "procfs")
			}
		}
		got := ""
		for _, w := range report.Build(s, report.Options{}).Warnings {
			if strings.Contains(w, "processors") {
				got += w
			}
		}
		must.True(t, (c.want != "" || got == "") && strings.HasPrefix(got, c.want), "%s: %q, want %q", c.what, got, c.want)
	}
}
