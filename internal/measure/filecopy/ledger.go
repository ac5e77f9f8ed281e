package filecopy

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The ledger has one file in the state folder for each file that linerate creates:
//
//	{"v":1,"path":"/dev/shm/linerate-copy-WDF2…"}
//	{"device":24,"inode":17,"birth":1795264932000000000}
//
// The first line is on disk before the file is created, the second before a byte is written to
// it. The creating process keeps the entry locked while it lives.
const (
	entryPrefix   = "filecopy-"
	entrySuffix   = ".ledger"
	filePrefix    = "linerate-copy-"
	ledgerVersion = 1
	maxEntry      = 64 << 10
	// abandoned is the age from which an unfinished entry has no owner.
	abandoned = time.Hour
)

// promise is the first line of an entry.
type promise struct {
	Version int    `json:"v"`
	Path    string `json:"path"`
	Named   bool   `json:"named,omitempty"` // the user chose the name, so it proves nothing
}

// claim is a file that linerate created and will remove.
type claim struct {
	*os.File
	entry *os.File
	id    identity
	gone  bool
}

// makeFile creates a file in folder, readable and writable by this user only, and records it in
// the ledger in dir. The flags are added to those of os.OpenFile.
func makeFile(dir, folder string, flags int) (*claim, error) {
	return register(dir, filepath.Join(folder, filePrefix+rand.Text()), false, flags)
}

// register creates the file path. If it exists the error wraps fs.ErrExist.
func register(dir, path string, named bool, flags int) (*claim, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	entry, err := newEntry(dir, promise{Version: ledgerVersion, Path: path, Named: named})
	if err != nil {
		return nil, fmt.Errorf("note %s in the ledger: %w", path, err)
	}
	c := &claim{entry: entry}
	if c.File, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|flags, 0o600); err != nil {
		return nil, errors.Join(err, c.forget())
	}
	if c.id, err = identify(c.File); err == nil {
		err = appendLine(entry, c.id)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("note %s in the ledger: %w", path, err), c.remove())
	}
	return c, nil
}

// newEntry writes an entry, which is on disk and locked on return.
func newEntry(dir string, p promise) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, entryPrefix+rand.Text()+entrySuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = lock(f, true); err == nil {
		err = appendLine(f, p)
	}
	if err == nil {
		err = syncFolder(dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, nil
}

// appendLine appends v to f and waits until it is on disk.
func appendLine(f *os.File, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(b, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

// remove removes the file, unless another file has replaced it. It is idempotent.
func (c *claim) remove() error {
	if c.gone {
		return nil
	}
	c.gone = true
	err := c.Close()
	if errors.Is(err, fs.ErrClosed) {
		err = nil
	}
	if _, gone := removeSame(c.Name(), c.id); gone != nil {
		// The entry stays: Clean will try again.
		return errors.Join(err, gone, c.entry.Close())
	}
	return errors.Join(err, c.forget())
}

// forget removes the entry of a file that does not exist.
func (c *claim) forget() error {
	// Windows cannot remove an open file.
	return errors.Join(c.entry.Close(), os.Remove(c.entry.Name()))
}

// removeSame removes path if it is still the file id, and reports whether it did.
func removeSame(path string, id identity) (bool, error) {
	now, _, err := look(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if now == nil || !now.same(id) {
		return false, nil
	}
	if err := os.Remove(path); err != nil {
		return false, err
	}
	return true, nil
}

// look returns the identity and size of path; nil if it is no regular file.
func look(path string) (*identity, int64, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	id, err := identify(f)
	return &id, info.Size(), errors.Join(err, f.Close())
}

// Clean removes the files that a killed process left behind, according to the ledger in
// stateDir, and returns their paths. It leaves alone files of a live process and files that
// have replaced one of ours. Call it when a process starts, before an Engine uses the same
// folder.
func Clean(stateDir string) ([]string, error) {
	all, err := os.ReadDir(stateDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read ledger of copies: %w", err)
	}
	var (
		removed []string
		errs    []error
	)
	for _, d := range all {
		if !strings.HasPrefix(d.Name(), entryPrefix) || !strings.HasSuffix(d.Name(), entrySuffix) {
			continue
		}
		path, err := cleanEntry(filepath.Join(stateDir, d.Name()))
		if err != nil {
			errs = append(errs, fmt.Errorf("clean up after a copy: %w", err))
		}
		if path != "" {
			removed = append(removed, path)
		}
	}
	return removed, errors.Join(errs...)
}

// cleanEntry settles one entry and returns the path of the file it removed.
func cleanEntry(name string) (removed string, err error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // its process removed it meanwhile
	}
	if err != nil {
		return "", err
	}
	over := false
	defer func() {
		err = errors.Join(err, f.Close())
		if over {
			err = errors.Join(err, os.Remove(name))
		}
	}()
	if free, err := lock(f, false); err != nil || !free {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxEntry))
	if err != nil {
		return "", err
	}
	p, id, ok := parseEntry(text)
	if !ok {
		// No file was created yet. A recent entry may still be in the making.
		info, err := f.Stat()
		over = err == nil && time.Since(info.ModTime()) > abandoned
		return "", err
	}
	gone, err := removeMade(p, id)
	over = err == nil
	if gone {
		removed = p.Path
	}
	return removed, err
}

// removeMade removes the file of an entry if it is provably linerate's.
func removeMade(p promise, id *identity) (bool, error) {
	now, size, err := look(p.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case now == nil:
		return false, nil
	case id == nil:
		// The process was killed before it wrote a byte. A name of 128 random bits is proof
		// enough, a name from the user is not.
		if p.Named || size > 0 {
			return false, nil
		}
		id = now
	case p.Named && (id.Birth == 0 || now.Birth == 0):
		// Without a birth time, the inode may be another file by now.
		return false, nil
	}
	return removeSame(p.Path, *id)
}

// parseEntry parses an entry. It ignores a last line without its line feed.
func parseEntry(text []byte) (promise, *identity, bool) {
	line, rest, whole := bytes.Cut(text, []byte("\n"))
	var p promise
	if !whole || json.Unmarshal(line, &p) != nil || p.Version != ledgerVersion || !filepath.IsAbs(p.Path) ||
		!p.Named && !strings.HasPrefix(filepath.Base(p.Path), filePrefix) {
		return promise{}, nil, false
	}
	line, _, whole = bytes.Cut(rest, []byte("\n"))
	var id identity
	if !whole || json.Unmarshal(line, &id) != nil {
		return p, nil, true
	}
	return p, &id, true
}
