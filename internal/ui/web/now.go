package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"linerate/internal/core/units"
	"linerate/internal/report/plot"
	"linerate/internal/ui/live"
)

// present is the current run as the page shows it.
type present struct {
	What         string // run and setting
	Phase        string
	Ways         []presentWay
	Wide, Narrow template.HTML // rates and round trips
}

type presentWay struct{ Name, Rate, Trip string }

// nowPart returns the current run of a session; "" if no process shares it.
func (s *Server) nowPart(id string) (string, error) {
	if id == "" {
		return "", nil
	}
	n, ok := s.source.Now(id)
	if !ok {
		return "", nil
	}
	p := present{What: fmt.Sprintf("Run %d of this process", n.Run), Phase: n.Phase}
	if n.Setting != "" {
		p.What += ", " + n.Setting
	}
	for _, w := range n.Ways {
		one := presentWay{Name: w.Name, Rate: "-", Trip: "-"}
		if r := w.Rates; len(r) > 0 {
			one.Rate = units.BitRate(r[len(r)-1].Value).String()
		}
		if r := w.Trips; len(r) > 0 {
			one.Trip = units.FormatDuration(live.Brief(time.Duration(r[len(r)-1].Value * float64(time.Second))))
		}
		p.Ways = append(p.Ways, one)
	}
	if f, ok := nowFigure(n, p.What); ok {
		//nolint:gosec // every text in a picture is escaped by package plot
		p.Wide, p.Narrow = template.HTML(f.Inline(plot.Wide)), template.HTML(f.Inline(plot.Narrow))
	}
	return render("now", p)
}

// nowFigure draws rates and round trips of the run so far; ok is false with fewer than two of
// them.
func nowFigure(n live.Now, what string) (plot.Figure, bool) {
	rates := plot.Lines{X: plot.Axis{Name: "time of the run", Unit: plot.Seconds, Zero: true}, Y: plot.Axis{Name: "rate", Unit: plot.BitRate, Zero: true}}
	trips := plot.Lines{Y: plot.Axis{Name: "round trip", Unit: plot.Seconds, Zero: true}, Tall: 150}
	timed := false
	var said []string
	for _, w := range n.Ways {
		if len(w.Rates) < 2 {
			continue
		}
		rates.Lines = append(rates.Lines, drawn(w.Name, w.Rates))
		said = append(said, w.Name+": "+units.BitRate(w.Rates[len(w.Rates)-1].Value).String()+" in the last interval")
		trip := plot.Line{} // nothing drawn, so that the lines of both drawings look alike
		if len(w.Trips) > 1 {
			trip, timed = drawn(w.Name, w.Trips), true
		}
		trips.Lines = append(trips.Lines, trip)
	}
	if len(rates.Lines) == 0 {
		return plot.Figure{}, false
	}
	if timed {
		rates.Below = &trips
	}
	return plot.Figure{Name: "now", Title: what, Sentence: strings.Join(said, "; "), Panels: []plot.Panel{rates}}, true
}

func drawn(name string, points []live.Point) plot.Line {
	l := plot.Line{Name: name, Dots: len(points) <= 60}
	for _, p := range points {
		l.X, l.Y = append(l.X, p.At), append(l.Y, p.Value)
	}
	return l
}
