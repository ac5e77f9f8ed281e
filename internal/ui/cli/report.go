package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/fault"
	"linerate/internal/report/format"
	"linerate/internal/report/plot"
	"linerate/internal/ui/opener"
)

// reportFlags are those of the command report.
type reportFlags struct {
	output   string
	pictures string
	format   string
	textfile string
	beside   []string
	force    bool
	open     bool
	ticket   bool
}

func (a *console) reportCommand() *cobra.Command {
	var f reportFlags
	c := &cobra.Command{
		Use: "report ID", Short: "a session as a page to look at, keep and send",
		Long: `report writes a session as one HTML page that needs no network and no script:
the answer first, then the verdicts, pictures, findings, what was changed and put
back, the facts of both ends side by side, how it was measured, and all data.

It writes linerate-ID.html into this folder, unless --output names another file,
or - for standard output. --open shows it. --pictures writes each picture as an
SVG file of its own. Files that exist are replaced only with --force. ID is as
for show. --beside draws the curves of other sweeps into the picture of this one, each
named by what was set or by its card, in a part for each far host.

--ticket prints at most 12 plain lines to paste anywhere, and writes the picture
that says most as linerate-ID.svg and linerate-ID.png, into --pictures or this
folder.

--format writes something else, to standard output unless --output names a file:
  markdown     the report for wikis and merge requests
  csv          one long table of all numbers of the runs and all samples
  openmetrics  gauges for Prometheus
  flent        a data file of Flent 2; packed where its name ends in .gz
  benchstat    lines of Go benchmarks, one a run
  json         the whole session with its samples

--textfile puts OpenMetrics where the textfile collector of node_exporter reads
them: whole, by renaming, in place of the file before.`,
		Example: "  linerate report last --open\n  linerate report last --ticket\n  linerate report last --output nas.html --pictures pictures\n" +
			"  linerate report last --format csv --output nas.csv\n  linerate report last --textfile /var/lib/node_exporter/nas.prom",
		Args: exactArgs("a session's ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := f.check(a.json, cmd.Flags().Changed("format"))
			if err != nil {
				return err
			}
			return a.writeReport(cmd.Context(), args[0], f, format)
		},
	}
	c.Flags().StringVarP(&f.output, "output", "o", "", "the file, - for standard output (default: linerate-ID.html)")
	c.Flags().StringVar(&f.format, "format", "html", "what to write: "+strings.Join(reportFormats(), ", "))
	c.Flags().BoolVar(&f.ticket, "ticket", false, "at most 12 lines to paste, and one picture as SVG and PNG")
	c.Flags().BoolVar(&f.open, "open", false, "show what was written")
	c.Flags().StringSliceVar(&f.beside, "beside", nil, "other sweeps, drawn into the same picture: as of several cards, settings or far hosts")
	c.Flags().StringVar(&f.pictures, "pictures", "", "a folder for the pictures as SVG files")
	c.Flags().StringVar(&f.textfile, "textfile", "", "OpenMetrics into this file, which ends in .prom, for node_exporter")
	c.Flags().BoolVar(&f.force, "force", false, "replace files that exist")
	return c
}

// check refuses flags that contradict each other, before anything is read.
func (f reportFlags) check(json, named bool) (reportFormat, error) {
	format, err := formatOf(f.format)
	switch {
	case err != nil:
		return format, err
	case f.ticket && (named || f.open || f.textfile != ""):
		return format, fault.Usagef("--ticket stands without --format, --open and --textfile: it is a format of its own")
	case f.textfile != "" && (named && f.format != "openmetrics" || f.output != "" || f.open):
		return format, fault.Usagef("--textfile is OpenMetrics into that file: leave out --format, --output and --open")
	case f.textfile != "" && filepath.Ext(f.textfile) != ".prom":
		return format, fault.WithHint(fault.Usagef("%.80q does not end in .prom, and node_exporter reads no other files", f.textfile), "name it linerate.prom, say")
	case f.open && (f.output == "-" || !format.page && f.output == ""):
		return format, fault.Usagef("--open shows a file, and this goes to standard output: name one with --output")
	case json && f.output == "-":
		return format, fault.Usagef("--output - and --json both write to standard output: name a file")
	case json && !f.ticket && f.textfile == "" && !format.page && f.output == "":
		return format, fault.Usagef("--format %s and --json both write to standard output: name a file with --output", format.name)
	}
	return format, nil
}

// reportDoc is linerate/report/v1: the files written.
type reportDoc struct {
	Session string   `json:"session"`
	Files   []string `json:"files"`
	Ticket  []string `json:"ticket,omitempty"` // the lines of --ticket
}

func (a *console) writeReport(ctx context.Context, ref string, f reportFlags, as reportFormat) error {
	st, s, err := a.openSession(ctx, ref)
	if err != nil {
		return err
	}
	defer st.Close()
	t, err := a.readWith(ctx, st, s, as.page && !f.ticket && f.textfile == "", f.beside...)
	if err != nil {
		return err
	}
	out := reportDoc{Session: t.session.ID, Files: []string{}}
	switch {
	case f.ticket:
		return a.writeTicket(t, f, out)
	case f.textfile != "":
		as, _ = formatOf("openmetrics")
	}
	if f.output == "" && as.page {
		f.output = "linerate-" + t.session.ID + as.suffix
	}
	if f.pictures != "" {
		if err := f.makeFolder(); err != nil {
			return err
		}
	}
	render := func(w io.Writer) error {
		write := as.render
		if as.name == "flent" && filepath.Ext(f.output) == ".gz" {
			write = flentPacked
		}
		return cmp.Or(write(w, t), t.samples.err)
	}
	switch {
	case f.textfile != "":
		err = replaceWhole(f.textfile, render)
		out.Files = append(out.Files, f.textfile)
	case f.output == "-" || f.output == "":
		err = buffered(a.Out, render)
	default:
		err = f.write(f.output, render)
		out.Files = append(out.Files, f.output)
	}
	if errors.Is(err, format.ErrNoFlent) {
		return fault.WithHint(err, "Flent shows TCP and UDP over time: take a session of linerate test, or --format csv")
	}
	if err != nil {
		return err
	}
	if f.pictures != "" {
		for _, x := range t.figures {
			path := filepath.Join(f.pictures, x.Name+".svg")
			if err := f.write(path, content([]byte(x.SVG(plot.File)))); err != nil {
				return err
			}
			out.Files = append(out.Files, path)
		}
	}
	return errors.Join(a.wrote(out, f.output == "-" || f.output == "" && f.textfile == ""), a.openFile(ctx, f))
}

// makeFolder makes the folder for pictures.
func (f reportFlags) makeFolder() error {
	if err := os.MkdirAll(f.pictures, 0o755); err != nil {
		return unwritable(fmt.Errorf("folder for pictures: %w", err))
	}
	return nil
}

// wrote lists the written files: on stderr if stdout has the report itself.
func (a *console) wrote(out reportDoc, beside bool) error {
	if a.json {
		return a.document("linerate/report/v1", out)
	}
	for _, path := range out.Files {
		if beside {
			a.talk("wrote %s", path)
		} else {
			fmt.Fprintln(a.Out, path)
		}
	}
	return nil
}

// openFile opens the written report, if requested.
func (a *console) openFile(ctx context.Context, f reportFlags) error {
	if !f.open {
		return nil
	}
	err := opener.Open(ctx, f.output, a.Getenv)
	if errors.Is(err, opener.ErrNone) {
		return fault.WithHint(fmt.Errorf("not opened: %w", err), "the file is written: look at it where there is a screen")
	}
	return fault.WithHint(err, "the file is written: open it by hand")
}

// writeTicket prints the lines to paste, and writes the picture that belongs to them.
func (a *console) writeTicket(t storedReport, f reportFlags, out reportDoc) error {
	out.Ticket = format.Ticket(format.TicketInput{Session: t.session, Document: t.doc, Answer: t.brief})
	text := []byte(strings.Join(out.Ticket, "\n") + "\n")
	pictures, err := t.ticketPicture()
	if err != nil {
		return err
	}
	if f.pictures != "" {
		if err := f.makeFolder(); err != nil {
			return err
		}
	}
	for _, suffix := range []string{".svg", ".png"} {
		if content, ok := pictures[suffix]; ok {
			path := filepath.Join(f.pictures, "linerate-"+t.session.ID+suffix)
			if err := f.writeSame(path, content); err != nil {
				return err
			}
			out.Files = append(out.Files, path)
		}
	}
	if f.output != "" && f.output != "-" {
		if err := f.write(f.output, content(text)); err != nil {
			return err
		}
		out.Files = append([]string{f.output}, out.Files...)
		return a.wrote(out, false)
	}
	if !a.json {
		if _, err := a.Out.Write(text); err != nil {
			return err
		}
	}
	return a.wrote(out, true)
}
