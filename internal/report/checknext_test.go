package report_test

import (
	"strings"
	"testing"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
)

// TestMendingPacketSizes: where packets of the size that hosts send do not pass, the
// command that leads on sets an MTU that fits both ways; before all else where they are
// lost silently, after what limits the rate where a router told.
func TestMendingPacketSizes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *model.Session)
		first  string
		any    bool // one of the commands sets an MTU
	}{
		"a router told": {func(*model.Session) {}, "linerate run ", true},
		"a black hole":  {func(s *model.Session) { s.Check.Ways[0].Told = false }, "linerate set link.mtu=1420 --both root@nas", true},
		"all pass":      {func(s *model.Session) { s.Check.Ways[0].Asked = 1420 }, "linerate run ", false},
		"a far end that measures only": {func(s *model.Session) {
			s.Check.Ways[0].Told, s.Far = false, "linerate://nas:5299"
		}, "linerate set link.mtu=1420", true},
		"a lab": {func(s *model.Session) {
			s.Check.Ways[0].Told, s.Far, s.Near = false, "lab:rate=1gbit,pathmtu=1420", "lab:rate=1gbit,pathmtu=1420"
		}, "linerate check lab:rate=1gbit,pathmtu=1420,mtu=1420 --quick", true},
		"no size is known": {func(s *model.Session) {
			s.Check.Ways[0].Passes, s.Check.Ways[0].Datagrams = fact.Unknown[int]("not visible"), fact.Unknown[int]("not visible")
		}, "linerate run ", false},
	} {
		for _, k := range reporttest.Cases() {
			if k.Session.Check == nil {
				continue
			}
			c.change(&k.Session)
			next := report.Build(k.Session, report.Options{}).Next
			set := false
			for _, s := range next {
				set = set || strings.Contains(s.Command, "mtu=")
			}
			must.True(t, strings.HasPrefix(next[0].Command, c.first) && set == c.any, "%s: %+v", name, next)
		}
	}
}

// TestLossOfAFullPath: where a flow fills a path in spite of its losses, the report says what
// helps against them.
func TestLossOfAFullPath(t *testing.T) {
	for lost, want := range map[float64]string{0.00004: "", 0.02: "against the loss, find where packets are lost"} {
		for _, k := range reporttest.Cases() {
			if k.Session.Check == nil {
				continue
			}
			for i, v := range k.Session.Runs[4].Values {
				if v.Metric == model.LossRatio {
					k.Session.Runs[4].Values[i].Value = lost
				}
			}
			got := report.Build(k.Session, report.Options{}).Check.Limits[0]
			must.True(t, strings.HasPrefix(got.Helps, want) && (want != "" || got.Helps == ""), "%v lost: %+v", lost, got)
		}
	}
}

// TestLimitingBox: a box is marked for what limits and for nothing else.
func TestLimitingBox(t *testing.T) {
	for _, k := range reporttest.Cases() {
		if k.Session.Check == nil {
			continue
		}
		marked := func(s model.Session) (out []string) {
			for _, b := range report.Build(s, report.Options{}).Check.Path {
				if b.Limiting {
					out = append(out, b.Name)
				}
			}
			return out
		}
		if got := strings.Join(marked(k.Session), ", "); got != "desk" { // its window, in one direction; the other one is full
			t.Errorf("marked: %s", got)
		}
		for i := range k.Session.Findings {
			k.Session.Findings[i].Kind = model.FindingFull
		}
		got := marked(k.Session)
		must.True(t, len(got) == 0, "nothing limits, and %v are marked", got)
	}
}
