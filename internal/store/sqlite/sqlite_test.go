package sqlite_test

import (
	"path/filepath"
	"testing"

	"linerate/internal/must"
	"linerate/internal/store/sqlite"
	"linerate/internal/store/storetest"
)

// open opens the store at path and closes it when the test ends.
func open(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s := must.Get(sqlite.Open(t.Context(), path))(t)
	t.Cleanup(func() {
		must.OK(t, s.Close())
	})
	return s
}

func TestMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return open(t, sqlite.Memory) })
}

func TestFile(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		return open(t, filepath.Join(t.TempDir(), "new", "folders", "a b?#%.db"))
	})
}
