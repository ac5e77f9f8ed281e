package archtest

import (
	"go/ast"
	"path/filepath"
	"slices"
	"testing"

	"linerate/internal/core/candidate"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

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
