package keep

import (
	"errors"

	"linerate/internal/app"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/persist/native"
)

// What settings become in files.
type (
	Native   = native.Input
	Rendered = native.Output
	File     = native.File
)

// Export returns the files and commands that keep settings on a host of format's
// system. Nothing is written.
func Export(format model.FileFormat, in Native) (Rendered, error) {
	out, err := native.Render(format, in)
	var bad *knob.ValueError
	switch {
	case errors.Is(err, knob.ErrConstraint):
		return out, app.WithHint(app.WithKind(app.Usage, err), "change a value, or take it as it is with --anyway")
	case errors.Is(err, native.ErrInput), errors.As(err, &bad):
		return out, app.WithKind(app.Usage, err)
	}
	return out, err
}
