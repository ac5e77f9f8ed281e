package figures_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/figures"
	"linerate/internal/report/importer"
	"linerate/internal/report/plot"
	"linerate/internal/report/reporttest"
)

// pictures returns those of all test sessions.
func pictures(t *testing.T) map[string]plot.Figure {
	t.Helper()
	all := map[string]plot.Figure{}
	all["cards-sizes"] = cards(t)
	for _, c := range append(reporttest.Cases(), stalled()) {
		if c.Name == "test" {
			busy(c)
		}
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		if c.Name == "sequential" {
			d.Measured = []report.Measured{
				{Label: "to nas, before", Runs: 6, Median: 13.72e6, Low: 11.06e6, High: 14.83e6, Confidence: 0.969, Text: "13.72 Mbit/s (11.06 to 14.83 Mbit/s)"},
				{Label: "to nas, after", Runs: 5, Median: 94.03e6, Low: 61e6, High: 96.92e6, Confidence: 0.938, Text: "94.03 Mbit/s (61 to 96.92 Mbit/s)", Outcome: model.Better},
			}
		}
		for _, f := range figures.Of(c.Session, d, c.Samples) {
			all[c.Name+"-"+f.Name] = f
		}
	}
	return all
}

// cards returns one picture with the sweeps of three cards, one of which falls at 64 KiB.
func cards(t *testing.T) plot.Figure {
	t.Helper()
	var all []figures.Swept
	for i, driver := range []string{"r8169", "e1000e", "e1000e"} {
		s := reporttest.SweepSession(6, 3, 1<<20, func(n units.Bytes) time.Duration {
			per := []float64{1.0, 0.8, 8.4}[i]
			if i == 2 && n >= 64<<10 {
				per *= 2.5
			}
			return time.Duration(float64(20+10*i)*1000 + per*float64(n)*8/0.94)
		})
		s.ID = fmt.Sprintf("20261121T08000%d-car%d", i, i)
		s.Hosts = slices.Clone(s.Hosts)
		s.Hosts[0].NICs = []model.NIC{{Name: "eth0", Driver: fact.Known(driver, "ethtool")}}
		all = append(all, figures.Swept{Session: s, Document: report.Build(s, report.Options{Kinds: reporttest.Kinds()})})
	}
	for _, f := range figures.With(all[0].Session, all[0].Document, nil, all[1:]) {
		if f.Name == "sizes" {
			return f
		}
	}
	t.Fatal("no picture")
	return plot.Figure{}
}

// TestCardsAreToldApart: each curve has the name of its card, plus the end of the session's ID
// where two have the same name, and the place where one falls names its card.
func TestCardsAreToldApart(t *testing.T) {
	svg := cards(t).SVG(plot.Wide)
	for _, want := range []string{">r8169 eth0, to nas<", ">e1000e eth0 car1, to nas<", ">e1000e eth0 car2, to nas<", "at 64 KiB (e1000e eth0 car2)", "20261121T080002-car2"} {
		must.Contain(t, svg, want, "nothing in it says")
	}
}

// TestSweepsOfSeveralMachines: each far host has its own part of the picture, on a common
// scale, and the legend names the settings.
func TestSweepsOfSeveralMachines(t *testing.T) {
	t.Parallel()
	var all []figures.Swept
	for i, c := range []struct{ far, set string }{{"slow", "100baseTX"}, {"slow", "10baseT"}, {"fast", "100baseTX"}, {"fast", "10baseT"}} {
		s := reporttest.SweepSession(6, 3, 1<<20, func(n units.Bytes) time.Duration { return time.Duration(20000 + (1+i)*int(n)) })
		s.Plan.Settings, s.Plan.Baseline = []model.Setting{{Name: c.set}}, c.set
		s.Far = c.far
		all = append(all, figures.Swept{Session: s, Document: report.Build(s, report.Options{Kinds: reporttest.Kinds()})})
	}
	for _, f := range figures.With(all[0].Session, all[0].Document, nil, all[1:]) {
		if f.Name != "sizes" {
			continue
		}
		must.Equal(t, len(f.Panels), 2)
		must.Equal(t, fmt.Sprint(f.Panels[0].(plot.Lines).Y.Also), fmt.Sprint(f.Panels[1].(plot.Lines).Y.Also), "two scales")
		for _, want := range []string{"slow: goodput", "fast: goodput", ">10baseT, to fast<", ">100baseTX, to slow<", "to each far host"} {
			must.Contain(t, f.SVG(plot.Wide), want)
		}
	}
}

// stalled returns a test that stalls twice in one direction, with its sender's round trips.
func stalled() reporttest.Case {
	c := reporttest.Cases()[0]
	c.Name, c.Samples = "stalled", model.Held{}
	for i, r := range c.Session.Runs {
		w := r.Flow.Direction
		for second := range 20 {
			rate, trip := 900e6+1e6*float64(second%7), 0.004+0.0005*float64(second%5)
			if i == 0 && (second == 6 || second == 13 || second == 14) {
				rate, trip = 2e6, 0.21
			}
			at := model.Sample{Direction: w, Start: time.Duration(second) * time.Second, Length: time.Second, Omitted: second < 2}
			got, seen := at, at
			got.Host, got.Metric, got.Value = w.Receiver(), model.Goodput, rate
			seen.Host, seen.Metric, seen.Value = w.Sender(), model.RTT, trip
			c.Samples[r.Number] = append(c.Samples[r.Number], got, seen)
		}
	}
	return c
}

// TestStallsAreMarked: both drawings of the time axis mark stalls, and so does the sentence.
func TestStallsAreMarked(t *testing.T) {
	f := pictures(t)["stalled-rate"]
	svg := f.SVG(plot.Wide)
	must.Equal(t, strings.Count(svg, `class="stall"`), 6, "marks")
	must.Equal(t, strings.Count(svg, ">time of the run, s<"), 1, "time axes")
	want := "stood still 2 times, at most for 2 s"
	must.True(t, strings.Contains(f.Sentence, want), "%q does not say that it %s", f.Sentence, want)
}

// busy adds the load of both hosts' cores.
func busy(c reporttest.Case) {
	for _, r := range c.Session.Runs {
		for _, h := range []model.Host{model.Near, model.Far} {
			for core := range 4 {
				for second := range 8 {
					share := 0.06 * float64(core+second%3)
					if h == model.Far && core == 2 {
						share = 0.9 + 0.01*float64(second)
					}
					c.Samples[r.Number] = append(c.Samples[r.Number], model.Sample{
						Host: h, Metric: "cpu_busy", Of: fmt.Sprintf("cpu%d", core), Start: time.Duration(second) * time.Second, Length: time.Second, Value: share,
					})
				}
			}
		}
	}
}

// TestPicturesAreAsStored compares every picture with its file, which people have reviewed.
func TestPicturesAreAsStored(t *testing.T) {
	seen := map[string]bool{}
	for name, f := range pictures(t) {
		path := filepath.Join("testdata", name+".svg")
		seen[path] = true
		must.Golden(t, path, f.SVG(plot.Wide))
	}
	files := must.Get(filepath.Glob("testdata/*.svg"))(t)
	for _, path := range files {
		must.True(t, seen[path], "%s is no picture any more", path)
	}
	for _, kind := range []string{"path", "effects", "settings", "plateau", "grid", "rate", "sizes", "latency", "cores"} {
		found := false
		for path := range seen {
			found = found || strings.HasSuffix(path, "-"+kind+".svg")
		}
		must.True(t, found, "no session here has a picture %q", kind)
	}
}

// TestPicturesStandAlone: each picture carries its title with both hosts, a sentence, the date
// and the kernels. It is well-formed, has no NaN, and no text leaves it, on a page or on a
// phone.
func TestPicturesStandAlone(t *testing.T) {
	for name, f := range pictures(t) {
		for _, width := range []float64{plot.Wide, plot.Narrow, plot.File} {
			t.Run(fmt.Sprintf("%s/%.0f", name, width), func(t *testing.T) {
				svg := f.SVG(width)
				must.Equal(t, svg, f.SVG(width), "it is another one when it is drawn again")
				texts := inside(t, svg, width)
				for _, want := range []string{"desk", "nas", "2026-11-21", "linux 6.8.0", "session "} {
					must.Contain(t, texts, want, "nothing in it says")
				}
				must.True(t, f.Sentence != "" && strings.HasSuffix(f.Sentence, "."), "it does not say what it shows: %q", f.Sentence)
			})
		}
	}
}

// inside parses a picture, and returns all its texts.
func inside(t *testing.T, svg string, width float64) string {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	var all strings.Builder
	var x, size float64
	anchor, open := "", ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		must.Dof(t, err, "not well-formed")
		switch e := token.(type) {
		case xml.StartElement:
			open, anchor = e.Name.Local, "start"
			for _, a := range e.Attr {
				must.True(t, !strings.Contains(a.Value, "NaN") && !strings.Contains(a.Value, "Inf"), "%s has %s=%q", open, a.Name.Local, a.Value)
				switch a.Name.Local {
				case "x":
					x, _ = strconv.ParseFloat(a.Value, 64)
				case "font-size":
					size, _ = strconv.ParseFloat(a.Value, 64)
				case "text-anchor":
					anchor = a.Value
				}
			}
		case xml.EndElement:
			open = ""
		case xml.CharData:
			if open != "text" {
				continue
			}
			text := string(e)
			w := plot.TextWidth(text, size)
			left := map[string]float64{"start": x, "middle": x - w/2, "end": x - w}[anchor]
			must.True(t, left >= 0 && left+w <= width, "%q leaves the picture: from %.0f to %.0f of %.0f", text, left, left+w, width)
			all.WriteString(text + " ")
		}
	}
}

// TestNoPictureOfNothing: a session without measurements has no pictures.
func TestNoPictureOfNothing(t *testing.T) {
	s := model.Session{Kind: model.KindTest}
	must.Len(t, figures.Of(s, report.Build(s, report.Options{}), nil), 0)
}

// TestNamesOfHostsDrawNothing: a picture of a host whose name holds control characters is valid
// everywhere, and holds none of them.
func TestNamesOfHostsDrawNothing(t *testing.T) {
	for _, c := range reporttest.Cases() {
		for i := range c.Session.Hosts {
			c.Session.Hosts[i].Name = "a\x1b[2J<b>\n\x00\xff" + strconv.Itoa(i)
		}
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		for _, f := range figures.Of(c.Session, d, c.Samples) {
			svg := f.SVG(plot.Wide)
			must.True(t, !strings.ContainsAny(svg, "\x1b\x00") && !strings.Contains(svg, "\xff") && !strings.Contains(svg, "<b>"), "%s-%s holds what the host is called", c.Name, f.Name)
			inside(t, svg, plot.Wide)
		}
	}
}

// published returns the text of a published case.
func published(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "importer", "testdata", "cases", name+".csv")))(t)
	return string(text)
}

// heat imports a table and returns its map.
func heat(t *testing.T, text string, where []string, columns ...string) (plot.Figure, plot.Heat) {
	t.Helper()
	var o importer.Options
	for _, c := range columns {
		o.Columns = append(o.Columns, must.Get(importer.ParseColumn(c))(t))
	}
	for _, w := range where {
		o.Where = append(o.Where, must.Get(importer.ParseWhere(w))(t))
	}
	f := must.Get(importer.Read("csv", []byte(text), o))(t)
	s, samples, err := importer.Session([]importer.Named{{Name: "t.csv", File: f}}, importer.About{ID: "20261121T130000-ca5e", Now: time.Unix(0, 0)})
	must.Do(t, err)
	must.True(t, len(s.Verdicts)+len(s.Plateaus) == 0, "a table of no blocks has verdicts %+v and plateaus %+v", s.Verdicts, s.Plateaus)
	for _, f := range figures.Of(s, report.Build(s, report.Options{Samples: samples}), samples) {
		if f.Name == "grid" {
			return f, f.Panels[0].(plot.Heat)
		}
	}
	return plot.Figure{}, plot.Heat{}
}

// TestMapOfWindows: three kernels with five windows make a map of 15 cells, and the sentence
// names its highest and lowest.
func TestMapOfWindows(t *testing.T) {
	f, h := heat(t, published(t, "virtio-windows"), nil, "setting=test", "setting=window_bytes", "goodput=avg_mbit_s:Mbit/s")
	must.Need(t, slices.Equal(h.Rows, []string{"1", "2", "3"}) && len(h.Columns) == 5 && h.Cells[0][3] == 237.30e6 && !(math.Abs(h.Cells[2][0]-128.51e6) > 1), "%+v", h)
	for _, want := range []string{"1 with 1048576 (237.3 Mbit/s)", "3 with 65536 (128.5 Mbit/s)"} {
		must.Contain(t, f.Sentence, want)
	}
	must.Contain(t, f.SVG(plot.Wide), "237.3", "the picture has no figures")
}

// TestMapOfCards draws the published matrix of computers and cards as a map. The article has
// words and no figures, so the rates are made up, one for each line. Unmeasured cells stay
// empty, and the map does not mix media.
func TestMapOfCards(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(published(t, "nic-matrix")), "\n")
	cells := map[string]float64{}
	lines[0] += ",rate,unit"
	for i := range lines[1:] {
		rate := float64(10 + i)
		if part := strings.SplitN(lines[i+1], ",", 6); part[3] == "100baseTX" {
			cells[part[4]+" with "+part[1]] = rate * 1e6
			if part[1] == "dc0" && part[4] == "FMV and IBM" {
				rate = 14.0 / 8 // the same in another unit
				cells[part[4]+" with "+part[1]] = 14e6
				lines[i+1] += fmt.Sprintf(",%g,MB/s", rate)
				continue
			}
		}
		lines[i+1] += fmt.Sprintf(",%g,Mbit/s", rate)
	}
	_, h := heat(t, strings.Join(lines, "\n"), []string{"medium=100baseTX"}, "setting=computer", "setting=driver", "goodput=rate:{unit}")
	must.Need(t, len(h.Rows) >= 4 && slices.Equal(h.Columns, []string{"xl0", "sis0", "fxp0", "dc0", "pcn0", "em0"}), "%+v", h)
	for i, row := range h.Rows {
		for j, column := range h.Columns {
			want, measured := cells[row+" with "+column]
			got := h.Cells[i][j]
			must.True(t, (!measured || got == want) && (measured || math.IsNaN(got)), "%s with %s: %v, want %v (%v)", row, column, got, want, measured)
		}
	}
	_, none := heat(t, strings.Join(lines, "\n"), []string{"medium=100baseTX", "driver=xl0"}, "setting=computer", "setting=driver", "goodput=rate:{unit}")
	must.True(t, len(none.Cells) <= 0, "one card is no map: %+v", none)
}

// TestHostileMap: a table whose lines all differ in both columns would have as many cells as
// the square of its lines, and gets no map.
func TestHostileMap(t *testing.T) {
	var text strings.Builder
	text.WriteString("a,b,v\n")
	for n := range 900 {
		fmt.Fprintf(&text, "a%d,b%d,1\n", n, n)
	}
	_, h := heat(t, text.String(), nil, "setting=a", "setting=b", "goodput=v:MB/s")
	must.True(t, len(h.Cells) == 0, "a map of %d lines", len(h.Cells))
}

// TestSharesCarryDirections: each direction of a table has a map of its own.
func TestSharesCarryDirections(t *testing.T) {
	f, _ := heat(t, "direction,a,b,v\nwrite,1,1,10\nwrite,2,2,20\nread,1,1,30\nread,2,2,40\n", nil, "direction=direction", "setting=a", "setting=b", "goodput=v:MB/s")
	must.True(t, len(f.Panels) == 2 && f.Panels[1].(plot.Heat).Cells[1][1] == 320e6, "%+v", f.Panels)
}
