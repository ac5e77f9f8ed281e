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

// Swept is a session that may have a curve over message sizes, with its report.
type Swept struct {
	Session  model.Session
	Document report.Document
}

// Curves reports whether s has one.
func (s Swept) Curves() bool { return s.curves() != nil }

func (s Swept) curves() *sweep.Document {
	if s.Document.Section == nil {
		return nil
	}
	curves, _ := s.Document.Section.Data.(*sweep.Document)
	return curves
}

// sizes draws the curve over message sizes, with its drops marked.
func (b *builder) sizes() (plot.Figure, bool) {
	return sizesOf([]Swept{{*b.s, *b.d}})
}

// With is Of with the curves of other sessions drawn beside those of s.
func With(s model.Session, d report.Document, samples model.Samples, others []Swept) []plot.Figure {
	all := Of(s, d, samples)
	for i := range all {
		if f, ok := beside(append([]Swept{{s, d}}, others...)); ok && len(others) > 0 && all[i].Name == f.Name {
			all[i] = f
		}
	}
	return all
}

// beside draws the curves of several sessions in one picture, for example of several cards or
// media, each named by its setting, or by the card that it was measured with. Name and title of
// the picture come from the first session.
func beside(all []Swept) (plot.Figure, bool) {
	f, ok := sizesOf(all)
	if !ok {
		return f, false
	}
	first := builder{s: &all[0].Session, d: &all[0].Document, runs: report.Counted(all[0].Session.Runs)}
	far := first.d.Header.Far
	if len(f.Panels) > 1 {
		far = "each far host"
	}
	f.Title += ", " + first.d.Header.Near + " to " + far
	f.About = first.about()
	for _, s := range all[1:] {
		b := builder{s: &s.Session, d: &s.Document, runs: report.Counted(s.Session.Runs)}
		f.About = append(f.About, "beside it "+s.Document.Header.Near+" to "+s.Document.Header.Far+": "+strings.Join(b.about(), "; "))
	}
	return f, true
}

func sizesOf(all []Swept) (plot.Figure, bool) {
	f := plot.Figure{Name: "sizes", Title: "Goodput by message size"}
	machines, of := byMachine(all)
	var said []string
	for _, machine := range machines {
		l := plot.Lines{X: plot.Axis{Name: "message", Unit: plot.Bytes, Log: true}, Y: plot.Axis{Name: "goodput", Unit: plot.BitRate, Log: true}, Tall: 300}
		if len(machines) > 1 {
			l.Y.Name, l.Tall = machine+": goodput", 200
		}
		for i, name := range curveNames(of[machine]) {
			if curves := of[machine][i].curves(); curves != nil {
				for _, text := range addCurves(&l, curves, name) {
					if len(machines) > 1 {
						text = machine + ": " + text
					}
					said = append(said, text)
				}
			}
		}
		if len(l.Lines) > 0 {
			f.Panels = append(f.Panels, l)
		}
	}
	f.Sentence = sentence(said...)
	return f, oneScale(f.Panels)
}

// oneScale gives all panels of lines the same axes. It reports whether there are panels.
func oneScale(panels []plot.Panel) bool {
	var x, y []float64
	for _, p := range panels {
		for _, l := range p.(plot.Lines).Lines {
			x, y = append(x, l.X...), append(y, l.Y...)
		}
	}
	for i, p := range panels {
		l, _ := p.(plot.Lines)
		l.X.Also, l.Y.Also = x, y
		panels[i] = l
	}
	return len(panels) > 0
}

// byMachine returns the far hosts in order, by name, with the sessions of each. Each lab counts
// as a host of its own.
func byMachine(all []Swept) (names []string, of map[string][]Swept) {
	of = map[string][]Swept{}
	for _, s := range all {
		name := s.Document.Header.Far
		if strings.HasPrefix(s.Session.Far, "lab:") {
			name = s.Session.Far
		}
		if of[name] == nil {
			names = append(names, name)
		}
		of[name] = append(of[name], s)
	}
	return names, of
}

// addCurves adds the curves of one session to l, and returns sentences on them.
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
				y = math.NaN() // no answer
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

// curveNames returns names that distinguish sessions: by the setting, or else by the driver and
// the interface of the near host, and by the end of their IDs if these are equal. A single
// session needs no name.
func curveNames(all []Swept) []string {
	names := make([]string, len(all))
	if len(all) < 2 {
		return names
	}
	for i, s := range all {
		if p := s.Session.Plan; len(p.Settings) == 1 && p.Baseline != "current" {
			names[i] = p.Baseline
			continue
		}
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
