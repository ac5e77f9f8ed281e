// Command site converts linerate's documents to a folder of pages that need no network: one for
// each text, in the style of the reports, for light and dark mode.
package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

//go:embed page.tmpl
var pageText string

func main() {
	tree, out := flag.String("tree", "..", "the source"), flag.String("out", "", "folder of the pages; it must be new or empty")
	flag.Parse()
	if err := makeSite(*tree, *out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Println("site:", filepath.Join(*out, "index.html"))
}

// site is the state of all pages during the conversion.
type site struct {
	tree, out string
	pages     map[string]string // from a text in the source to its page
	titles    map[string]string
	copies    map[string]bool // linked files, copied beside the pages
}

// makeSite writes all pages to out.
func makeSite(tree, out string) error {
	if out == "" {
		return fmt.Errorf("-out: want the folder of the pages")
	}
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		return fmt.Errorf("-out %s: has files already; pages are made into an empty folder", out)
	}
	s := &site{tree: tree, out: out, pages: map[string]string{"README.md": "index.html"}, titles: map[string]string{}, copies: map[string]bool{}}
	for _, name := range []string{"CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md"} {
		s.pages[name] = strings.ToLower(strings.TrimSuffix(name, ".md")) + ".html"
	}
	err := filepath.WalkDir(filepath.Join(tree, "docs"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".md" {
			return err
		}
		name, err := filepath.Rel(tree, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		s.pages[name] = strings.TrimSuffix(strings.TrimPrefix(name, "docs/"), ".md") + ".html"
		return nil
	})
	if err != nil {
		return err
	}
	sources := map[string][]byte{}
	for name := range s.pages {
		if sources[name], err = os.ReadFile(filepath.Join(tree, name)); err != nil {
			return err
		}
		s.titles[name] = title(sources[name], name)
	}
	for name, source := range sources {
		if err := s.page(name, source); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name := range s.copies {
		b, err := os.ReadFile(filepath.Join(tree, name))
		if err != nil {
			return err
		}
		if err := s.write(strings.TrimPrefix(name, "docs/"), b); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) write(name string, b []byte) error {
	file := filepath.Join(s.out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644) //nolint:gosec // pages are for everybody
}

// title returns the first heading of a text.
func title(source []byte, name string) string {
	for line := range strings.Lines(string(source)) {
		if head, ok := strings.CutPrefix(line, "# "); ok {
			return strings.TrimSpace(strings.ReplaceAll(head, "`", ""))
		}
	}
	return name
}

// entry is a page in the table of contents.
type entry struct {
	Title, Link string
	Here        bool
}

// page writes one text as a page.
func (s *site) page(name string, source []byte) error {
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	doc := md.Parser().Parse(text.NewReader(source))
	if err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = []byte(s.link(name, string(n.Destination)))
		case *ast.Image:
			n.Destination = []byte(s.link(name, string(n.Destination)))
		}
		return ast.WalkContinue, nil
	}); err != nil {
		return err
	}
	var body bytes.Buffer
	if err := md.Renderer().Render(&body, source, doc); err != nil {
		return err
	}
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	err = t.Execute(&b, struct {
		Title string
		Pages []entry
		Body  template.HTML
	}{s.titles[name], s.contents(name), template.HTML(body.String())}) //nolint:gosec // goldmark passes no HTML of a text
	if err != nil {
		return err
	}
	return s.write(s.pages[name], b.Bytes())
}

// contents returns links from one page to all pages: the guides in reading order, then the
// rest.
func (s *site) contents(from string) []entry {
	first := []string{"README.md", "docs/start.md", "docs/manual.md", "docs/hosts.md", "docs/measure.md", "docs/find-the-limit.md", "docs/tune.md", "docs/settings.md", "docs/permanent.md", "docs/experiments.md", "docs/servers.md", "docs/results.md"}
	names := slices.Clone(first)
	var rest []string
	for name := range s.pages {
		if !slices.Contains(first, name) {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	var out []entry
	for _, name := range append(names, rest...) {
		if _, is := s.pages[name]; is {
			out = append(out, entry{s.titles[name], relative(s.pages[from], s.pages[name]), name == from})
		}
	}
	return out
}

// link returns the target on a page of a link in a text: another page, a copied file, or the
// original target. A file of the source that is neither is not copied, and its link is its name
// in the source.
func (s *site) link(from, to string) string {
	file, anchor, _ := strings.Cut(to, "#")
	if file == "" || strings.Contains(file, "://") || strings.HasPrefix(file, "mailto:") {
		return to
	}
	if anchor != "" {
		anchor = "#" + anchor
	}
	target := path.Join(path.Dir(from), file)
	if page, ok := s.pages[target]; ok {
		return relative(s.pages[from], page) + anchor
	}
	if info, err := os.Stat(filepath.Join(s.tree, target)); err == nil && info.Mode().IsRegular() && !strings.HasPrefix(target, "..") {
		s.copies[target] = true
		return relative(s.pages[from], strings.TrimPrefix(target, "docs/")) + anchor
	}
	return to
}

// relative returns the link from one page to another.
func relative(from, to string) string {
	return strings.Repeat("../", strings.Count(from, "/")) + to
}
