package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"linerate/internal/app/keep"
	"linerate/internal/core/model"
)

// undoKept restores the files that keep wrote on this machine, or on HOST.
func (a *console) undoKept(ctx context.Context, args []string, state string) error {
	host := ""
	if len(args) == 1 {
		host = args[0]
	}
	h, shut, err := a.openFiles(ctx, host, state)
	if err != nil {
		return err
	}
	defer shut()
	b, err := keep.Undo(ctx, h.Client)
	if err != nil && len(b.Files) == 0 {
		return err
	}
	return errors.Join(err, a.printUndoneFiles(b))
}

func (a *console) printUndoneFiles(b keep.Back) error {
	if a.json {
		return a.document("linerate/undo/v1", map[string]any{"changes": []any{}, "files": append([]model.FileResult{}, b.Files...)})
	}
	if len(b.Paths) == 0 {
		fmt.Fprintln(a.Out, "nothing is kept")
	}
	for _, path := range b.Paths {
		fmt.Fprintf(a.Out, "%s: %s\n", path, undoneFileText(b.Last[path]))
	}
	if len(b.Paths) > b.Left {
		fmt.Fprintln(a.Out, "running values stay as they are until the next start; linerate undo takes back what was confirmed")
	}
	return nil
}

func undoneFileText(f model.FileResult) string {
	switch f.State {
	case model.FileRestored:
		return "taken back"
	case model.FileAlready:
		return "was as before already"
	case model.FileChanged:
		return "left alone: " + strings.TrimPrefix(f.Detail, f.Path+": ")
	case model.FileFailed:
	}
	return "not taken back: " + strings.TrimPrefix(f.Detail, f.Path+": ")
}
