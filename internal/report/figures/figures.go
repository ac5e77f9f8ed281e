// Package figures chooses the pictures of a session: their number, their content, and the
// sentence under the title of each, made from the same numbers.
package figures

import (
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/report"
	"linerate/internal/report/plot"
)

// Of returns the pictures of session s with report d, in reading order: the path and its limit,
// the effects of the settings, and then the course of the runs. It leaves out what was not
// measured.
func Of(s model.Session, d report.Document, samples model.Samples) []plot.Figure {
	b := builder{s: &s, d: &d, samples: samples, runs: report.Counted(s.Runs)}
	if samples == nil {
		b.samples = model.Held{}
	}
	var out []plot.Figure
	pictures := []func() (plot.Figure, bool){
		b.gains, b.path, b.effects, b.settings, b.plateau, b.grid, b.rate, b.sizes, b.latency, b.cores,
	}
	between := b.d.Header.Near + " to " + b.far()
	if s.Mesh != nil {
		pictures, between = append(pictures[:0], b.mesh), d.Between()
	}
	for _, make := range pictures {
		if f, ok := make(); ok {
			f.Title += ", " + between
			f.About = b.about()
			out = append(out, f)
		}
	}
	return out
}

type builder struct {
	s       *model.Session
	d       *report.Document
	samples model.Samples
	runs    []model.Run // those that count
}

// far returns the name of the far end, or the number of far ends.
func (b *builder) far() string {
	if n := len(b.d.FarEnds); n > 0 {
		return plain.Count(n, "far end")
	}
	return b.d.Header.Far
}

// label names direction w as the report does.
func (b *builder) label(w model.Direction) string {
	if len(b.d.FarEnds) > 0 {
		return report.EachFarEnd(w)
	}
	return model.Names{Near: b.d.Header.Near, Far: b.d.Header.Far}.Way(w)
}

// directions returns the single directions of the runs.
func (b *builder) directions() []model.Direction {
	var out []model.Direction
	for _, w := range []model.Direction{model.To, model.From} {
		if slices.ContainsFunc(b.runs, func(r model.Run) bool { return slices.Contains(r.Flow.Direction.Parts(), w) }) {
			out = append(out, w)
		}
	}
	return out
}

// about says where, when and under which conditions the session was measured, and how to find
// it again.
func (b *builder) about() []string {
	var hosts []string
	for _, h := range []model.Host{model.Near, model.Far} {
		f, ok := b.s.Facts(h)
		if !ok {
			continue
		}
		name := b.d.Header.Of(h)
		if kernel := strings.TrimSpace(f.OS + " " + f.Kernel.Or("")); kernel != "" {
			name += ": " + kernel
		}
		hosts = append(hosts, name)
	}
	if b.s.Mesh != nil {
		for _, h := range b.s.Mesh.Hosts {
			if system := strings.TrimSpace(h.System + " " + h.Kernel.Or("")); !slices.Contains(hosts, system) && system != "" {
				hosts = append(hosts, system)
			}
		}
	}
	conditions := b.d.Header
	if len(b.d.FarEnds) > 0 {
		conditions.Link, hosts = fact.Of[units.BitRate]{}, hosts[:min(1, len(hosts))]
		for _, e := range b.d.FarEnds {
			hosts = append(hosts, e.Text)
		}
	}
	path := conditions.Conditions()
	for _, l := range b.d.Lines {
		if v, ok := l.Congestion.Get(); ok {
			path = append(path, v)
			break
		}
	}
	how := fmt.Sprintf("%s, %s; linerate %s, session %s",
		b.s.Created.UTC().Format("2006-01-02 15:04 UTC"), plain.Count(len(b.runs), "valid run"), b.s.Version, b.s.ID)
	var out []string
	for _, parts := range [][]string{hosts, path, {how}} {
		if len(parts) > 0 {
			out = append(out, strings.Join(parts, "; "))
		}
	}
	if b.d.Untrustworthy != "" {
		out = append(out, "No verdict of this session counts: "+b.d.Untrustworthy)
	}
	return out
}

// sentence joins its parts, starts with a capital letter, unless the first word is the name of
// a setting, and ends with a full stop.
func sentence(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	text := strings.TrimRight(strings.Join(parts, "; "), ".")
	if text == "" {
		return ""
	}
	if first, _, _ := strings.Cut(text, " "); strings.Contains(first, "=") {
		return text + "."
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
