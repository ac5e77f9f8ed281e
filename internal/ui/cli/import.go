package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/report/importer"
	"linerate/internal/store"
)

// importFlags are those of the command import.
type importFlags struct {
	format   string
	columns  []string
	where    []string
	title    string
	baseline string
}

func (a *console) importCommand() *cobra.Command {
	var f importFlags
	var known []string
	var about strings.Builder
	about.WriteString("Formats, recognised from the file itself unless --format names one:\n")
	for _, x := range importer.Formats() {
		known = append(known, x.Name)
		fmt.Fprintf(&about, "  %-12s %s\n", x.Name, x.About)
	}
	c := &cobra.Command{
		Use: "import [SETTING=]FILE...", Short: "results of other programs, from their files; sessions of other machines",
		Long: `import keeps what other programs measured as one session for each kind of test,
which list, show, report and compare know like any other. Each file is a setting, by
its name or by the name before =. - is standard input.

` + about.String() + `
It describes what the files say, with changes against the first setting. It gives
a verdict only where a table says in which block each test was made, because
tests made one after the other cannot be told from a drift of the path; it says
what a sound repeat needs. If anything in a file is wrong, nothing is kept, but of a
log of several tests those that are whole; the lines of the others are named.

--column says what a column of a table is: ROLE=COLUMN[:UNIT][@SETTING], where
ROLE is one of ` + strings.Join(importer.Roles(), ", ") + `.
@SETTING is for tables with a column for each setting; {COLUMN} in it stands for
what is in that column, and so does {COLUMN} as UNIT. --where COLUMN=TEXT reads only
the lines with that text in that column. Where two columns make the setting, the
report has a map of both.

A file of linerate export --archive is known by itself: its sessions are kept under
their own names, with all their samples. Those that are here already are left as
they are, and listed. Of a damaged archive nothing is kept.`,
		Example: `  linerate import before=iperf3-1500.json after=iperf3-9000.json
  linerate import shares.csv --column direction=direction --column 'goodput=old:MB/s@before' --column 'goodput=new:MB/s@after'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if isArchive(name) && (len(args) > 1 || f.format+f.title+f.baseline != "" || len(f.columns)+len(f.where) > 0) {
					return fault.WithHint(fault.Usagef("%s is an archive of sessions, which are kept as they are", name), "import it alone, without flags")
				} else if isArchive(name) {
					return a.importArchive(cmd.Context(), name)
				}
			}
			return a.importFiles(cmd.Context(), args, f)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.format, "format", "", "what the files are, instead of telling it from them")
	fl.StringArrayVar(&f.columns, "column", nil, "what a column of a table is: ROLE=COLUMN[:UNIT][@SETTING]; may be given several times")
	fl.StringArrayVar(&f.where, "where", nil, "read only the lines of a table that have this: COLUMN=TEXT; may be given several times")
	a.bindDetails(fl)
	fl.StringVar(&f.title, "title", "", "name of the session")
	fl.StringVar(&f.baseline, "baseline", "", "setting to compare with (default: the first)")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp)) // fails only for an unknown flag
	return c
}

// importFiles reads all files before it stores anything.
func (a *console) importFiles(ctx context.Context, args []string, f importFlags) error {
	var o importer.Options
	for _, text := range f.columns {
		c, err := importer.ParseColumn(text)
		if err != nil {
			return fault.Usagef("--column: %w", err)
		}
		o.Columns = append(o.Columns, c)
	}
	for _, text := range f.where {
		w, err := importer.ParseWhere(text)
		if err != nil {
			return fault.Usagef("--where: %w", err)
		}
		o.Where = append(o.Where, w)
	}
	formats := lists.Each(importer.Formats(), func(x importer.Format) string { return x.Name })
	if err := oneOf("format", f.format, formats...); err != nil {
		return err
	}
	var files []importer.Named
	for _, arg := range args {
		one, err := a.importFile(arg, f.format, o)
		if err != nil {
			return err
		}
		files = append(files, one)
	}
	now := a.Now()
	var all []model.Session
	var samples []model.Samples
	kinds := importer.ByKind(files)
	for _, kind := range kinds {
		title := f.title
		if name := kind[0].File.Tests[0].Kind; len(kinds) > 1 && name != "" {
			title = strings.TrimSpace(f.title + " " + name)
		}
		s, of, err := importer.Session(kind, importer.About{
			ID: trial.NewSessionID(now), Title: title, Version: a.Version, Command: target.RedactAll(os.Args), Now: now, Baseline: f.baseline,
		})
		if err != nil {
			return fault.Usagef("%w", err)
		}
		all, samples = append(all, s), append(samples, of)
	}
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	for i, s := range all {
		if err := keepImported(ctx, st, s, samples[i]); err != nil {
			return err
		}
	}
	if a.json && len(all) > 1 {
		return a.listOf(ctx, st, all)
	}
	for i, s := range all {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		if err := a.report(ctx, st, s); err != nil {
			return err
		}
	}
	return nil
}

// listOf writes the list of some sessions.
func (a *console) listOf(ctx context.Context, st results, some []model.Session) error {
	items, err := st.Sessions(ctx, store.Filter{})
	if err != nil {
		return err
	}
	return a.printList(ctx, st, slices.DeleteFunc(items, func(i model.Item) bool {
		return !slices.ContainsFunc(some, func(s model.Session) bool { return s.ID == i.ID })
	}))
}

// keepImported stores a session with its samples, or nothing.
func keepImported(ctx context.Context, st results, s model.Session, samples model.Samples) (err error) {
	runs := s.Runs
	s.Runs = nil
	if err := st.CreateSession(ctx, s); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.Remove(context.WithoutCancel(ctx), s.ID))
		}
	}()
	for _, r := range runs {
		if err := st.AddRun(ctx, s.ID, r, samples.Of(r.Number), nil); err != nil {
			return err
		}
	}
	return st.UpdateSession(ctx, s)
}

// importFile reads one file.
func (a *console) importFile(arg, format string, o importer.Options) (importer.Named, error) {
	setting, path, named := strings.Cut(arg, "=")
	if !named {
		setting, path = "", arg
	} else if _, err := os.Stat(arg); err == nil { // a file with = in its name
		setting, path = "", arg
	}
	text, err := a.readAll(path)
	if err != nil {
		return importer.Named{}, fault.Usagef("%w", err)
	}
	got, err := importer.Read(format, text, o)
	switch {
	case errors.Is(err, importer.ErrUnknown):
		return importer.Named{}, fault.WithHint(fault.Usagef("%s: %w", path, err), "name its --format, or describe a table with --column; see linerate import --help")
	case err != nil:
		return importer.Named{}, fault.WithHint(fault.Usagef("%s: %w", path, err), "nothing was kept")
	}
	return importer.Named{Name: path, Setting: setting, File: got}, nil
}

// readAll reads a file, or standard input.
func (a *console) readAll(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(a.In, int64(importer.MaxBytes)+1))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(importer.MaxBytes)+1))
}
