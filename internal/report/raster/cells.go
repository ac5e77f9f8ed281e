package raster

import (
	"image"
	"image/color"
	"image/png"
	"io"
	"math"

	"linerate/internal/report/plot"
)

const (
	diagonal = 0 // places in the palette
	missing  = 1
	faintest = 2 // and from here on all shades
	shades   = 253
)

// Cells writes a matrix of many numbers as a PNG with a pixel for each, in the first colour of the
// series: the more of full, the less transparent, as plot.Heat does. It fits light and dark mode.
func Cells(w io.Writer, cells [][]float64, full float64) error {
	p := painter{looks: plot.Looks()}
	palette := make(color.Palette, 256)
	for i := range palette {
		name, opacity := "f0", .1+.8*float64(i-faintest)/shades
		if i < faintest {
			name, opacity = "faint", float64(i)*.15
		}
		shade, err := p.colour(p.looks[name].Fill, opacity)
		if err != nil {
			return err
		}
		palette[i] = shade.At(0, 0)
	}
	m := image.NewPaletted(image.Rect(0, 0, len(cells), len(cells)), palette)
	for i, row := range cells {
		for j, v := range row {
			switch {
			case math.IsNaN(v):
				m.SetColorIndex(j, i, missing)
			case full > 0:
				m.SetColorIndex(j, i, uint8(faintest+shades*min(v/full, 1)))
			}
		}
		m.SetColorIndex(i, i, diagonal)
	}
	fast := png.Encoder{CompressionLevel: png.BestSpeed}
	return fast.Encode(w, m)
}
