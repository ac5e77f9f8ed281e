package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/sweep"
	"linerate/internal/report"
	"linerate/internal/report/plot"
)

// Swept is a session that may hold a curve over message sizes, with its report.
type Swept struct {
	Session  model.Session
	Document report.Document
}

// Curves reports whether s holds one.
func (s Swept) Curves() bool { return s.curves() != nil }

func (s Swept) curves() *sweep.Document {
	if s.Document.Section == nil {
		return nil
	}
	curves, _ := s.Document.Section.Data.(*sweep.Document)
	return curves
}

// sizes is the curve over message sizes, with its drops marked.
func (b *builder) sizes() (plot.Figure, bool) {
	return sizesOf([]Swept{{*b.s, *b.d}})
}

// With is Of with the curves of other sessions beside those of s.
func With(s model.Session, d report.Document, samples map[int][]model.Sample, others []Swept) []plot.Figure {
	all := Of(s, d, samples)
	for i := range all {
		if f, ok := beside(append([]Swept{{s, d}}, others...)); ok && len(others) > 0 && all[i].Name == f.Name {
			all[i] = f
		}
	}
	return all
}

// beside are the curves of several sessions in one picture, as of several cards or media,
// each named by the card that it was measured with. The first session's is the picture's
// name and title.
func beside(all []Swept) (plot.Figure, bool) {
	f, ok := sizesOf(all)
	if !ok {
		return f, false
	}
	first := builder{s: &all[0].Session, d: &all[0].Document, runs: report.Counted(all[0].Session.Runs)}
	f.Title += ", " + first.d.Header.Near + " to " + first.d.Header.Far
	f.About = first.about()
	for _, s := range all[1:] {
		b := builder{s: &s.Session, d: &s.Document, runs: report.Counted(s.Session.Runs)}
		f.About = append(f.About, "beside it "+s.Document.Header.Near+" to "+s.Document.Header.Far+": "+strings.Join(b.about(), "; "))
	}
	return f, true
}

func sizesOf(all []Swept) (plot.Figure, bool) {
	f := plot.Figure{Name: "sizes", Title: "Goodput by message size"}
	l := plot.Lines{X: plot.Axis{Name: "message", Unit: plot.Bytes, Log: true}, Y: plot.Axis{Name: "goodput", Unit: plot.BitRate, Log: true}, Tall: 300}
	var said []string
	for i, name := range cardNames(all) {
		if curves := all[i].curves(); curves != nil {
			said = append(said, addCurves(&l, curves, name)...)
		}
	}
	f.Sentence, f.Panels = sentence(said...), []plot.Panel{l}
	return f, len(l.Lines) > 0
}

// addCurves adds those of one session to l, and returns what they show.
func addCurves(l *plot.Lines, curves *sweep.Document, name string) (said []string) {
	for _, w := range curves.Directions {
		label := w.Label
		if name != "" {
			label = name + ", " + label
		}
		one := plot.Line{Name: label}
		at := map[int64]float64{}
		for _, s := range w.Curve.Sizes {
			if s.Goodput > 0 {
				one.X, one.Y = append(one.X, float64(s.Size)), append(one.Y, float64(s.Goodput))
				at[int64(s.Size)] = float64(s.Goodput)
			}
		}
		if len(one.X) < 2 {
			continue
		}
		one.Dots = len(one.X) <= 60
		l.Lines = append(l.Lines, one)
		for _, x := range w.Curve.Features {
			if x.State == sweep.NotConfirmed {
				continue
			}
			y, ok := at[int64(x.From)]
			if !ok {
				y = math.NaN() // nothing came back
			}
			note := fmt.Sprintf("%s at %s", x.Kind, sweep.SizeText(x.From))
			if name != "" {
				note += " (" + name + ")"
			}
			l.Notes = append(l.Notes, plot.Note{X: float64(x.From), Y: y, Name: note})
		}
		if w.Largest != nil {
			said = append(said, fmt.Sprintf("%s at most %s, with messages of %s, and half of that from %s on",
				label, w.Largest.Goodput, sweep.SizeText(w.Largest.Size), sweep.SizeText(w.Half)))
		}
	}
	return said
}

// cardNames tell sessions apart: by the driver and the interface of the near host, and by
// the end of their IDs where these are the same. A session alone needs no name.
func cardNames(all []Swept) []string {
	names := make([]string, len(all))
	if len(all) < 2 {
		return names
	}
	for i, s := range all {
		f, _ := s.Session.Facts(model.Near)
		names[i] = f.Interface.Or("")
		for _, n := range f.NICs {
			if n.Name == names[i] {
				names[i] = strings.TrimSpace(n.Driver.Or("") + " " + names[i])
			}
		}
	}
	plain := slices.Clone(names)
	for i, name := range plain {
		same := 0
		for _, other := range plain {
			if other == name {
				same++
			}
		}
		if _, end, ok := strings.Cut(all[i].Session.ID, "-"); ok && (name == "" || same > 1) {
			names[i] = strings.TrimSpace(name + " " + end)
		}
	}
	return names
}
