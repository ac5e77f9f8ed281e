package archtest

import (
	"go/ast"
	"path/filepath"
	"testing"

	"linerate/internal/must"
)

// TestOneCatalogue: a process builds the catalogue of settings once, and hands it on.
func TestOneCatalogue(t *testing.T) {
	const builder = "internal/ui/cli/cli.go"
	calls := 0
	for path, f := range parseFolder(t, "internal") {
		name := must.Get(filepath.Rel(module, path))(t)
		name = filepath.ToSlash(name)
		ast.Inspect(f, func(n ast.Node) bool {
			if e, ok := n.(*ast.SelectorExpr); !ok || selector(e) != "knob.NewIndex" {
				return true
			}
			if calls++; name != builder {
				t.Errorf("%s builds a catalogue of its own: take the one that %s hands on", name, builder)
			}
			return true
		})
	}
	must.True(t, calls == 1, "%d places build the catalogue, want %s alone", calls, builder)
}
