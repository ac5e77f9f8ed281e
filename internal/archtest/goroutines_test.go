package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/must"
)

// guarding are the folders whose code runs for the sessions of a server, where a
// panic in a goroutine would end all of them.
// or of a controller, whose hosts would be undone late.
var guarding = []string{
	"internal/measure", "internal/host/watch", "internal/host/canary", "internal/host/watchdog/client.go",
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
// panic into an error, by package rescue, accept.Guard or agent.guarded.
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
		must.True(t, n == unguarded[where], "%s starts %d goroutines whose panic ends the process, %d are known: use package rescue", where, n, unguarded[where])
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
				if v, ok := n.(*ast.ValueSpec); ok && selector(v.Type) == "rescue.Group" {
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
// variables of type rescue.Group.
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
			found = found || slices.Contains([]string{"rescue.From", "rescue.Call", "accept.Guard"}, selector(c.Fun))
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
