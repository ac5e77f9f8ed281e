package keep

import (
	"context"
	"errors"
	"fmt"

	"linerate/internal/control/session"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/host/files"
	"linerate/internal/host/persist/native"
)

// Back is the outcome of restoring the files that were kept on a host.
type Back struct {
	Files []model.FileResult          // of every record, the oldest record of a file last
	Paths []string                    // of the files, each once
	Last  map[string]model.FileResult // the final state by path
	Left  int                         // how many of them were not restored
}

// Undo restores all files that were kept on a host, except those that were changed since. If
// any are left, the error is of kind fault.NotUndone, and the result lists each.
func Undo(ctx context.Context, c *session.Client) (Back, error) {
	r, err := c.Restore(ctx, "")
	if err != nil {
		return Back{}, filesFault(err)
	}
	b := Back{Files: r.Files, Last: make(map[string]model.FileResult)}
	left := make(map[string]bool)
	for _, f := range r.Files {
		if _, again := b.Last[f.Path]; !again {
			b.Paths = append(b.Paths, f.Path)
		}
		b.Last[f.Path] = f
		if f.State == model.FileChanged || f.State == model.FileFailed {
			left[f.Path] = true
		}
	}
	b.Left = len(left)
	switch {
	case b.Left > 0:
		err = &fault.Error{Kind: fault.NotUndone, Err: fmt.Errorf("%d of %d files not taken back", b.Left, len(b.Paths)),
			Hint: "see the reasons above; what a file held before is kept until it is taken back"}
	case r.Problem != "":
		err = errors.New(r.Problem)
	}
	return b, err
}

// Native is the settings of a host to write in its native formats.
type Native = native.Input

// Rendered is the result of Export.
type Rendered = native.Output

// File is one file of a Rendered.
type File = files.File

// Export returns the files and commands that keep settings on a host of format's system. It
// writes nothing.
func Export(format model.FileFormat, in Native) (Rendered, error) {
	out, err := native.Render(format, in)
	var bad *knob.ValueError
	switch {
	case errors.Is(err, knob.ErrConstraint):
		return out, fault.New(fault.Usage, err, "change a value, or take it as it is with --anyway")
	case errors.Is(err, native.ErrInput), errors.As(err, &bad):
		return out, fault.WithKind(fault.Usage, err)
	}
	return out, err
}
