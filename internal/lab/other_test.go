//go:build !linux

package lab

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"linerate/internal/must"
)

func TestUnsupported(t *testing.T) {
	_, err := Start(t.Context(), Spec{}, Config{})
	must.True(t, errors.Is(err, errors.ErrUnsupported) && strings.Contains(err.Error(), runtime.GOOS), "Start: %v, want an unsupported error that names %s", err, runtime.GOOS)
}
