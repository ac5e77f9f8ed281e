package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/must"
)

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
			if p := importPath(i); within(p, "golang.org/x/term") || within(p, "github.com/spf13") || p == "log" {
				t.Errorf("%s imports %s: a use case knows no terminal", path, p)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && slices.Contains(forbidden, selector(e)) {
				t.Errorf("%s uses %s: a use case tells an app.Observer and asks an app.Asker", path, selector(e))
			}
			if c, ok := n.(*ast.CallExpr); ok {
				if id, ok := c.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
					t.Errorf("%s uses %s", path, id.Name)
				}
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
