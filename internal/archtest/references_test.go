package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/core/candidate"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// module is the root of the module, seen from this package.
const module = "../.."

// A reference is a text of docs/reference with the sections of it that are
// meant, as in "statistics.md sections 4.4, 6.1 and 6.2".
var (
	reference = regexp.MustCompile(`\b(statistics|diagnosis|knobs|wire-protocols)\.md(?:[,:]? (?:sections?|rules?) ((?:[0-9]+(?:\.[0-9]+)*[a-z]?|B[0-9]{2})(?:(?:,| and| to)? (?:[0-9]+(?:\.[0-9]+)*[a-z]?|B[0-9]{2})\b)*))?`)
	section   = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)*[a-z]?|B[0-9]{2}`)
	heading   = regexp.MustCompile(`(?m)^#+ ([0-9]+(?:\.[0-9]+)*[a-z]?)[. ]`)
	ruleRow   = regexp.MustCompile(`(?m)^\| (B[0-9]{2}) \|`)
	rule      = regexp.MustCompile(`"(B[0-9]{2})"|\brules? (B[0-9]{2})\b`)
	comment   = regexp.MustCompile(`\n\t*// ?`)
	link      = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// sectionsOf returns the numbers of the sections and rules of a text.
func sectionsOf(t *testing.T, name string) map[string]bool {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(module, "docs", "reference", name+".md")))(t)
	found := map[string]bool{}
	for _, expr := range []*regexp.Regexp{heading, ruleRow} {
		for _, m := range expr.FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
	}
	// Some sections have numbered rules of their own, such as 5.3, rule 4.
	return found
}

// texts calls f with every file of the module that people read and wrote.
func texts(t *testing.T, f func(path, text string)) {
	t.Helper()
	must.Do(t, filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != module && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin"): // such as a GOPATH
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".md"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err == nil {
			f(path, string(b))
		}
		return err
	}))
}

// TestReferences demands that everything the code, the help and the documents
// refer to is there: sections and rules of docs/reference, and linked files.
func TestReferences(t *testing.T) {
	have := map[string]map[string]bool{}
	for _, name := range []string{"statistics", "diagnosis", "knobs", "wire-protocols"} {
		have[name] = sectionsOf(t, name)
		must.Need(t, len(have[name]) >= 8, "%s: only %d sections found", name, len(have[name]))
	}
	seen := 0
	texts(t, func(path, text string) {
		text = comment.ReplaceAllString(text, " ") // a reference may be broken over two lines
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			seen++
			for _, s := range section.FindAllString(m[2], -1) {
				must.True(t, have[m[1]][s], "%s: %s: there is no %s in docs/reference/%s.md", path, m[0], s, m[1])
			}
		}
		if strings.HasSuffix(path, ".go") && !strings.Contains(path, "archtest") {
			for _, m := range rule.FindAllStringSubmatch(text, -1) {
				id := m[1] + m[2]
				must.True(t, have["diagnosis"][id], "%s: rule %s is not in docs/reference/diagnosis.md", path, id)
			}
		}
		if strings.HasSuffix(path, ".md") {
			checkLinks(t, path, text)
		}
	})
	must.True(t, seen >= 60, "only %d references found: the test looks for the wrong thing", seen)
}

// checkLinks demands that the files which a document links are there.
func checkLinks(t *testing.T, path, text string) {
	t.Helper()
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		must.OK(t, must.Err(os.Stat(filepath.Join(filepath.Dir(path), m[1]))), "%s links %s", path, m[1])
	}
}

// TestOneCatalogue: a process builds the catalogue of settings once, and hands it on.
func TestOneCatalogue(t *testing.T) {
	builders := map[string]int{"internal/ui/cli/cli.go": 0, "internal/ui/agent/agent.go": 0} // one for each program
	for path, f := range parseFolder(t, "internal") {
		name := must.Get(filepath.Rel(module, path))(t)
		name = filepath.ToSlash(name)
		ast.Inspect(f, func(n ast.Node) bool {
			if e, ok := n.(*ast.SelectorExpr); !ok || selector(e) != "knob.NewIndex" {
				return true
			}
			_, ok := builders[name]
			must.True(t, ok, "%s builds a catalogue of its own: take the one that %v hand on", name, builders)
			builders[name]++
			return true
		})
	}
	for name, calls := range builders {
		must.True(t, calls == 1, "%s builds %d catalogues", name, calls)
	}
}

// TestProposedSettingsExist: whatever is proposed to a user is in the catalogue,
// or a setting of the test itself.
func TestProposedSettingsExist(t *testing.T) {
	flow := []model.KnobID{"window", "streams"}
	for _, id := range slices.Concat(candidate.Knobs(), candidate.GoalKnobs(), candidate.RestKnobs()) {
		_, ok := knob.NewIndex().ByID(id)
		must.True(t, ok || slices.Contains(flow, id), "%s is proposed and not in the catalogue", id)
	}
}

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

// wiring is the one file of the command line that knows the packages which
// measure and change: it hands them to the use cases.
const wiring = "wire.go"

// TestCommandLineIsThin: the command line reaches hosts through internal/app.
func TestCommandLineIsThin(t *testing.T) {
	hands := []string{"internal/host", "internal/measure", "internal/control"}
	wired := false
	for path, f := range parseFolder(t, "internal/ui/cli") {
		name := filepath.Base(path)
		for _, i := range f.Imports {
			own, ok := strings.CutPrefix(importPath(i), "linerate/")
			if !ok || !withinAny(own, hands) {
				continue
			}
			must.True(t, name == wiring, "internal/ui/cli/%s imports %s: the use case belongs in internal/app", name, own)
			wired = true
		}
	}
	must.True(t, wired, "internal/ui/cli/%s imports none of them: the test looks in the wrong place", wiring)
}

// TestUseCasesDoNotPrint: internal/app tells what happens as events, and asks
// through app.Asker.
func TestUseCasesDoNotPrint(t *testing.T) {
	forbidden := []string{
		"fmt.Print", "fmt.Printf", "fmt.Println", "fmt.Scan", "fmt.Scanf", "fmt.Scanln",
		"os.Stdin", "os.Stdout", "os.Stderr", "os.Exit", "os.Args", "signal.Notify", "signal.NotifyContext",
	}
	files := 0
	for path, f := range parseFolder(t, "internal/app") {
		files++
		for _, i := range f.Imports {
			p := importPath(i)
			must.True(t, !within(p, "golang.org/x/term") && !within(p, "github.com/spf13") && p != "log", "%s imports %s: a use case knows no terminal", path, p)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && slices.Contains(forbidden, selector(e)) {
				t.Errorf("%s uses %s: a use case tells an app.Observer and asks an app.Asker", path, selector(e))
			}
			if c, ok := n.(*ast.CallExpr); ok {
				id, ok := c.Fun.(*ast.Ident)
				must.True(t, !ok || id.Name != "print" && id.Name != "println", "%s uses print", path)
			}
			return true
		})
	}
	must.True(t, files >= 3, "only %d files found: the test looks in the wrong place", files)
}

// parseFolder parses the files of a folder and those below it, without tests.
func parseFolder(t *testing.T, folder string) map[string]*ast.File {
	t.Helper()
	root, set, files := filepath.Join(module, folder), token.NewFileSet(), map[string]*ast.File{}
	must.Do(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files[path], err = parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		return err
	}))
	return files
}

func importPath(i *ast.ImportSpec) string {
	path, err := strconv.Unquote(i.Path.Value)
	if err != nil {
		return ""
	}
	return path
}

// guarding are the folders whose code runs for the sessions of a server, where a
// panic in a goroutine would end all of them.
// or of a controller, whose hosts would be undone late.
var guarding = []string{
	"internal/measure", "internal/host/counters", "internal/host/canary", "internal/host/watchdog/client.go",
	"internal/control/agent", "internal/control/wire", "internal/control/runner",
}

// unguarded are the goroutines there that no guard is needed for, by file and
// function, and how many.
var unguarded = map[string]int{
	"internal/control/agent/run.go:prepare":          1, // guarded does the work, the rest closes a channel
	"internal/control/agent/measure.go:measure":      1, // the same
	"internal/measure/tcpbulk/run.go:launch":         1, // waits and says so
	"internal/measure/reqresp/run.go:launch":         1, // the same
	"internal/measure/iperf2/peer/pace.go:pace":      1, // the same
	"internal/measure/iperf3/peer/udptest.go:launch": 1, // the same
	"internal/measure/netpipe/queue.go:add":          1, // tells an event
	"internal/control/wire/wire.go:Join":             1, // waits and says so
}

// TestGoroutinesAreGuarded: every goroutine that is started for a session turns a
// panic into an error, by package panics, accept.Guard or agent.guarded.
func TestGoroutinesAreGuarded(t *testing.T) {
	found := map[string]int{}
	for _, folder := range guarding {
		packages := map[string][]string{}
		must.Do(t, filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, d fs.DirEntry, err error) error {
			test := strings.HasSuffix(path, "_test.go")
			for _, helper := range []string{"enginetest", "agenttest", "accepttest", "wiretest", "sshtest"} {
				test = test || filepath.Base(filepath.Dir(path)) == helper
			}
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") && !test {
				packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], path)
			}
			return err
		}))
		for _, files := range packages {
			for where, n := range bareGoroutines(t, files) {
				found[where] += n
			}
		}
	}
	for where, n := range found {
		must.True(t, n == unguarded[where], "%s starts %d goroutines whose panic ends the process, %d are known: use package panics", where, n, unguarded[where])
	}
	for where, n := range unguarded {
		must.Equal(t, found[where], n, "%s: %d unguarded goroutines are listed, it has", where, n)
	}
}

// bareGoroutines counts the goroutines of a package that nothing guards, by file
// and function.
func bareGoroutines(t *testing.T, files []string) map[string]int {
	t.Helper()
	set := token.NewFileSet()
	found := map[string]int{}
	for _, name := range files {
		f := must.Get(parser.ParseFile(set, name, nil, parser.SkipObjectResolution))(t)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			file := strings.TrimPrefix(filepath.ToSlash(set.Position(fn.Pos()).Filename), "../../")
			groups := map[string]bool{}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if v, ok := n.(*ast.ValueSpec); ok && selector(v.Type) == "panics.Group" {
					groups[v.Names[0].Name] = true
				}
				if starts(n, groups) {
					found[fmt.Sprintf("%s:%s", file, fn.Name.Name)]++
				}
				return true
			})
		}
	}
	return found
}

// starts reports whether n starts a goroutine that nothing guards; groups are the
// variables of type panics.Group.
func starts(n ast.Node, groups map[string]bool) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return !guarded(n.Call)
	case *ast.CallExpr:
		s, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "Go" || len(n.Args) != 1 {
			return false
		}
		if x, ok := s.X.(*ast.Ident); ok && groups[x.Name] {
			return false
		}
		return !guarded(n.Args[0])
	default:
		return false
	}
}

// guarded reports whether a guard is called in the expression.
func guarded(e ast.Node) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			found = found || slices.Contains([]string{"panics.From", "panics.Call", "accept.Guard"}, selector(c.Fun))
		}
		return !found
	})
	return found
}

// selector is "package.Name" for such an expression.
func selector(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + s.Sel.Name
}
