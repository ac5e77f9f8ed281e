package report_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
)

// A host whose processors others had while it was measured is told of, with how much and
// how often; what linerate itself used does not count, nor one run of many.
func TestCrowdedHostsAreTold(t *testing.T) {
	const near = "desk: others than linerate had 7.5 of its 8 processors in "
	for _, c := range []struct {
		what string
		busy float64 // cores of desk
		own  time.Duration
		runs func(i int) bool
		far  string
		want string // the warning's beginning, "" for none
	}{
		{"all runs", 7.5, 0, func(int) bool { return true }, "root@nas", near},
		{"a third of them", 7.5, 0, func(i int) bool { return i%3 == 0 }, "root@nas", near},
		{"one run", 7.5, 0, func(i int) bool { return i == 4 }, "root@nas", ""},
		{"not so much", 6, 0, func(int) bool { return true }, "root@nas", ""},
		{"linerate itself", 7.5, 40 * time.Second, func(int) bool { return true }, "root@nas", ""},
		{"a lab", 7.5, 0, func(int) bool { return true }, "lab:rate=1gbit", "this machine: others than linerate had 7.5 of its 8 processors in "},
	} {
		i := slices.IndexFunc(reporttest.Cases(), func(c reporttest.Case) bool { return c.Name == "fixed" })
		s := reporttest.Cases()[i].Session
		s.Far = c.far
		for i := range s.Runs {
			s.Runs[i].Ends = []model.EndReport{{Host: model.Near, CPUUser: c.own, CPUWindow: 20 * time.Second, SystemBusy: fact.Known(0.5, "procfs")}}
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
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
