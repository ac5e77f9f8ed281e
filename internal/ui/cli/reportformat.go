package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/report"
	"linerate/internal/report/figures"
	"linerate/internal/report/format"
	"linerate/internal/report/html"
	"linerate/internal/report/plot"
	"linerate/internal/report/raster"
	"linerate/internal/report/term"
	"linerate/internal/store/archive"
)

// storedReport is a stored session with its report, from which every format is made.
type storedReport struct {
	session model.Session
	doc     report.Document
	samples *sampleReader
	answer  []string // of a search for settings, which the report of its runs lacks; else nil
	brief   []string // the same in one line, for a ticket
	figures []plot.Figure
	beside  []figures.Swept // of --beside
	archive []byte          // with all samples, if they are too many for JSON; else nil
}

// samplesInJSON is how many samples a page's JSON has at most, about 4 MB. More go into an
// archive beside it, at two bytes each.
const samplesInJSON = 20_000

// runsInJSON is up to how many runs a page's JSON includes the reports of both ends: about 13 MB.
const runsInJSON = 1_000

// readWith makes the report of s from st, with the curves of the sessions beside.
func (a *console) readWith(ctx context.Context, st results, s model.Session, page bool, beside ...string) (storedReport, error) {
	t, err := a.readReport(ctx, st, s, page)
	if err != nil || len(beside) == 0 {
		return t, err
	}
	t.beside = append(t.beside, figures.Swept{Session: s, Document: t.doc})
	for _, ref := range beside {
		other, err := find(ctx, st, ref)
		if err != nil {
			return t, err
		}
		t.beside = append(t.beside, figures.Swept{Session: other, Document: report.Build(other, report.Options{Kinds: a.kinds(), Catalogue: a.knobs, Store: a.ownStore()})})
	}
	for _, one := range t.beside {
		if !one.Curves() {
			return t, fault.WithHint(fault.Usagef("--beside: session %s holds no curve over message sizes", one.Session.ID), "name sessions of linerate sweep")
		}
	}
	t.beside = t.beside[1:]
	t.figures = figures.With(s, t.doc, t.samples, t.beside)
	return t, nil
}

// readReport makes the report of s from st; for a page, with the archive of samples if they are too
// many for its JSON.
func (a *console) readReport(ctx context.Context, st results, s model.Session, page bool) (storedReport, error) {
	samples := &sampleReader{ctx: ctx, st: st, id: s.ID}
	t := storedReport{session: s, samples: samples, doc: report.Build(s, report.Options{Samples: samples, Kinds: a.kinds(), Catalogue: a.knobs, Store: a.ownStore()})}
	if s.Kind == model.KindTune {
		if found, rec, ok, err := tunedOf(ctx, st, s); err == nil && ok {
			t.doc.Measured, t.brief = found.Measured, append([]string{found.Headline}, found.Gains...)
			t.doc.Next = slices.Concat(nextSteps(found, rec, s), t.doc.Next)
			t.answer = slices.Concat([]string{found.Headline}, found.Gains, found.Queues, found.Short, found.Front, found.Plan, found.Rest)
		}
	}
	t.figures = figures.Of(s, t.doc, samples)
	if !page || len(s.Runs) <= runsInJSON && !samples.more(s.Runs, samplesInJSON) {
		return t, samples.err
	}
	var b bytes.Buffer
	err := archive.Write(ctx, &b, st, []string{s.ID})
	t.archive = b.Bytes()
	return t, cmp.Or(err, samples.err)
}

// reportFormat is an output format of report.
type reportFormat struct {
	name   string
	suffix string // of its file
	page   bool   // for a viewer: it gets a file of its own if no name is given
	render func(io.Writer, storedReport) error
}

func formats() []reportFormat {
	return []reportFormat{
		{"html", ".html", true, htmlPage},
		{"markdown", ".md", false, func(w io.Writer, t storedReport) error {
			return format.Markdown(w, format.MarkdownInput{Session: t.session, Document: t.doc, Answer: t.answer})
		}},
		{"csv", ".csv", false, func(w io.Writer, t storedReport) error { return format.CSV(w, t.session, t.doc, t.samples) }},
		{"openmetrics", ".prom", false, func(w io.Writer, t storedReport) error { return format.OpenMetrics(w, t.session, t.doc) }},
		{"flent", ".flent", false, func(w io.Writer, t storedReport) error { return format.Flent(w, t.session, t.doc, t.samples) }},
		{"benchstat", ".txt", false, func(w io.Writer, t storedReport) error { return format.GoBench(w, t.session, t.doc) }},
		{"json", ".json", false, func(w io.Writer, t storedReport) error {
			return format.JSON(w, t.session, t.doc, format.JSONOptions{Full: true, Samples: t.samples})
		}},
	}
}

// flentPacked is the format flent, compressed with gzip as by Flent itself.
func flentPacked(w io.Writer, t storedReport) error {
	return format.FlentPacked(w, t.session, t.doc, t.samples)
}

func reportFormats() []string {
	names := lists.Each(formats(), func(f reportFormat) string { return f.name })
	return names
}

// formatOf returns the format with this name.
func formatOf(name string) (reportFormat, error) {
	for _, f := range formats() {
		if f.name == name || f.name == "markdown" && name == "md" {
			return f, nil
		}
	}
	return reportFormat{}, fault.WithHint(fault.Usagef("%.40q is no format of reports", name), "%sthere are %s", meantWord(name, reportFormats()), strings.Join(reportFormats(), ", "))
}

// htmlPage is the page of a session, with its text and all its data.
func htmlPage(w io.Writer, t storedReport) error {
	var text, data bytes.Buffer
	if err := term.Render(&text, t.doc, term.Options{Width: 80, Details: true}); err != nil {
		return err
	}
	o, what := format.JSONOptions{Full: true, Samples: t.samples}, "all data of this session, as JSON"
	if t.archive != nil {
		o, what = format.JSONOptions{Full: len(t.session.Runs) <= runsInJSON}, "the results of this session, as JSON"
	}
	if err := format.JSON(&data, t.session, t.doc, o); err != nil {
		return err
	}
	name := "linerate-" + t.session.ID
	attached := []html.File{{Name: name + ".json", Kind: "application/json", What: what, Content: data.Bytes()}}
	if t.archive != nil {
		attached = append(attached, html.File{
			Name: name + ".linerate", Kind: "application/octet-stream", Content: t.archive,
			What: "all its samples too, as an archive that linerate import reads",
		})
	}
	return html.Render(w, html.Input{Session: t.session, Document: t.doc, Samples: t.samples, Beside: t.beside, Answer: t.answer, Text: text.String(), Attached: attached})
}

// ticketWidth is the layout width of a ticket's picture, ticketMost the pixels of its longer
// side: the size that trackers show without shrinking.
const (
	ticketWidth = 800
	ticketMost  = 1200
)

// ticketPicture returns the picture of a ticket, by the suffix of its file; none if the session
// has no pictures.
func (t storedReport) ticketPicture() (map[string][]byte, error) {
	f, ok := format.TicketPicture(t.figures)
	if !ok {
		return nil, nil
	}
	var png bytes.Buffer
	if err := raster.PNG(&png, f, ticketWidth, ticketMost); err != nil {
		return nil, err
	}
	return map[string][]byte{".svg": []byte(f.SVG(ticketWidth)), ".png": png.Bytes()}, nil
}

// write writes a file with render, and replaces one only if requested. A report that fails
// replaces nothing, and leaves no new file.
func (f reportFlags) write(path string, render func(io.Writer) error) error {
	to := &lateFile{path: path, force: f.force}
	err := buffered(to, render)
	if to.file != nil {
		err = errors.Join(err, to.file.Close())
		if err != nil && !f.force {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return unwritable(err)
}

// lateFile is a file that is opened at the first write.
type lateFile struct {
	path  string
	force bool     // replace an existing file
	file  *os.File // nil before the first write
}

func (l *lateFile) Write(b []byte) (n int, err error) {
	switch {
	case l.file != nil:
	case l.force:
		l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	default:
		l.file, err = newFile(l.path)
	}
	if err != nil {
		return 0, err
	}
	return l.file.Write(b)
}

// buffered renders to w in pieces of 64 KiB. If render fails, the last piece is not written.
func buffered(w io.Writer, render func(io.Writer) error) error {
	b := bufio.NewWriterSize(w, 64<<10)
	if err := render(b); err != nil {
		return err
	}
	return b.Flush()
}

// content renders the bytes b.
func content(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// unwritable adds a hint if a place may not be written.
func unwritable(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return fault.WithHint(err, "name a file in a folder that exists and that you may write: --output FILE")
	}
	return err
}

// writeSame is write for names that linerate chooses: an identical file is not an error.
func (f reportFlags) writeSame(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return f.write(path, content(text))
}

// replaceWhole replaces a file, or creates it, atomically: a reader sees the old or the new one
// (rename(2)).
func replaceWhole(path string, render func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".linerate-*")
	if err != nil {
		return unwritable(err)
	}
	defer os.Remove(f.Name()) // gone after the rename
	err = errors.Join(buffered(f, render), f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
