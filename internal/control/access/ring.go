package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Names of the files that hold the times of use.
const (
	usedDir  = "used"      // written by a running server
	usedFile = "used.json" // in usedDir
)

const (
	look      = time.Second     // how often a running server checks the key file
	writeUsed = 5 * time.Second // how often it writes the times of last use, at most
)

// Ring is a running server's view of the keys. It opens its directories once, so that a
// server that dropped its privileges or confined itself still reaches them. It is safe for
// concurrent use.
type Ring struct {
	now  func() time.Time
	keys *os.Root
	used *os.Root // nil: not writable
	talk func(string)

	mu      sync.Mutex
	seen    fs.FileInfo // of the file read last, nil for none
	trouble string      // what is wrong with it
	live    map[Hash]*Grant
	times   map[Hash]time.Time // of the last use, for keys used since this server started
	dirty   bool
	silent  bool // never becomes dirty
	wrote   time.Time
}

// Grant is a valid key in use.
type Grant struct {
	Key
	// Over is closed when the key stops being valid.
	Over <-chan struct{}

	over chan struct{}
}

// Ring opens the keys for a running server. If talk is not nil, it receives later problems
// with the key file. The caller calls Watch and then Close.
func (s Store) Ring(talk func(line string)) (*Ring, error) {
	if talk == nil {
		talk = func(string) {}
	}
	r := &Ring{now: s.now, talk: talk, live: map[Hash]*Grant{}, times: map[Hash]time.Time{}}
	for _, d := range []struct {
		name string
		root **os.Root
	}{{keysDir, &r.keys}, {usedDir, &r.used}} {
		dir := filepath.Join(s.Dir, d.name)
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			*d.root, err = os.OpenRoot(dir)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open keys: %w", err), r.Close())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Share lets a process with this uid and gid read the keys and write the times of their use,
// and nothing else. It needs root.
func (r *Ring) Share(uid, gid int) error {
	if err := errors.Join(r.keys.Chown(".", -1, gid), r.keys.Chmod(".", 0o750)); err != nil {
		return fmt.Errorf("share keys: %w", err)
	}
	err := r.keys.Chown(keysFile, -1, gid)
	if err == nil {
		err = r.keys.Chmod(keysFile, 0o640)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("share keys: %w", err)
	}
	if err := errors.Join(r.used.Chown(".", uid, gid), r.used.Chmod(".", 0o700)); err != nil {
		return fmt.Errorf("share times of use: %w", err)
	}
	if err := r.used.Remove(usedFile + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) { // of another user
		return fmt.Errorf("share times of use: %w", err)
	}
	if err := r.used.Lchown(usedFile, uid, gid); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("share times of use: %w", err)
	}
	return nil
}

// Find returns the valid key with this secret, as the key file has it now. It looks up the
// secret's hash in a map. The timing of that leaks nothing useful: a client can neither
// choose the bits of the hash nor learn the secret from them.
func (r *Ring) Find(secret []byte) (*Grant, bool) {
	h := HashOf(secret)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	g := r.live[h]
	if g == nil {
		return nil, false
	}
	r.times[h], r.dirty = r.now(), !r.silent
	return g, true
}

// Silent stops r from writing the times of use: another ring writes them.
func (r *Ring) Silent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = true
}

// Watch checks the keys once a second until ctx ends, and closes Grant.Over of each key that
// was revoked or has expired.
func (r *Ring) Watch(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.mu.Lock()
		r.refresh()
		if now := r.now(); r.dirty && now.Sub(r.wrote) >= writeUsed {
			r.writeUsed(now)
		}
		r.mu.Unlock()
	}
}

// Close writes the times of use and closes the directories.
func (r *Ring) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dirty {
		r.writeUsed(r.now())
	}
	var errs []error
	for _, root := range []*os.Root{r.keys, r.used} {
		if root != nil {
			errs = append(errs, root.Close())
		}
	}
	return errors.Join(errs...)
}

// refresh rereads the key file if it changed and drops expired keys. If the file cannot be
// read, the current keys stay in force.
func (r *Ring) refresh() {
	if info, err := r.keys.Stat(keysFile); err != nil || !same(info, r.seen) {
		if err == nil {
			r.trouble = "" // of another file
		}
		if err := r.load(); err != nil && err.Error() != r.trouble {
			r.trouble = err.Error()
			r.talk(fmt.Sprintf("%v: the keys stay as they were", err))
		}
	}
	now := r.now()
	for h, g := range r.live {
		if g.State(now) != Valid {
			close(g.over)
			delete(r.live, h)
		}
	}
}

func same(a, b fs.FileInfo) bool {
	return b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// load reads the key file. If it is missing there are no keys: the owner removed them.
func (r *Ring) load() error {
	var d document
	f, err := r.keys.Open(keysFile)
	switch {
	case err == nil:
		defer func() { _ = f.Close() }()
		info, err := f.Stat()
		if err == nil {
			d, err = read(f)
		}
		if err == nil || errors.Is(err, ErrDamaged) {
			r.seen = info // read again when the file changes
		}
		if err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
	case errors.Is(err, fs.ErrNotExist):
		r.seen = nil
	default:
		return fmt.Errorf("read keys: %w", err)
	}
	r.trouble = ""
	now := r.now()
	valid := map[Hash]Key{}
	for _, k := range d.Keys {
		if k.State(now) == Valid {
			valid[k.Hash] = k
		}
	}
	for h, g := range r.live {
		if k, ok := valid[h]; !ok || k.Name != g.Name || k.Right != g.Right {
			close(g.over)
			delete(r.live, h)
		}
	}
	for h, k := range valid {
		if g := r.live[h]; g != nil {
			r.live[h] = &Grant{Key: k, Over: g.Over, over: g.over} // its expiry may have changed
			continue
		}
		over := make(chan struct{})
		r.live[h] = &Grant{Key: k, Over: over, over: over}
	}
	return nil
}

// writeUsed writes the times of use. It ignores errors: the times only inform people, and a
// server that cannot write them still serves.
func (r *Ring) writeUsed(now time.Time) {
	r.dirty, r.wrote = false, now
	all := readUsed(r.used)
	for h, t := range r.times {
		all[h] = t.UTC().Truncate(time.Second)
	}
	for h := range all {
		if len(all) > maxKeys && r.live[h] == nil {
			delete(all, h)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return
	}
	const fresh = usedFile + ".new"
	if err := r.used.WriteFile(fresh, text, 0o600); err == nil {
		_ = r.used.Rename(fresh, usedFile)
	}
}

// readUsed returns the times of last use that a server wrote, and none for an unreadable file.
func readUsed(root *os.Root) map[Hash]time.Time {
	all := map[Hash]time.Time{}
	f, err := root.Open(usedFile)
	if err != nil {
		return all
	}
	defer func() { _ = f.Close() }()
	if text, err := io.ReadAll(io.LimitReader(f, maxFile)); err != nil || json.Unmarshal(text, &all) != nil {
		return map[Hash]time.Time{}
	}
	return all
}

// Used returns when keys were last used, by hash. It omits keys that were never used or whose
// use is unknown. It is up to 5 s old.
func (s Store) Used() map[Hash]time.Time {
	root, err := os.OpenRoot(filepath.Join(s.Dir, usedDir))
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	return readUsed(root)
}
