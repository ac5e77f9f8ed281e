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
	doc := report.Build(s, report.Options{Samples: samples, Kinds: a.kinds(), Catalogue: a.knobs, Store: a.ownStore()})
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

// storeFlag returns the --db flag for a suggested command if this one has it, with a leading
// blank.
func (a *console) storeFlag() string {
	if db := a.ownStore(); db != "" {
		return " --db " + plain.ShellWord(db)
	}
	return ""
}

// ownStore returns the database that --db names, without its password; "" for none that lasts.
func (a *console) ownStore() string {
	if a.db == ":memory:" {
		return ""
	}
	return plain.Databases(a.db)
}
