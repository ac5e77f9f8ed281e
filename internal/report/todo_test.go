package report_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/bottleneck"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
)

// TestRemedies: a finding names its host and setting, and a remedy where no setting helps.
func TestRemedies(t *testing.T) {
	var said []string
	for _, c := range reporttest.Cases() {
		if c.Name != "test" {
			continue
		}
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		for _, f := range d.Findings {
			said = append(said, f.Remedies()...)
		}
		lead, ok := d.Lead()
		must.True(t, ok && strings.HasPrefix(lead.Command, "linerate run "), "lead %+v", lead)
		d.Next = d.Next[len(d.Next)-1:]
		lead, ok = d.Lead()
		must.True(t, !ok, "%+v leads on", lead)
	}
	for _, want := range []string{"could help: tcp.recv_buffer_max on desk", "what helps: the queue is in a device on the way: shape a little below its rate"} {
		must.True(t, strings.Contains(strings.Join(said, "\n"), want), "%q is not in %q", want, said)
	}
	soft := report.Finding{NoKnob: "a faster link", Knobs: []model.KnobID{"window"}, Host: "nas"}
	got := soft.Remedies()
	must.True(t, len(got) == 2 && got[1] == "settings that may soften it: window on nas", "%q", got)
}

// TestExtensionGivesDataToo: a command that adds blocks to a session with a budget of data
// raises the budget where it would not last.
func TestExtensionGivesDataToo(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name != "guarded" {
			continue
		}
		for i := range c.Session.Runs { // 27 runs in 9 blocks
			c.Session.Runs[i].Ends = []model.EndReport{{Host: model.Far, Flows: []model.FlowReport{{Direction: model.To, Bytes: 1e9}}}}
		}
		for data, want := range map[units.Bytes]string{0: "--max-blocks 20", 30e9: "--max-blocks 20 --data 66.1GB", 90e9: "--max-blocks 20"} {
			c.Session.Plan.Data = data
			d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
			got := d.Next[0].Command
			must.True(t, strings.HasSuffix(got, want), "budget %s: %q, want %q", data, got, want)
		}
	}
}

// TestShareAboveTheCeiling: a run of a second may read data that arrived before it. The text
// claims no more than the measurement resolves, and the data keep the number.
func TestShareAboveTheCeiling(t *testing.T) {
	for share, want := range map[float64]string{0.993: "99.3 %", 0.9996: "100 %", 1: "100 %", 1.0004: "100 %", 1.009: "about 100 %", 1.029: "about 100 %"} {
		for _, write := range []func(float64) string{report.Percent, units.FormatShare} {
			must.Equal(t, report.OfCeiling(share, write), want, "%g", share)
		}
	}
	c := reporttest.Cases()[0]
	for i, v := range c.Session.Runs[0].Values {
		if v.Metric == model.Goodput {
			c.Session.Runs[0].Values[i].Value = 950e6 // of 941.5
		}
	}
	d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
	must.Equal(t, report.LineRows(d)[0].Ceiling, "about 100 % of 941.5 Mbit/s")
	share, _ := d.Lines[0].Share.Get()
	must.True(t, !(share < 1.008) && !(share > 1.01), "the share in the data is %v", share)
}

// TestRefutedCeilingIsSaidOnce: a measurement above the ceiling is a finding or a warning, not
// both.
func TestRefutedCeilingIsSaidOnce(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name != "uneven" {
			continue
		}
		const said = "the rate of the link is not what it is said to be"
		build := func() report.Document {
			return report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		}
		warned := build().Warnings
		must.Need(t, len(warned) == 1 && strings.Contains(warned[0], said), "warnings %q", warned)
		_, evidence, _ := strings.Cut(warned[0], ": ")
		c.Session.Findings = []model.Finding{{Rule: "B32", Kind: model.FindingNotFound, Direction: model.To, Limit: "rate of the link", Evidence: evidence}}
		d := build()
		must.True(t, len(d.Warnings) == 0 && len(d.Findings) == 1 && strings.Contains(d.Findings[0].Text, said), "warnings %q, findings %+v", d.Warnings, d.Findings)
	}
}

// TestUnmeasuredDirectionIsTold: a report of one direction gives the reason why the other is
// missing.
func TestUnmeasuredDirectionIsTold(t *testing.T) {
	c := reporttest.Cases()[0]
	for i := range c.Session.Runs {
		if r := &c.Session.Runs[i]; r.Flow.Direction == model.From {
			r.State, r.Reason = model.RunInvalid, "contact lost"
		}
	}
	d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
	want := "from nas: never measured: contact lost"
	must.True(t, len(d.Lines) == 1 && len(d.Warnings) == 1 && d.Warnings[0] == want, "%d lines, warnings %q, want %q", len(d.Lines), d.Warnings, want)
}

// The report names a host whose processors other programs used during the measurement, with how
// much and how often; linerate's own use does not count, nor does one run of many.
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

// TestMendingPacketSizes: where full-size packets do not pass, the suggested command sets an
// MTU that fits both ways; it comes first where the packets disappear silently, and after the
// limit of the rate where a router reported them.
func TestMendingPacketSizes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *model.Session)
		first  string
		any    bool // one of the commands sets an MTU
	}{
		"a router told": {func(*model.Session) {}, "linerate run ", true},
		"a black hole":  {func(s *model.Session) { s.Check.Ways[0].Reported = false }, "linerate set link.mtu=1420 --both root@nas", true},
		"all pass":      {func(s *model.Session) { s.Check.Ways[0].Asked = 1420 }, "linerate run ", false},
		"a far end that measures only": {func(s *model.Session) {
			s.Check.Ways[0].Reported, s.Far = false, "linerate://nas:5299"
		}, "linerate set link.mtu=1420", true},
		"a lab": {func(s *model.Session) {
			s.Check.Ways[0].Reported, s.Far, s.Near = false, "lab:rate=1gbit,pathmtu=1420", "lab:rate=1gbit,pathmtu=1420"
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

// TestLossOfAFullPath: where a flow fills a path in spite of its losses, the report names a
// remedy against them.
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

// TestLimitingBox: the mark is on the limiting box only.
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
		must.Equal(t, strings.Join(marked(k.Session), ", "), "desk", "marked") // its window, in one direction; the other direction is full
		s := k.Session
		s.Findings = []model.Finding{{Rule: "W01", Direction: model.To, Host: model.Far, Limit: "radio"}}
		boxes := report.Build(s, report.Options{}).Check.Path
		must.Equal(t, strings.Join(marked(s), ", "), boxes[len(boxes)-2].Name, "the interface of the far host")
		for i := range k.Session.Findings {
			k.Session.Findings[i].Kind = model.FindingFull
		}
		got := marked(k.Session)
		must.True(t, len(got) == 0, "nothing limits, and %v are marked", got)
	}
}

// copies returns the engine's section of the report of s.
func copies(t *testing.T, s model.Session) *bottleneck.Document {
	t.Helper()
	d, ok := report.Build(s, report.Options{Kinds: reporttest.Kinds()}).Section.Data.(*bottleneck.Document)
	must.Need(t, ok, "the report of copies has another section")
	return d
}

func TestCopyLimits(t *testing.T) {
	all := func(change map[string]float64) map[string]float64 {
		out := map[string]float64{
			bottleneck.MemoryToMemory: 933e6, bottleneck.MemoryToDisk: 398e6, bottleneck.DiskToMemory: 610e6, bottleneck.DiskToDisk: 395e6,
			bottleneck.Network: 935e6, bottleneck.Read: 614e6, bottleneck.Write: 400e6, bottleneck.Memory: 41e9,
		}
		maps.Copy(out, change)
		return out
	}
	for name, c := range map[string]struct {
		blocks int
		rates  map[string]float64
		copy   string
		want   []string
	}{
		"link":      {4, all(nil), bottleneck.MemoryToMemory, []string{"limited by the network", "99", "what the link can carry"}},
		"disk":      {4, all(nil), bottleneck.DiskToDisk, []string{"limited by writing at nas", "399 Mbit/s"}},
		"read":      {4, all(nil), bottleneck.DiskToMemory, []string{"limited by reading at desk"}},
		"bus":       {4, all(map[string]float64{bottleneck.MemoryToMemory: 240e6, bottleneck.Network: 240e6}), bottleneck.MemoryToMemory, []string{"only 26 %", "a bus"}},
		"turns":     {4, all(map[string]float64{bottleneck.DiskToDisk: 192e6}), bottleneck.DiskToDisk, []string{"took turns", "a bus", "writing at nas"}},
		"cache":     {4, all(map[string]float64{bottleneck.MemoryToDisk: 930e6}), bottleneck.MemoryToDisk, []string{"faster than writing at nas", "a cache"}},
		"one block": {1, all(nil), bottleneck.DiskToDisk, []string{"cannot tell from one run of each"}},
		"no part":   {4, all(map[string]float64{bottleneck.Write: 0}), bottleneck.DiskToDisk, []string{"without a measurement of writing at nas alone"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := copies(t, reporttest.CopySession(c.blocks, c.rates))
			must.Need(t, len(d.Directions) == 1 && d.Size == 256<<20, "%+v", d)
			for _, r := range d.Directions[0].Rows {
				must.True(t, !r.Part || r.Limit == "", "a part has a limit: %+v", r)
				if r.Setting != c.copy {
					continue
				}
				for _, want := range c.want {
					must.Contain(t, r.Limit, want)
				}
			}
		})
	}
}

// TestCopyCounts: invalid runs and their blocks do not count.
func TestCopyCounts(t *testing.T) {
	s := reporttest.CopySession(3, map[string]float64{bottleneck.Network: 900e6, bottleneck.MemoryToMemory: 890e6, bottleneck.Memory: 4e10})
	s.Runs[0].State = model.RunInvalid
	d := copies(t, s)
	for _, r := range d.Directions[0].Rows {
		must.True(t, r.Runs == 2, "%s: %d runs", r.Setting, r.Runs)
	}
	s.Runs = nil
	d = copies(t, s)
	must.True(t, len(d.Directions) == 0, "an empty session: %+v", d)
}
