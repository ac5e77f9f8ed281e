package report_test

import (
	"maps"
	"testing"

	"linerate/internal/core/bottleneck"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
)

// copies is what the engine's section of the report of s holds.
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
	if d := copies(t, s); len(d.Directions) != 0 {
		t.Errorf("an empty session: %+v", d)
	}
}
