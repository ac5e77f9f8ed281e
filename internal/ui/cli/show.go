package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
	"linerate/internal/report"
	"linerate/internal/report/format"
	"linerate/internal/report/term"
	"linerate/internal/store"
)

func (a *console) showCommand() *cobra.Command {
	var samples bool
	c := &cobra.Command{
		Use: "show ID", Short: "the report of a stored session again",
		Long: `show prints the report of a session from the store alone. ID is a session's name,
the beginning of it, last for the newest one, or last~1 for the one before.`,
		Example: "  linerate show last\n  linerate show last --details\n  linerate show last --json=full --samples",
		Args:    exactArgs("a session's ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, s, err := a.openSession(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer st.Close()
			return a.reportWith(cmd.Context(), st, s, samples)
		},
	}
	c.Flags().BoolVar(&a.why, "why", false, "of a check: what each line is based on")
	a.bindDetails(c.Flags())
	c.Flags().BoolVar(&samples, "samples", false, "with --json: every sample of every run")
	return c
}

// bindDetails adds the flag for the statistics in a report.
func (a *console) bindDetails(fl *pflag.FlagSet) {
	fl.BoolVar(&a.details, "details", false, "the statistics too: intervals, evidence, noise, and the tables over runs")
}

func (a *console) termOptions() term.Options {
	return term.Options{Width: a.Width(), Color: a.color(), Why: a.why, Details: a.details, OneLine: runtime.GOOS == "windows"}
}

// page returns an empty page. Output to something else than a terminal is not wrapped.
func (a *console) page() term.Page {
	o := a.termOptions()
	if !a.OutTerminal {
		o.Width = term.AnyWidth
	}
	return term.NewPage(o)
}

// report prints the report of a session.
func (a *console) report(ctx context.Context, st results, s model.Session) error {
	return a.reportWith(ctx, st, s, false)
}

func (a *console) reportWith(ctx context.Context, st results, s model.Session, withSamples bool) error {
	if s.Kind == model.KindTune {
		err := a.showTuned(ctx, st, s)
		if err == nil && s.Note != "" && !a.json {
			fmt.Fprintf(a.Out, "\nnote: %s\n", plain.Line(s.Note))
		}
		return err
	}
	samples := &sampleReader{ctx: ctx, st: st, id: s.ID}
	doc := report.Build(s, report.Options{Samples: samples, Kinds: a.kinds(), Catalogue: a.knobs})
	if st.Path() == inMemory {
		doc.Next = slices.DeleteFunc(doc.Next, func(n report.Step) bool { return strings.Contains(n.Command, s.ID) })
	}
	if samples.err != nil {
		return samples.err
	}
	if !a.json {
		return term.Render(a.Out, doc, a.termOptions())
	}
	o := format.JSONOptions{Full: a.full}
	if withSamples {
		o.Samples = samples
	}
	a.printed = true
	return cmp.Or(format.JSON(a.Out, s, doc, o), samples.err)
}

// sampleReader reads the samples of a session from its store. It holds those of one run at a
// time, and the first error.
type sampleReader struct {
	ctx context.Context //nolint:containedctx // of the one command that reads them
	st  results
	id  string
	run int // of the held samples
	now []model.Sample
	err error
}

// Of implements model.Samples.
func (s *sampleReader) Of(run int) []model.Sample {
	if run == s.run {
		return s.now
	}
	batch, err := s.st.Samples(s.ctx, s.id, run)
	if s.run, s.now = run, batch; err != nil && !errors.Is(err, store.ErrNotFound) { // measured, but the disk was full: its numbers are still available
		s.err = cmp.Or(s.err, err)
	}
	return s.now
}

// more reports whether the runs of a session have more than most samples.
func (s *sampleReader) more(runs []model.Run, most int) bool {
	n := 0
	for _, r := range runs {
		if n += len(s.Of(r.Number)); n > most {
			return true
		}
	}
	return false
}

// untrusted reports whether the session says that its results cannot be trusted.
func untrusted(s model.Session) bool {
	return report.Untrustworthy(s) != ""
}

func (a *console) compareCommand() *cobra.Command {
	return &cobra.Command{
		Use: "compare A B", Short: "two stored sessions side by side",
		Long: `compare shows the runs of two sessions side by side, setting by setting. It gives
no verdict: sessions run one after the other, so a drift of the path looks like
a difference between them. For a verdict, put both settings into one session.`,
		Example: "  linerate compare last~1 last\n  linerate compare 20261121T0132 last --json",
		Args:    exactArgs("a session's ID", "another session's ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.compare(cmd.Context(), args[0], args[1])
		},
	}
}

// compareDoc is linerate/compare/v1. It never holds a verdict; Reason says why.
type compareDoc struct {
	A       string       `json:"a"` // session IDs
	B       string       `json:"b"`
	Rows    []compareRow `json:"rows"`
	Verdict *struct{}    `json:"verdict"` // always null
	Reason  string       `json:"reason"`
}

// route returns where a session ran, for people. A lab holds both ends.
func route(s model.Session) string {
	if s.Near == s.Far {
		return s.Far
	}
	return s.Near + " -> " + s.Far
}

// compareRow is one setting and direction of two sessions in
// linerate/compare/v1.
type compareRow struct {
	Setting   string          `json:"setting"`
	Direction model.Direction `json:"direction"`
	A         *summary        `json:"a"` // null if the session has none
	B         *summary        `json:"b"`
	Ratio     *float64        `json:"ratio"` // of the medians, b over a
	// Change is (b - a)/a of the medians in percent.
	Change *float64 `json:"change_percent,omitempty"`
}

// summary describes the valid runs of one setting, in bit/s.
type summary struct {
	N      int     `json:"n"`
	Mean   float64 `json:"average"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func (a *console) compare(ctx context.Context, refA, refB string) error {
	st, sa, err := a.openSession(ctx, refA)
	if err != nil {
		return err
	}
	defer st.Close()
	sb, err := find(ctx, st, refB)
	if err != nil {
		return err
	}
	rows := compareRows(sa, sb)
	if a.json {
		return a.document("linerate/compare/v1", compareDoc{A: sa.ID, B: sb.ID, Rows: rows, Reason: noVerdict})
	}
	names, text := sa.Names(), "the two have no setting in common that both measured"
	if sb.Names() != names {
		names = model.Names{Near: string(model.Near), Far: string(model.Far)}
	}
	var table [][]string
	for _, r := range rows {
		change := "-"
		if r.Change != nil {
			change, text = fmt.Sprintf("%+.2f %%", *r.Change), "no verdict: "+noVerdict
		}
		table = append(table, []string{r.Setting, names.Arrow(r.Direction), medianText(r.A), countText(r.A), medianText(r.B), countText(r.B), change})
	}
	p := term.NewPage(a.termOptions())
	p.Text("A  %s  %s", sa.ID, route(sa))
	p.Text("B  %s  %s", sb.ID, route(sb))
	p.Gap()
	p.Table([]string{"setting", "direction", ">median A", ">runs", ">median B", ">runs", ">change"}, table, nil)
	p.Gap()
	p.Note(text)
	p.Command(report.Step{What: "see the second one", Command: "linerate show " + sb.ID + a.storeFlag()})
	return p.Print(a.Out)
}

// storeFlag returns the --db flag for a suggested command if this one has it, with a leading
// blank.
func (a *console) storeFlag() string {
	if a.db == "" || a.db == ":memory:" {
		return ""
	}
	return " --db " + plain.ShellWord(plain.Databases(a.db))
}

const noVerdict = "the two sessions ran one after the other, so a drift of the path would look the same; " +
	"put both settings into one linerate run (at least 6 blocks)"

func medianText(d *summary) string {
	if d == nil {
		return "-"
	}
	return units.BitRate(d.Median).String()
}

func countText(d *summary) string {
	if d == nil {
		return "-"
	}
	return fmt.Sprint(d.N)
}

// compareRows joins the results of two sessions by setting and direction.
func compareRows(sa, sb model.Session) []compareRow {
	rows := []compareRow{}
	seen := map[string]bool{}
	for _, s := range append(slices.Clone(sa.Plan.Settings), sb.Plan.Settings...) {
		if seen[s.Name] || s.Name == sa.Plan.Twin || s.Name == sb.Plan.Twin {
			continue
		}
		seen[s.Name] = true
		for _, d := range []model.Direction{model.To, model.From} {
			r := compareRow{Setting: s.Name, Direction: d, A: describe(sa, s.Name, d), B: describe(sb, s.Name, d)}
			if r.A == nil && r.B == nil {
				continue
			}
			if r.A != nil && r.B != nil && r.A.Median > 0 {
				q := r.B.Median / r.A.Median
				change := 100 * (r.B.Median - r.A.Median) / r.A.Median
				r.Ratio, r.Change = &q, &change
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// describe summarises the valid runs of one setting; nil if there are none.
func describe(s model.Session, setting string, d model.Direction) *summary {
	var values []float64
	for _, r := range s.Runs {
		if v, ok := r.Value(d, model.Goodput); ok && r.State == model.RunValid && r.Setting == setting {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return nil
	}
	out := summary(stats.Describe(values))
	return &out
}
