package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/must"
)

// private are words that sound translated, or that only the authors would
// understand: a user reads the words of the field instead. Lanes are those of
// PCIe alone.
var private = regexp.MustCompile(`(?i)\b(whence|thence|thereof|therefrom|whereof|heed(s|ed|ing)?|slivers?|strangers?|dogs?|gives? \w+ \w+ free|whom (a|the) \w+ asks?)\b|\blanes?\b`)

// lanes says whether a text with lanes is about those of a bus.
var lanes = regexp.MustCompile(`(?i)PCI|\bbus\b|^lanes?$|\bcard\b`)

// privateWords returns the private words of a text that users read.
func privateWords(text string) []string {
	var out []string
	for _, w := range private.FindAllString(text, -1) {
		if !strings.HasPrefix(strings.ToLower(w), "lane") || !lanes.MatchString(text) {
			out = append(out, w)
		}
	}
	return out
}

func TestPrivateWords(t *testing.T) {
	for text, want := range map[string]int{
		"whence the settings come": 1, "seconds thereof": 1, "gives the lock free": 1, "whom a host asks": 1, "5 strangers heed": 2,
		"a lane of the test": 1, "lanes of PCIe, bits of PCI": 0, "watchdog": 0, "half duplex": 0, "the path": 0,
	} {
		must.Len(t, privateWords(text), want, "%q", text)
	}
}

// TestPlainWords: what is printed, what users read in the documents and what authors
// read in comments is in the field's words.
func TestPlainWords(t *testing.T) {
	texts(t, func(path, text string) {
		switch {
		case strings.HasSuffix(path, "_test.go") || strings.Contains(path, "archtest"):
		case strings.HasSuffix(path, ".md"):
			words := privateWords(text)
			must.True(t, len(words) == 0, "%s: %q: say it in the field's words", path, words)
		case strings.HasSuffix(path, ".go"):
			written(t, path, text, func(line int, literal string) {
				words := privateWords(literal)
				must.True(t, len(words) <= 0, "%s:%d: %q in %q: say it in the field's words", filepath.ToSlash(path), line, words, literal)
			})
		}
	})
}

// written calls f with every string literal and every comment of a Go file.
func written(t *testing.T, path, text string, f func(line int, literal string)) {
	t.Helper()
	set := token.NewFileSet()
	file := must.Get(parser.ParseFile(set, path, text, parser.SkipObjectResolution|parser.ParseComments))(t)
	for _, c := range file.Comments {
		f(set.Position(c.Pos()).Line, c.Text())
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil {
				f(set.Position(l.Pos()).Line, s)
			}
		}
		return true
	})
}
