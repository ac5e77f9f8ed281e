package manager

import (
	"io/fs"
	"testing"

	"linerate/internal/must"
)

// TestRegistry reads a key that every Windows has, and one that does not exist.
func TestRegistry(t *testing.T) {
	m := Here(nil)
	values := must.Get(m.Registry.Values(t.Context(), `SOFTWARE\Microsoft\Windows NT\CurrentVersion`))(t)
	must.True(t, values["CurrentVersion"] != "" && values["SystemRoot"] != "", "%v", values)
	must.Is(t, must.Err(m.Registry.Values(t.Context(), `SOFTWARE\linerate\no such key`)), fs.ErrNotExist)
}
