// Package raster draws the pictures of reports as PNG, for places that do not accept SVG. It
// draws the same shapes as package plot, in the looks for light mode, with the Go fonts, so
// that a picture is the same on every machine.
package raster

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"strconv"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"

	"linerate/internal/report/plot"
)

// PNG writes f, laid out width pixels wide, as an image enlarged so that its longer side has
// most pixels.
func PNG(w io.Writer, f plot.Figure, width float64, most int) error {
	d := f.Drawing(width)
	scale := float64(most) / max(d.Width, d.Height)
	p, err := newPainter(int(math.Round(d.Width*scale)), int(math.Round(d.Height*scale)), scale)
	if err != nil {
		return fmt.Errorf("picture %s: %w", f.Name, err)
	}
	for _, s := range d.Shapes {
		if err := p.shape(s); err != nil {
			return fmt.Errorf("picture %s: %w", f.Name, err)
		}
	}
	return png.Encode(w, p.image)
}

// painter draws shapes on an image.
type painter struct {
	image *image.RGBA
	scale float64 // image pixels per drawing pixel
	looks map[string]plot.Look
	fonts [2]*opentype.Font // regular and bold
	faces map[face]font.Face
	// raster is reused for all shapes.
	raster *vector.Rasterizer
}

// face is a font at a size.
type face struct {
	bold bool
	size float64
}

func newPainter(width, height int, scale float64) (*painter, error) {
	p := &painter{image: image.NewRGBA(image.Rect(0, 0, width, height)), scale: scale, looks: plot.Looks(), faces: map[face]font.Face{}, raster: vector.NewRasterizer(0, 0)}
	for i, ttf := range [][]byte{goregular.TTF, gobold.TTF} {
		parsed, err := opentype.Parse(ttf)
		if err != nil {
			return nil, fmt.Errorf("font: %w", err)
		}
		p.fonts[i] = parsed
	}
	ground, err := p.colour(p.looks["ground"].Fill, 1)
	draw.Draw(p.image, p.image.Bounds(), ground, image.Point{}, draw.Src)
	return p, err
}

// colour parses #rgb or #rrggbb and applies an opacity.
func (p *painter) colour(hex string, opacity float64) (image.Image, error) {
	digits := strings.TrimPrefix(hex, "#")
	if len(digits) == 3 {
		digits = string([]byte{digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]})
	}
	v, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || len(digits) != 6 {
		return nil, fmt.Errorf("%q is no colour", hex)
	}
	return image.NewUniform(color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: uint8(math.Round(255 * opacity))}), nil //nolint:gosec // bytes of 24 bits, and 0…1
}

// opaque returns 1 for 0, the default opacity.
func opaque(v float64) float64 {
	if v == 0 {
		return 1
	}
	return v
}

func (p *painter) shape(s plot.Shape) error {
	look := p.looks[s.Class]
	clear := opaque(s.Opacity) * opaque(look.Clear)
	if s.Kind == plot.Text {
		return p.text(s, look, clear)
	}
	if outline := outlineOf(s); len(outline) > 0 && look.Fill != "" {
		colour, err := p.colour(look.Fill, clear)
		if err != nil {
			return err
		}
		p.fill(colour, outline)
	}
	if look.Stroke == "" {
		return nil
	}
	colour, err := p.colour(look.Stroke, clear)
	if err != nil {
		return err
	}
	var parts [][]plot.Point
	for _, line := range linesOf(s) {
		for _, dash := range dashed(line, look.Dashes) {
			parts = append(parts, stroke(dash, max(look.Width, 1)/2)...)
		}
	}
	p.fill(colour, parts...)
	return nil
}

// fill fills the polygons, which may overlap.
func (p *painter) fill(colour image.Image, polygons ...[]plot.Point) {
	low, high := plot.Point{X: math.Inf(1), Y: math.Inf(1)}, plot.Point{X: math.Inf(-1), Y: math.Inf(-1)}
	for _, polygon := range polygons {
		for _, q := range polygon {
			low.X, low.Y, high.X, high.Y = min(low.X, q.X), min(low.Y, q.Y), max(high.X, q.X), max(high.Y, q.Y)
		}
	}
	if low.X > high.X {
		return
	}
	// Process only the part of the picture that they cover.
	part := image.Rect(int(low.X*p.scale)-1, int(low.Y*p.scale)-1, int(high.X*p.scale)+2, int(high.Y*p.scale)+2).Intersect(p.image.Bounds())
	p.raster.Reset(part.Dx(), part.Dy())
	at := func(q plot.Point) (x, y float32) {
		return float32(q.X*p.scale) - float32(part.Min.X), float32(q.Y*p.scale) - float32(part.Min.Y)
	}
	for _, polygon := range polygons {
		if len(polygon) < 3 {
			continue
		}
		p.raster.MoveTo(at(polygon[0]))
		for _, q := range polygon[1:] {
			p.raster.LineTo(at(q))
		}
		p.raster.ClosePath()
	}
	p.raster.Draw(p.image, part, colour, image.Point{})
}

// text draws a text with its baseline at its point.
func (p *painter) text(s plot.Shape, look plot.Look, clear float64) error {
	fill := look.Fill
	if fill == "" {
		fill = p.looks["text"].Fill
	}
	colour, err := p.colour(fill, clear)
	if err != nil {
		return err
	}
	f, err := p.face(face{look.Bold, s.Size * p.scale})
	if err != nil {
		return err
	}
	d := font.Drawer{Dst: p.image, Src: colour, Face: f}
	x := s.Points[0].X * p.scale
	width := float64(d.MeasureString(s.Text)) / 64
	switch s.Anchor {
	case plot.Middle:
		x -= width / 2
	case plot.End:
		x -= width
	case plot.Start:
	}
	d.Dot = fixed.Point26_6{X: fixed.Int26_6(math.Round(x * 64)), Y: fixed.Int26_6(math.Round(s.Points[0].Y * p.scale * 64))}
	d.DrawString(s.Text)
	return nil
}

func (p *painter) face(want face) (font.Face, error) {
	if f, ok := p.faces[want]; ok {
		return f, nil
	}
	source := p.fonts[0]
	if want.bold {
		source = p.fonts[1]
	}
	f, err := opentype.NewFace(source, &opentype.FaceOptions{Size: want.size, DPI: 72, Hinting: font.HintingNone})
	if err != nil {
		return nil, fmt.Errorf("font of %.1f pixels: %w", want.size, err)
	}
	p.faces[want] = f
	return f, nil
}
