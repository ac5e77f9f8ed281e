//go:build !linux

package lab

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

func TestUnsupported(t *testing.T) {
	_, err := Start(t.Context(), Spec{}, Config{})
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), runtime.GOOS) {
		t.Errorf("Start: %v, want an unsupported error that names %s", err, runtime.GOOS)
	}
}
