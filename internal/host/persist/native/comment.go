package native

import (
	"fmt"
	"io/fs"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/host/files"
)

// header is the line that marks linerate's own files.
const header = "Written by linerate, not by hand."

// head returns the comment lines at the top of a file, without comment signs.
func (r *rendering) head() []string {
	lines := []string{header}
	for _, c := range r.in.Comments {
		if c := files.Comment(c); c != "" {
			lines = append(lines, c)
		}
	}
	return lines
}

// foot returns the comment lines at the end of the first file: notes and omissions.
func (r *rendering) foot() []string {
	lines := lists.Each(r.out.Notes, func(n string) string { return files.Comment("note: " + n) })
	for _, o := range r.out.Omitted {
		lines = append(lines, files.Comment(fmt.Sprintf("left out: %s %s: %s", o.Knob, o.Value, o.Reason)))
	}
	return lines
}

// about returns the description of an entry, for a comment above it.
func about(e *entry) string {
	s := string(e.knob.ID) + ": " + e.knob.Summary
	if v := e.knob.Format(e.value); v != e.value {
		s += " = " + v
	}
	return files.Comment(s)
}

// notes returns the catalogue's remark on the native setting.
func notes(e *entry) []string {
	if e.native.Note == "" {
		return nil
	}
	return []string{files.Comment(e.native.Note)}
}

// page is a file under construction.
type page struct {
	path   string
	mode   fs.FileMode
	block  bool                // see File.Block
	remark func(string) string // turns a line into a comment
	eol    string
	encode func(string) []byte // nil means UTF-8
	b      strings.Builder
}

// page starts a file with comments in # style. Every file starts with comments that say where
// it comes from.
func (r *rendering) page(path string) *page {
	p := &page{path: path, mode: 0o644, eol: "\n", remark: func(s string) string { return "# " + s }}
	r.pages = append(r.pages, p)
	return p
}

func (p *page) line(format string, args ...any) {
	fmt.Fprintf(&p.b, format, args...)
	p.b.WriteString(p.eol)
}

func (p *page) blank() { p.b.WriteString(p.eol) }

func (p *page) comments(lines ...string) {
	for _, l := range lines {
		p.b.WriteString(p.remark(l) + p.eol)
	}
}

// entry writes the comments above a setting.
func (p *page) entry(entries ...*entry) {
	for _, e := range entries {
		p.comments(about(e))
		p.comments(notes(e)...)
	}
}

// finish turns the pages into files. The first one ends with what no file contains.
func (r *rendering) finish() {
	for _, e := range r.entries {
		if !e.used {
			r.omit(e, "this format has no place for %s", e.name)
		}
	}
	if foot := r.foot(); len(foot) > 0 {
		switch {
		case len(r.out.Files) > 0:
			r.out.Files[0].Content = appendComments(r.out.Files[0], foot)
		case len(r.pages) > 0:
			r.pages[0].blank()
			r.pages[0].comments(foot...)
		}
	}
	for _, p := range r.pages {
		text := p.b.String()
		if p.block {
			text = files.BlockBegin + "\n" + text + files.BlockEnd + "\n"
		}
		f := files.File{Path: p.path, Mode: p.mode, Block: p.block, Content: []byte(text)}
		if p.encode != nil {
			f.Content = p.encode(text)
		}
		r.out.Files = append(r.out.Files, f)
	}
	r.pages = nil
}

// appendComments puts comments at the end of a file that a format exported.
func appendComments(f files.File, lines []string) []byte {
	text, end := string(f.Content), ""
	if f.Block {
		text, end = strings.TrimSuffix(text, files.BlockEnd+"\n"), files.BlockEnd+"\n"
	}
	return []byte(text + "\n# " + strings.Join(lines, "\n# ") + "\n" + end)
}
