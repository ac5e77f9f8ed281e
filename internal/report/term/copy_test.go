package term_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/bottleneck"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
	"linerate/internal/report/term"
)

func copyParts() model.Session {
	s := reporttest.CopySession(4, map[string]float64{
		bottleneck.MemoryToMemory: 933e6, bottleneck.MemoryToDisk: 398e6, bottleneck.DiskToMemory: 610e6, bottleneck.DiskToDisk: 192e6,
		bottleneck.Network: 935e6, bottleneck.Read: 614e6, bottleneck.Write: 400e6, bottleneck.Memory: 41e9,
	})
	s.Runs[0].Warnings = []string{"nas: memory is memory of the process and no file"}
	return s
}

func TestCopyGolden(t *testing.T) {
	s := copyParts()
	for suffix, o := range map[string]term.Options{"": {}, "-wide": {Width: 120}, "-color": {Color: true}} {
		t.Run("parts"+suffix, func(t *testing.T) {
			golden(t, "copyparts"+suffix, render(t, report.Build(s, report.Options{Kinds: reporttest.Kinds()}), o))
		})
	}
}

// TestCopyLooks: whatever the hosts call themselves, nothing steers the
// terminal, and plain text fits.
func TestCopyLooks(t *testing.T) {
	s := reporttest.CopySession(2, map[string]float64{bottleneck.MemoryToMemory: 1e9, bottleneck.Network: 1e9, bottleneck.Memory: 1e10})
	s.Hosts[1].Name = "n\x1b[2Jas"
	s.Runs[0].Ends[0].Waiting = "\x07bell"
	text := render(t, report.Build(s, report.Options{Kinds: reporttest.Kinds()}), term.Options{})
	for line := range strings.Lines(text) {
		must.True(t, !strings.ContainsAny(line, "\x1b\x07"), "line %q steers", line)
	}
}

// mounted is the report of files of two sizes on a mounted path.
func mounted() report.PathDocument {
	var trials []report.PathTrial
	for _, rate := range []units.BitRate{400e6, 410e6, 405e6} {
		for _, size := range []units.Bytes{256 << 20, 1 << 20} {
			took := time.Duration(float64(size) * 8 / float64(rate) * 1e9)
			trials = append(trials,
				report.PathTrial{Operation: "write", Size: size, Took: took, Flush: took / 4, Rate: rate, How: "flushed and closed within the time"},
				report.PathTrial{Operation: "read", Size: size, Took: took / 2, Rate: 2 * rate, How: "page cache emptied before"})
		}
	}
	return report.BuildPath("/mnt/nas", "nfs4 from nas:/export", trials, []string{"what the server still has in its own memory cannot be seen from here"})
}

func TestPathGolden(t *testing.T) {
	d := mounted()
	must.Need(t, len(d.Rows) == 4 && d.Rows[0].Size == 1<<20 && d.Rows[0].Files == 3 && d.Rows[0].Rate == 405e6, "%+v", d)
	var b bytes.Buffer
	must.Do(t, term.RenderPath(&b, d, term.Options{}))
	golden(t, "copypath", b.String())
}
