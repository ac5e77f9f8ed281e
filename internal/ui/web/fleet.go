package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"html/template"
	"io/fs"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/odd"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/report/figures"
	reportfleet "linerate/internal/report/fleet"
	"linerate/internal/report/plot"
	"linerate/internal/report/raster"
)

// FleetSource provides the state of a fleet.
type FleetSource interface {
	Status(ctx context.Context) (fleet.Status, error)
	// Path returns the history of the path between two hosts, of which low has the lower number.
	Path(ctx context.Context, low, high int64) (series.History, error)
}

// FleetEvery is how often a page of a fleet asks for news.
const FleetEvery = 5 * time.Second

// ListenFleet is Listen for the page of a fleet.
func ListenFleet(ctx context.Context, port int, source FleetSource, every time.Duration) (*Server, error) {
	s, err := Listen(ctx, port, nil, every)
	if err == nil {
		s.fleet = source
	}
	return s, err
}

// fleetPage is a page of a fleet: its address below the base, and what it shows of a status.
type fleetPage struct {
	path, title string
	part        func(r *http.Request, s *fleet.Status) (any, error)
}

// fleetPages are the pages of a fleet; the template of each has the name fleet-TITLE.
func (s *Server) fleetPages() []fleetPage {
	return []fleetPage{
		{"/{$}", "matrix", s.fleetMatrix},
		{"/changes", "changes", func(_ *http.Request, f *fleet.Status) (any, error) { return f, nil }},
		{"/queue", "queue", func(_ *http.Request, f *fleet.Status) (any, error) { return f, nil }},
		{"/host/{id}", "host", fleetHost},
		{"/path/{low}/{high}", "path", s.fleetPath},
	}
}

// registerFleet adds the pages of a fleet and their streams of news.
func (s *Server) registerFleet(mux *http.ServeMux) {
	for _, p := range s.fleetPages() {
		mux.HandleFunc("GET "+p.path, func(w http.ResponseWriter, r *http.Request) {
			text, err := s.fleetPart(r, p)
			if err != nil {
				s.fault(w, err)
				return
			}
			up := strings.Repeat("../", strings.Count(r.URL.Path, "/")-1)
			s.page(w, http.StatusOK, "live", page{Title: "Fleet", Part: text, Up: up, Fleet: true, Events: up + "events?of=" + template.URLQueryEscaper(strings.TrimPrefix(r.URL.Path, "/"))})
		})
	}
	inner := http.NewServeMux() // finds the page that a stream belongs to
	for _, p := range s.fleetPages() {
		inner.HandleFunc("GET "+p.path, func(w http.ResponseWriter, r *http.Request) {
			s.stream(w, r, "", func(context.Context) (string, bool, error) {
				text, err := s.fleetPart(r, p)
				return text, false, err
			})
		})
	}
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		of := r.Clone(r.Context())
		of.URL.Path, of.URL.RawPath = "/"+r.FormValue("of"), ""
		inner.ServeHTTP(w, of)
	})
}

// fleetMark returns a text that changes when a fleet has news.
func (s *Server) fleetMark(ctx context.Context) (string, error) {
	f, err := s.fleet.Status(ctx)
	var mark strings.Builder
	fmt.Fprint(&mark, len(f.Hosts), len(f.Changes), len(f.Alerts), f.Faults)
	for _, list := range [][]fleet.Entry{f.Recent, f.Queue} {
		if len(list) > 0 {
			fmt.Fprint(&mark, " ", list[0].Lease, list[0].State)
		}
	}
	for _, h := range f.Hosts {
		fmt.Fprint(&mark, h.Silent)
	}
	return mark.String(), err
}

func (s *Server) fleetPart(r *http.Request, p fleetPage) (string, error) {
	f, err := s.fleet.Status(r.Context())
	if err != nil {
		return "", err
	}
	data, err := p.part(r, &f)
	if err != nil {
		return "", err
	}
	return render("fleet-"+p.title, data)
}

// matrixPage is the data of the first page.
type matrixPage struct {
	Head         string
	Entries      []reportfleet.Entry
	Hosts        []fleet.HostStatus
	Wide, Narrow template.HTML
	Cells        template.URL // a picture with a pixel for each direction, of too many for a drawing
	Full         string       // the rate of its strongest pixels
}

func (s *Server) fleetMatrix(_ *http.Request, f *fleet.Status) (any, error) {
	head, entries := reportfleet.Summary(f)
	p := matrixPage{Head: head, Entries: entries, Hosts: f.Hosts}
	if one, ok := figures.Mesh(reportfleet.Names(f), f.Present.Goodput, f.Present.RoundTrip); ok {
		//nolint:gosec // every text in a picture is escaped by package plot
		p.Wide, p.Narrow = template.HTML(one.Inline(plot.Wide)), template.HTML(one.Inline(plot.Narrow))
		return p, nil
	}
	if full := odd.Level(f.Present.Goodput); full > 0 {
		var b bytes.Buffer
		err := raster.Cells(&b, f.Present.Goodput, full)
		//nolint:gosec // base64
		p.Cells, p.Full = template.URL("data:image/png;base64,"+base64.StdEncoding.EncodeToString(b.Bytes())), units.BitRate(full).String()
		return p, err
	}
	return p, nil
}

// hostPage is the data of the page of a host.
type hostPage struct {
	fleet.HostStatus
	Limit string
	Paths []pathRow
}

// pathRow is a path of a host, as that host sees it.
type pathRow struct {
	Low, High                           int64
	Peer, To, From, Trip, Last, Problem string
}

func fleetHost(r *http.Request, f *fleet.Status) (any, error) {
	id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64) // 0 is no host
	i := slices.IndexFunc(f.Hosts, func(h fleet.HostStatus) bool { return h.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("there is no such host: %w", fs.ErrNotExist)
	}
	p := hostPage{HostStatus: f.Hosts[i], Limit: f.Hosts[i].Limits.String()}
	for j, o := range f.Hosts {
		if j == i {
			continue
		}
		row := pathRow{Low: min(id, o.ID), High: max(id, o.ID), Peer: o.Name, To: rateText(f.Present.Goodput[i][j]), From: rateText(f.Present.Goodput[j][i]), Trip: tripText(f.Present.RoundTrip[i][j])}
		if at := f.Present.Looked[i][j]; at > 0 {
			row.Last = series.Clock(time.Unix(at, 0).In(f.Now.Location()))
		}
		for _, one := range f.Problems {
			if one.Near == o.Name && one.Far == p.Name || one.Far == o.Name && one.Near == p.Name {
				row.Problem = one.Text
			}
		}
		p.Paths = append(p.Paths, row)
	}
	return p, nil
}

func rateText(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return units.BitRate(v).String()
}

func tripText(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return units.FormatDuration(time.Duration(v * float64(time.Second)).Round(time.Microsecond))
}

// pathPage is the data of the page of a path.
type pathPage struct {
	Near, Far, Line string
	Changes         []series.Report
	Wide, Narrow    template.HTML
}

func (s *Server) fleetPath(r *http.Request, f *fleet.Status) (any, error) {
	low, _ := strconv.ParseInt(r.PathValue("low"), 10, 64) // 0 is no host
	high, _ := strconv.ParseInt(r.PathValue("high"), 10, 64)
	var p pathPage
	for _, h := range f.Hosts {
		switch h.ID {
		case low:
			p.Near = h.Name
		case high:
			p.Far = h.Name
		}
	}
	if p.Near == "" || p.Far == "" || low >= high {
		return nil, fmt.Errorf("there is no such path: %w", fs.ErrNotExist)
	}
	h, err := s.fleet.Path(r.Context(), low, high)
	if err != nil {
		return nil, err
	}
	p.Line, p.Changes = h.Line(), h.Changes
	if fig, ok := pathFigure(h, p.Near); ok {
		//nolint:gosec // every text in a picture is escaped by package plot
		p.Wide, p.Narrow = template.HTML(fig.Inline(plot.Wide)), template.HTML(fig.Inline(plot.Narrow))
	}
	return p, nil
}

// pathFigure draws goodput and round trips of a path over time, with its changes.
func pathFigure(h series.History, near string) (plot.Figure, bool) {
	var begin time.Time
	for _, v := range h.Streams {
		if begin.IsZero() || v.Values[0].At.Before(begin) {
			begin = v.Values[0].At
		}
	}
	at := func(t time.Time) float64 { return t.Sub(begin).Hours() }
	x := plot.Axis{Name: "hours since " + series.Clock(begin)}
	rates := plot.Lines{X: x, Y: plot.Axis{Name: "goodput", Unit: plot.BitRate, Zero: true}}
	trips := plot.Lines{X: x, Y: plot.Axis{Name: "round trip", Unit: plot.Seconds, Zero: true}, Tall: 150}
	for _, v := range h.Streams {
		l := plot.Line{Name: string(v.Direction) + " " + h.Host, Dots: len(v.Values) <= 60}
		for _, one := range v.Values {
			l.X, l.Y = append(l.X, at(one.At)), append(l.Y, one.Value)
		}
		if v.Metric == model.Goodput {
			rates.Lines = append(rates.Lines, l)
		}
		if v.Metric == model.IdleP50 {
			l.Name = "round trip"
			trips.Lines = append(trips.Lines, l)
		}
	}
	for _, c := range h.Changes {
		rates.Bands = append(rates.Bands, plot.Band{From: at(c.After), To: at(c.Since)})
	}
	f := plot.Figure{Name: "path", Title: near + " and " + h.Host, Sentence: h.Line()}
	for _, l := range []plot.Lines{rates, trips} {
		if len(l.Lines) > 0 {
			f.Panels = append(f.Panels, l)
		}
	}
	return f, len(f.Panels) > 0 && h.Looks > 1
}
