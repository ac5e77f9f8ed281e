package web

import (
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"linerate/internal/core/analysis"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/report"
	"linerate/internal/report/figures"
	"linerate/internal/report/plot"
)

//go:embed page.tmpl
var pageText string

// page is the data of the templates for whole documents.
type page struct {
	Title string
	Style template.CSS
	Part  string // the part that changes
	// Present shows the current run, which changes more often.
	Present string
	Events  string // URL of its changes
	Up      string // from this page to the first one: "../" for each folder
	Fleet   bool   // it is of a fleet
	Why     string // reason of a refusal
}

// Body returns the part that changes, rendered by another template.
func (p page) Body() template.HTML { return template.HTML(p.Part) } //nolint:gosec // it was escaped when it was written

// Running returns Present, rendered by another template.
func (p page) Running() template.HTML { return template.HTML(p.Present) } //nolint:gosec // it was escaped when it was written

func templates() (*template.Template, error) { return template.New("").Parse(pageText) }

// page answers with a whole document.
func (s *Server) page(w http.ResponseWriter, code int, name string, p page) {
	p.Style = template.CSS(plot.Style()) //nolint:gosec // a constant of ours
	text, err := render(name, p)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // a client that is gone does not need it
}

// render executes a template. It also keeps terminal commands out of pages.
func render(name string, data any) (string, error) {
	t, err := templates()
	if err != nil {
		return "", fmt.Errorf("pages of linerate ui: %w", err)
	}
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("page of linerate ui: %w", err)
	}
	return plain.Text(b.String()), nil
}

func escape(text string) string { return template.HTMLEscapeString(plain.Line(text)) }

// row is a session in the list.
type row struct {
	ID, When, Kind, State, Goodput, What, Link string
	Running                                    bool
}

// list is the data of the page of all sessions.
type list struct {
	Rows            []row
	Picked          string // selected host and finding; "" for all
	Findings, Hosts []choice
	Most            int // sessions searched at most
}

// choice is a link that filters the list.
type choice struct {
	Text, Link string
	Count      int
}

// choose counts one more session for the link to key=value, in addition to query's filter.
func choose(all []choice, query url.Values, text, key, value string) []choice {
	with := url.Values{key: {value}}
	for _, other := range []string{"host", "finding"} {
		if other != key && query.Get(other) != "" {
			with.Set(other, query.Get(other))
		}
	}
	link := "?" + with.Encode()
	i := slices.IndexFunc(all, func(c choice) bool { return c.Link == link })
	if i < 0 {
		return append(all, choice{text, link, 1})
	}
	all[i].Count++
	return all
}

// listPart lists the sessions that query selects by host and finding.
func (s *Server) listPart(ctx context.Context, query url.Values) (string, error) {
	host, finding := query.Get("host"), query.Get("finding")
	l, err := s.source.List(ctx, host)
	if err != nil {
		return "", err
	}
	p := list{Picked: strings.TrimSpace(host + " " + finding), Most: Listed}
	for _, i := range l.Sessions {
		if finding != "" && !i.Found(finding) {
			continue
		}
		name := model.EndName(i.Far)
		if strings.HasPrefix(name, "lab:") {
			name = "lab:"
		}
		p.Hosts = choose(p.Hosts, query, name, "host", name)
		var codes []string
		for _, f := range i.Findings {
			if !slices.Contains(codes, f.Code) {
				codes = append(codes, f.Code)
				p.Findings = choose(p.Findings, query, f.Name, "finding", f.Code)
			}
		}
		r := row{
			ID: i.ID, When: i.Created.Local().Format("2006-01-02 15:04"), Kind: string(i.Kind), State: string(i.State), What: i.What(), Link: "report/" + i.ID,
			Running: i.State == model.SessionRunning,
		}
		if r.Running {
			r.Link = "session/" + i.ID
		}
		var rates []string
		for _, d := range []model.Direction{model.To, model.From} {
			if text := i.Texts()[d]; text != "" {
				rates = append(rates, strings.ReplaceAll(text, " ", "\u00a0")+" "+string(d))
			}
		}
		r.Goodput = strings.Join(rates, ", ")
		p.Rows = append(p.Rows, r)
	}
	return render("list", p)
}

// progress is the state of a session.
type progress struct {
	Where, Title, State, ID string
	Running                 bool
	Runs                    []runRow // the newest first
	Count, Most             int      // runs, and those of the whole plan; 0 if that is open
	Stands                  []report.Standing
	Wide, Narrow            template.HTML // every run of every setting
	Warnings                []string
}

type runRow struct{ Number, Block, Setting, Way, Goodput, State string }

// shownRuns is how many runs a page lists.
const shownRuns = 40

// sessionPart returns the state of a session; last says that it will not change any more.
func (s *Server) sessionPart(ctx context.Context, id string) (text string, last bool, err error) {
	session, err := s.source.Session(ctx, id)
	if err != nil {
		return "", false, err
	}
	d := s.source.Document(session)
	p := progress{
		Where: d.Between(), Title: session.Title, State: d.Ending, ID: session.ID, Running: session.State == model.SessionRunning,
		Count: len(session.Runs), Most: session.Plan.Runs(), Warnings: d.Warnings,
	}
	for _, r := range slices.Backward(session.Runs) {
		if len(p.Runs) < shownRuns {
			p.Runs = append(p.Runs, rowOf(r))
		}
	}
	if len(session.Plan.Settings) > 1 && session.Kind == model.KindRun {
		verdicts := session.Verdicts
		if p.Running {
			verdicts = analysis.Analyse(session.Plan, session.Runs).Verdicts
		}
		p.Stands = report.Standings(session.Plan, verdicts)
	}
	for _, f := range figures.Of(session, d, nil) {
		if f.Name == "settings" {
			//nolint:gosec // every text in a picture is escaped by package plot
			p.Wide, p.Narrow = template.HTML(f.Inline(plot.Wide)), template.HTML(f.Inline(plot.Narrow))
		}
	}
	text, err = render("session", p)
	return text, !p.Running, err
}

func rowOf(r model.Run) runRow {
	out := runRow{Number: fmt.Sprint(r.Number), Block: fmt.Sprint(r.Block), Setting: r.Setting, State: string(r.State)}
	if r.Reason != "" {
		out.State += ": " + r.Reason
	}
	var ways, rates []string
	for _, w := range r.Flow.Direction.Parts() {
		ways = append(ways, string(w))
		if v, ok := r.Value(w, model.Goodput); ok && !math.IsNaN(v) {
			rates = append(rates, units.BitRate(v).String())
		}
	}
	out.Way, out.Goodput = strings.Join(ways, ", "), strings.Join(rates, ", ")
	return out
}
