package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"

	"linerate/internal/app"
	"linerate/internal/control/session"
	"linerate/internal/core/model"
)

// undoneFileDoc is a file in linerate/undo/v1.
type undoneFileDoc struct {
	Record string          `json:"record"`
	Path   string          `json:"path"`
	State  model.FileState `json:"state"`
	Detail string          `json:"detail,omitempty"`
}

// undoKept takes back the files that keep wrote on this machine, or on HOST.
func (a *console) undoKept(ctx context.Context, args []string, state string) error {
	host := ""
	if len(args) == 1 {
		host = args[0]
	}
	c, err := a.openFiles(ctx, host, state)
	if err != nil {
		return err
	}
	defer a.world().HangUp(c)
	r, err := c.Restore(ctx, "")
	switch {
	case errors.Is(err, session.ErrBusy):
		return withHint(err, "another linerate writes files there: wait until it has ended")
	case errors.Is(err, fs.ErrPermission):
		return withHint(err, "files of the system belong to root: run linerate as root; over ssh with --sudo")
	case err != nil:
		return err
	}
	return a.printUndoneFiles(r)
}

func (a *console) printUndoneFiles(r session.Restored) error {
	files := []undoneFileDoc{}
	last := make(map[string]model.FileResult) // of each file; the oldest record comes last
	var paths []string
	left := make(map[string]bool)
	for _, f := range r.Files {
		files = append(files, undoneFileDoc(f))
		if _, again := last[f.Path]; !again {
			paths = append(paths, f.Path)
		}
		last[f.Path] = f
		left[f.Path] = left[f.Path] || f.State == model.FileChanged || f.State == model.FileFailed
	}
	maps.DeleteFunc(left, func(_ string, is bool) bool { return !is })
	if a.json {
		if err := a.document("linerate/undo/v1", map[string]any{"changes": []any{}, "files": files}); err != nil {
			return err
		}
	} else {
		if len(paths) == 0 {
			fmt.Fprintln(a.Out, "nothing is kept")
		}
		for _, path := range paths {
			fmt.Fprintf(a.Out, "%s: %s\n", path, undoneFileText(last[path]))
		}
		if len(paths) > len(left) {
			fmt.Fprintln(a.Out, "running values stay as they are until the next start; linerate undo takes back what was confirmed")
		}
	}
	switch {
	case len(left) > 0:
		return &app.Fault{Kind: app.NotUndone, Err: fmt.Errorf("%d of %d files not taken back", len(left), len(paths)),
			Hint: "see the reasons above; what a file held before is kept until it is taken back"}
	case r.Problem != "":
		return errors.New(r.Problem)
	}
	return nil
}

func undoneFileText(f model.FileResult) string {
	switch f.State {
	case model.FileRestored:
		return "as it was before"
	case model.FileAlready:
		return "was as before already"
	case model.FileChanged:
		return "left alone: " + strings.TrimPrefix(f.Detail, f.Path+": ")
	case model.FileFailed:
	}
	return "not taken back: " + strings.TrimPrefix(f.Detail, f.Path+": ")
}
