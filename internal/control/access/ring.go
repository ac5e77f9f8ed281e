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

// Files of the times of use.
const (
	usedDir  = "used"      // what a running server writes
	usedFile = "used.json" // in usedDir
)

const (
	look      = time.Second     // how often a running server looks at the file of the keys
	writeUsed = 5 * time.Second // how often it writes down when keys were used, at most
)

// Ring is the keys as a running server has them. Its directories are opened once,
// so that a server that gave up its rights, or sees no other part of the file
// system any more, still finds them. It is safe for concurrent use.
type Ring struct {
	now  func() time.Time
	keys *os.Root
	used *os.Root // nil: may not be written
	talk func(string)

	mu      sync.Mutex
	seen    fs.FileInfo // of the file that was read last, nil for none
	trouble string      // what is wrong with it
	live    map[Hash]*Grant
	times   map[Hash]time.Time // of the last use, of keys of this run of the server
	dirty   bool
	silent  bool // never becomes dirty
	wrote   time.Time
}

// Grant is a valid key in use.
type Grant struct {
	Key
	// Over is closed when the key is valid no longer.
	Over <-chan struct{}

	over chan struct{}
}

// Ring opens the keys for a running server. talk, where given, is told what is
// wrong with their file later. The caller calls Watch and then Close.
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

// Share lets a process of user uid and group gid read the keys and write when
// they were used, and nothing else. It needs root.
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

// Find looks a secret up among the keys as their file has them now. What it
// compares is the hash of the secret, whose bits who asks can neither choose nor,
// by the time that an answer takes, learn more of than that his own guess is
// wrong: the hash says nothing of the secret. So a look-up in a map takes as long
// for every wrong secret, whatever keys there are, as matters to anybody.
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

// Silent has r never write when keys were used: another ring does.
func (r *Ring) Silent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = true
}

// Watch looks at the keys once a second until ctx ends: who holds a key that was
// revoked or has expired learns of it by Grant.Over.
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

// Close writes down when keys were used, and closes the directories.
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

// refresh reads the file again where it is another one, and drops keys whose time
// is over. A file that cannot be read leaves things as they are: nobody is let in
// by it that was not before.
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

// load reads the file. Without one there are no keys: somebody removed them.
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
			r.seen = info // it is read again when it is another one
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
			r.live[h] = &Grant{Key: k, Over: g.Over, over: g.over} // its expiry may be another
			continue
		}
		over := make(chan struct{})
		r.live[h] = &Grant{Key: k, Over: over, over: over}
	}
	return nil
}

// writeUsed puts the times of use on disk, as well as that goes: they are for
// people, and a server that may not write them serves.
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

// readUsed returns what a server wrote of the last uses; what cannot be read was
// not used as far as is known.
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

// Used returns when keys were used last, by hash; keys that never were, or of
// which that is not known, are left out. It is up to 5 s old.
func (s Store) Used() map[Hash]time.Time {
	root, err := os.OpenRoot(filepath.Join(s.Dir, usedDir))
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	return readUsed(root)
}
