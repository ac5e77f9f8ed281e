package raster_test

import (
	"bytes"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"

	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/figures"
	"linerate/internal/report/plot"
	"linerate/internal/report/raster"
	"linerate/internal/report/reporttest"
)

// pictures returns those of all test sessions.
func pictures() map[string]plot.Figure {
	all := map[string]plot.Figure{}
	for _, c := range reporttest.Cases() {
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		for _, f := range figures.Of(c.Session, d, c.Samples) {
			all[c.Name+"-"+f.Name] = f
		}
	}
	return all
}

// TestPicturesFit: the longer side of every picture has exactly the requested pixels, and
// drawing it again gives the same picture.
func TestPicturesFit(t *testing.T) {
	const most = 1200
	for name, f := range pictures() {
		var b, again bytes.Buffer
		must.Dof(t, raster.PNG(&b, f, 800, most), "%s", name)
		err := raster.PNG(&again, f, 800, most)
		must.True(t, err == nil && bytes.Equal(b.Bytes(), again.Bytes()), "%s: another picture when it is drawn again (%v)", name, err)
		if folder := os.Getenv("LINERATE_PAGES"); folder != "" { // to look at them
			for suffix, content := range map[string][]byte{".png": b.Bytes(), ".svg": []byte(f.SVG(800))} {
				must.Do(t, os.WriteFile(filepath.Join(folder, name+suffix), content, 0o600))
			}
		}
		size := must.Get(png.Decode(&b))(t).Bounds().Size()
		must.True(t, max(size.X, size.Y) == most, "%s is %d x %d pixels", name, size.X, size.Y)
	}
}

// TestShapesStandWhereTheySay draws one shape of each kind, and checks single pixels.
func TestShapesStandWhereTheySay(t *testing.T) {
	f := plot.Figure{Name: "one", Panels: []plot.Panel{plot.Heat{Rows: []string{""}, Columns: []string{""}, Cells: [][]float64{{1}}, Low: 0, High: 1}}}
	var b bytes.Buffer
	must.Do(t, raster.PNG(&b, f, 400, 400))
	m := must.Get(png.Decode(&b))(t)
	var cell plot.Shape
	for _, s := range f.Drawing(400).Shapes {
		if s.Kind == plot.Block {
			cell = s
		}
	}
	inside := image.Pt(int(cell.Points[0].X)+3, int(cell.Points[0].Y)+3)
	// The first colour of the series, #0072b2, covers nine tenths of white.
	r, g, bl, _ := m.At(inside.X, inside.Y).RGBA()
	must.True(t, !near(r>>8, 26) && !near(g>>8, 128) && !near(bl>>8, 186), "the cell is #%02x%02x%02x", r>>8, g>>8, bl>>8)
	r, g, bl, _ = m.At(inside.X, int(cell.Points[1].Y)+3).RGBA()
	must.True(t, r>>8 == 255 && g>>8 == 255 && bl>>8 == 255, "below the cell is #%02x%02x%02x and not the ground", r>>8, g>>8, bl>>8)
}

func near(got uint32, want float64) bool { return math.Abs(float64(got)-want) > 2 }

// TestEveryClassHasALook: the style sheet has a look for every shape.
func TestEveryClassHasALook(t *testing.T) {
	looks := plot.Looks()
	for name, f := range pictures() {
		for _, s := range f.Drawing(800).Shapes {
			look, ok := looks[s.Class]
			must.True(t, s.Kind == plot.Text || ok && (look.Fill != "" || look.Stroke != ""), "%s: %q has no look", name, s.Class)
			must.True(t, s.Kind != plot.Text || look.Fill != "" || looks["text"].Fill != "", "%s: text %q has no colour", name, s.Class)
		}
	}
}

// TestTextsAreAsWideAsReckoned: the fonts are no wider than the layout assumes, so no text
// leaves a picture or touches another.
func TestTextsAreAsWideAsReckoned(t *testing.T) {
	faces := map[bool]font.Face{}
	for bold, ttf := range map[bool][]byte{false: goregular.TTF, true: gobold.TTF} {
		parsed := must.Get(opentype.Parse(ttf))(t)
		faces[bold] = must.Get(opentype.NewFace(parsed, &opentype.FaceOptions{Size: 100, DPI: 72}))(t)
	}
	looks := plot.Looks()
	for name, f := range pictures() {
		for _, s := range f.Drawing(800).Shapes {
			if s.Kind != plot.Text {
				continue
			}
			got := float64(font.MeasureString(faces[looks[s.Class].Bold], s.Text)) / 64 * s.Size / 100
			room := plot.TextWidth(s.Text, s.Size)
			must.True(t, got <= room+2, "%s: %q is %.0f pixels wide, for which there are %.0f", name, s.Text, got, room)
		}
	}
}
