package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"linerate/internal/core/model"
	"linerate/internal/report"
	"linerate/internal/report/figures"
	"linerate/internal/report/html"
	reportjson "linerate/internal/report/json"
	"linerate/internal/report/plot"
	"linerate/internal/report/term"
)

// reportFlags are those of the command report.
type reportFlags struct {
	output   string
	pictures string
	force    bool
}

func (a *console) reportCommand() *cobra.Command {
	var f reportFlags
	c := &cobra.Command{
		Use: "report ID", Short: "a session as a page to look at, keep and send",
		Long: `report writes a session as one HTML page that needs no network and no script:
the answer first, then the verdicts, pictures, findings, what was changed and put
back, the facts of both ends side by side, how it was measured, and all data.

It writes linerate-ID.html into this folder, unless --output names another file,
or - for standard output. --pictures writes each picture as an SVG file of its
own. Files that exist are replaced only with --force. ID is as for show.`,
		Example: "  linerate report last\n  linerate report last --output nas.html --pictures pictures",
		Args:    exactArgs("a session's ID"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.writeReport(cmd.Context(), args[0], f) },
	}
	c.Flags().StringVarP(&f.output, "output", "o", "", "the page's file, - for standard output (default: linerate-ID.html)")
	c.Flags().StringVar(&f.pictures, "pictures", "", "a folder for the pictures as SVG files")
	c.Flags().BoolVar(&f.force, "force", false, "replace files that exist")
	return c
}

// reportDoc is linerate/report/v1: what was written.
type reportDoc struct {
	Session string   `json:"session"`
	Files   []string `json:"files"`
}

func (a *console) writeReport(ctx context.Context, ref string, f reportFlags) error {
	if f.output == "-" && a.json {
		return usagef("--output - and --json both write to standard output: name a file")
	}
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	s, err := find(ctx, st, ref)
	if err != nil {
		return err
	}
	samples, err := samplesOf(ctx, st, s)
	if err != nil {
		return err
	}
	doc := report.Build(s, report.Options{Samples: samples, Kinds: a.kinds(), Catalogue: a.knobs})
	page, err := htmlPage(s, doc, samples)
	if err != nil {
		return err
	}
	if f.output == "-" {
		_, err := a.Out.Write(page)
		return err
	}
	out := reportDoc{Session: s.ID}
	if f.output == "" {
		f.output = "linerate-" + s.ID + ".html"
	}
	if err := f.write(f.output, page); err != nil {
		return err
	}
	out.Files = append(out.Files, f.output)
	if f.pictures != "" {
		if err := os.MkdirAll(f.pictures, 0o755); err != nil {
			return fmt.Errorf("folder for pictures: %w", err)
		}
		for _, x := range figures.Of(s, doc, samples) {
			path := filepath.Join(f.pictures, x.Name+".svg")
			if err := f.write(path, []byte(x.SVG(plot.File))); err != nil {
				return err
			}
			out.Files = append(out.Files, path)
		}
	}
	if a.json {
		return a.document("linerate/report/v1", out)
	}
	for _, path := range out.Files {
		fmt.Fprintln(a.Out, path)
	}
	return nil
}

// htmlPage is the page of a session, with its text and all its data.
func htmlPage(s model.Session, doc report.Document, samples map[int][]model.Sample) ([]byte, error) {
	var text, data, page bytes.Buffer
	if err := term.Render(&text, doc, term.Options{Width: 80}); err != nil {
		return nil, err
	}
	if err := reportjson.Render(&data, s, doc, reportjson.Options{Full: true, Samples: samples}); err != nil {
		return nil, err
	}
	in := html.Input{Session: s, Document: doc, Samples: samples, Text: text.String(), JSON: data.Bytes()}
	if err := html.Render(&page, in); err != nil {
		return nil, err
	}
	return page.Bytes(), nil
}

// write writes a file, and replaces one only where that was asked for.
func (f reportFlags) write(path string, content []byte) error {
	if f.force {
		return os.WriteFile(path, content, 0o644) //nolint:gosec // a report is for others to read
	}
	return writeNew(path, content)
}
