package cli

import (
	"fmt"

	"linerate/internal/app/here"
	"linerate/internal/core/model"
)

// undoAcknowledge is undo --acknowledge on this machine.
func (a *console) undoAcknowledge(state string) error {
	files, err := here.Acknowledge(a.Version, state)
	if err != nil {
		return here.UndoFault(err)
	}
	if a.json {
		return a.document("linerate/undo/v1", map[string]any{"changes": []model.Change{}, "acknowledged": append([]string{}, files...)})
	}
	if len(files) == 0 {
		fmt.Fprintln(a.Out, "nothing to acknowledge")
	}
	for _, path := range files {
		fmt.Fprintf(a.Out, "acknowledged, and kept as %s\n", path)
	}
	return nil
}
