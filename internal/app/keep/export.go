package keep

import (
	"errors"

	"linerate/internal/app"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/persist/native"
)

// Native are the settings of a host to be written in its own forms.
type Native = native.Input

// Rendered is what they become.
type Rendered = native.Output

// File is one file of that.
type File = native.File

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
