package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"linerate/internal/fault"
	"linerate/internal/store"
	"linerate/internal/store/tables"
)

// explain wraps the matching sentinel around an error of the system or SQLite on the file at
// path, and adds a hint. It returns other errors unchanged.
func explain(err error, path string) error {
	switch {
	case err == nil, errors.Is(err, store.ErrForeign):
		return err
	case errors.Is(err, tables.ErrEndless), errors.Is(err, tables.ErrTooLarge):
		return fault.WithHint(err, "the PRAGMA quick_check of sqlite3 says if the file is damaged; for other results use --db PATH")
	case isFull(err, path):
		return fmt.Errorf("%w (free some, or keep results elsewhere: --db PATH): %w", store.ErrFull, err)
	case isDenied(err):
		return fmt.Errorf("%w (keep results elsewhere: --db PATH, or for this command only: --db %s): %w",
			fs.ErrPermission, Memory, err)
	case errors.Is(err, sqlite3.NOTADB), errors.Is(err, sqlite3.CORRUPT):
		return fmt.Errorf("%w, or damaged: %w", store.ErrForeign, err)
	}
	return err
}

// isFull reports whether err is due to a full disk, or a used-up quota.
func isFull(err error, path string) bool {
	switch {
	case errors.Is(err, sqlite3.FULL), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return true
	case path == Memory, !errors.Is(err, sqlite3.IOERR):
		return false
	}
	return probe(filepath.Dir(path))
}

// probeSize is larger than any single write of SQLite: a page and its frame header.
const probeSize = 64 << 10

// probe reports whether a small file in dir meets a full disk. The SQLite driver loses the
// system's error on a write to its log ("disk I/O error"), so writing again is the only way to
// know.
func probe(dir string) (full bool) {
	f, err := os.CreateTemp(dir, ".linerate-probe-*")
	if err == nil {
		_, err = f.Write(make([]byte, probeSize))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isDenied reports whether err is due to missing rights or a read-only file system.
func isDenied(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, sqlite3.READONLY) || errors.Is(err, sqlite3.PERM)
}

// Explain implements tables.Database.
func (s *Store) Explain(err error) error { return explain(err, s.path) }

// IsDuplicate implements tables.Database.
func (s *Store) IsDuplicate(err error) bool {
	return errors.Is(err, sqlite3.CONSTRAINT_UNIQUE) || errors.Is(err, sqlite3.CONSTRAINT_PRIMARYKEY)
}
