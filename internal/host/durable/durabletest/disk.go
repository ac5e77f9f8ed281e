// Package durabletest is a file system in memory that knows what a power loss would leave of
// it, and can make any operation fail or be the last one of its process.
package durabletest

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"linerate/internal/host/durable"
)

// Disk is the disk that all processes of a machine share. Its zero value is empty.
type Disk struct {
	mu      sync.Mutex
	names   map[string]*node // as processes see them
	stored  map[string]*node // as they are after a power loss
	pending []rename         // name changes not yet stored, oldest first
}

// node is a file or a directory. The files of a directory are those whose names begin with
// its name.
type node struct {
	data, stored []byte
	dir          bool
	holder       *file // of its lock
}

// rename gives a node a name, taking it from any other; a nil node removes the name.
type rename struct {
	path string
	node *node
}

// Op is an operation on a disk.
type Op struct {
	Kind string // open, read, list, open to write, create, write, truncate, sync, lock, rename, remove, mkdir or syncdir
	Path string
}

// Changes reports whether the operation needs a disk that can be written to.
func (o Op) Changes() bool { return !slices.Contains([]string{"open", "read", "list", "lock"}, o.Kind) }

// Fills reports whether the operation needs room on the disk.
func (o Op) Fills() bool { return slices.Contains([]string{"create", "write", "mkdir"}, o.Kind) }

// Torn is the error of a write that wrote only its first N bytes.
type Torn struct {
	N   int
	Err error
}

// Error returns the text of Err.
func (t *Torn) Error() string { return t.Err.Error() }

// Unwrap returns Err.
func (t *Torn) Unwrap() error { return t.Err }

// Process is the disk as one process sees it. It implements durable.FS.
type Process struct {
	disk *Disk
	step func(Op) error
	open []*file
}

// Process returns the disk for another process. Each operation first calls step, unless nil,
// and fails with its error.
func (d *Disk) Process(step func(Op) error) *Process {
	if step == nil {
		step = func(Op) error { return nil }
	}
	return &Process{disk: d, step: step}
}

// End closes all files of a process, as the system does when it exits.
func (p *Process) End() {
	p.disk.mu.Lock()
	files := p.open
	p.open = nil
	p.disk.mu.Unlock()
	for _, f := range files {
		_ = f.Close()
	}
}

func fault(op Op, err error) error { return &fs.PathError{Op: op.Kind, Path: op.Path, Err: err} }

// do calls f with the disk locked, if step allows the operation.
func (p *Process) do(op Op, f func(d *Disk) error) error {
	if err := p.step(op); err != nil {
		return fault(op, err)
	}
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	if err := f(p.disk); err != nil {
		return fault(op, err)
	}
	return nil
}

func (d *Disk) name(path string, n *node) {
	if d.names == nil {
		d.names, d.stored = map[string]*node{}, map[string]*node{}
	}
	set(d.names, path, n)
	d.pending = append(d.pending, rename{path, n})
}

func set(names map[string]*node, path string, n *node) {
	if n == nil {
		delete(names, path)
		return
	}
	maps.DeleteFunc(names, func(_ string, o *node) bool { return o == n })
	names[path] = n
}

// Open is like os.OpenFile.
func (p *Process) Open(path string, flag int, _ fs.FileMode) (durable.File, error) {
	kind := "open"
	writes := flag&(os.O_WRONLY|os.O_RDWR) != 0
	if writes {
		kind = "open to write"
	}
	p.disk.mu.Lock()
	if _, there := p.disk.names[path]; !there && flag&os.O_CREATE != 0 {
		kind = "create"
	}
	p.disk.mu.Unlock()
	var f *file
	err := p.do(Op{kind, path}, func(d *Disk) error {
		n := d.names[path]
		switch {
		case n != nil && flag&os.O_EXCL != 0:
			return fs.ErrExist
		case n == nil && flag&os.O_CREATE == 0:
			return fs.ErrNotExist
		case n == nil:
			if dir := d.names[filepath.Dir(path)]; dir == nil || !dir.dir {
				return fs.ErrNotExist
			}
			n = &node{}
			d.name(path, n)
		case n.dir:
			return fs.ErrInvalid
		}
		if flag&os.O_TRUNC != 0 {
			n.data = nil
		}
		f = &file{p: p, n: n, path: path, writes: writes}
		p.open = append(p.open, f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Read is like os.ReadFile.
func (p *Process) Read(path string) (text []byte, err error) {
	err = p.do(Op{"read", path}, func(d *Disk) error {
		n := d.names[path]
		switch {
		case n == nil:
			return fs.ErrNotExist
		case n.dir:
			return fs.ErrInvalid
		}
		text = bytes.Clone(n.data)
		return nil
	})
	return text, err
}

// List returns the names in a directory, sorted.
func (p *Process) List(dir string) (names []string, err error) {
	err = p.do(Op{"list", dir}, func(d *Disk) error {
		if n := d.names[dir]; n == nil || !n.dir {
			return fs.ErrNotExist
		}
		names = d.in(dir)
		return nil
	})
	return names, err
}

func (d *Disk) in(dir string) []string {
	var names []string
	for path := range d.names {
		if filepath.Dir(path) == dir && path != dir {
			names = append(names, filepath.Base(path))
		}
	}
	slices.Sort(names)
	return names
}

// Rename is like os.Rename.
func (p *Process) Rename(from, to string) error {
	return p.do(Op{"rename", to}, func(d *Disk) error {
		n := d.names[from]
		if n == nil || d.names[to] != nil && d.names[to].dir {
			return fs.ErrNotExist
		}
		d.name(to, n)
		return nil
	})
}

// Remove is like os.Remove.
func (p *Process) Remove(path string) error {
	return p.do(Op{"remove", path}, func(d *Disk) error {
		if d.names[path] == nil {
			return fs.ErrNotExist
		}
		d.name(path, nil)
		return nil
	})
}

// MakeDir makes a directory and stores its name.
func (p *Process) MakeDir(dir string) error {
	return p.do(Op{"mkdir", dir}, func(d *Disk) error {
		d.name(dir, &node{dir: true})
		d.store(filepath.Dir(dir))
		return nil
	})
}

// SyncDir stores the names in a directory.
func (p *Process) SyncDir(dir string) error {
	return p.do(Op{"syncdir", dir}, func(d *Disk) error {
		if d.names[dir] == nil {
			return fs.ErrNotExist
		}
		d.store(dir)
		return nil
	})
}

func (d *Disk) store(dir string) {
	d.pending = slices.DeleteFunc(d.pending, func(r rename) bool {
		if filepath.Dir(r.path) != dir {
			return false
		}
		set(d.stored, r.path, r.node)
		return true
	})
}

// Trusted trusts every directory.
func (p *Process) Trusted(string) error { return nil }

// file is an open file, which appends its writes.
type file struct {
	p              *Process
	n              *node
	path           string
	writes, closed bool
}

func (f *file) do(kind string, g func() error) error {
	return f.p.do(Op{kind, f.path}, func(*Disk) error {
		if f.closed {
			return fs.ErrClosed
		}
		if !f.writes && kind != "lock" && kind != "sync" {
			return fs.ErrPermission
		}
		return g()
	})
}

// Write appends to the file.
func (f *file) Write(b []byte) (int, error) {
	n := len(b)
	op := Op{"write", f.path}
	if err := f.p.step(op); err != nil {
		t, torn := err.(*Torn) //nolint:errorlint // it is never wrapped
		if !torn || t.N > len(b) {
			return 0, fault(op, err)
		}
		f.p.disk.mu.Lock()
		defer f.p.disk.mu.Unlock()
		f.n.data = append(bytes.Clone(f.n.data), b[:t.N]...)
		return t.N, fault(op, t.Err)
	}
	f.p.disk.mu.Lock()
	defer f.p.disk.mu.Unlock()
	if f.closed || !f.writes {
		return 0, fault(op, fs.ErrClosed)
	}
	f.n.data = append(bytes.Clone(f.n.data), b...)
	return n, nil
}

// WriteAt writes over a part of the file.
func (f *file) WriteAt(b []byte, at int64) (int, error) {
	err := f.do("write", func() error {
		data := make([]byte, max(len(f.n.data), int(at)+len(b)))
		copy(data, f.n.data)
		copy(data[at:], b)
		f.n.data = data
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// Truncate sets the size of the file.
func (f *file) Truncate(size int64) error {
	return f.do("truncate", func() error {
		data := make([]byte, size)
		copy(data, f.n.data)
		f.n.data = data
		return nil
	})
}

// Sync stores the content of the file, not its name.
func (f *file) Sync() error {
	return f.do("sync", func() error {
		f.n.stored = f.n.data
		return nil
	})
}

// Lock takes the lock, or returns durable.ErrLocked.
func (f *file) Lock() error {
	err := f.p.step(Op{"lock", f.path})
	if err != nil {
		return err
	}
	f.p.disk.mu.Lock()
	defer f.p.disk.mu.Unlock()
	if f.n.holder != nil && f.n.holder != f {
		return durable.ErrLocked
	}
	f.n.holder = f
	return nil
}

// Close closes the file and releases the lock.
func (f *file) Close() error {
	f.p.disk.mu.Lock()
	defer f.p.disk.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	if f.n.holder == f {
		f.n.holder = nil
	}
	return nil
}

// Lose cuts the machine's power: the first so many unsynced names are kept, and keep returns
// how many unsynced bytes to keep of each file.
func (d *Disk) Lose(names int, keep func(path string, unsynced int) int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, r := range d.pending {
		if i < names {
			set(d.stored, r.path, r.node)
		}
	}
	d.pending, d.names = nil, maps.Clone(d.stored)
	for path, n := range d.names {
		switch left := len(n.data) - len(n.stored); {
		case n.dir:
		case bytes.HasPrefix(n.data, n.stored):
			n.data = n.data[:len(n.stored)+keep(path, left)]
		case keep(path, len(n.data)) == 0: // of overwritten data nothing or all
			n.data = n.stored
		}
		n.stored, n.holder = n.data, nil
	}
}

// Unsynced returns how many names and bytes are not synced: of the given files, or of all.
func (d *Disk) Unsynced(of ...string) (names, bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path, n := range d.names {
		if len(of) == 0 || slices.Contains(of, path) {
			bytes += max(0, len(n.data)-len(n.stored))
		}
	}
	for _, r := range d.pending {
		if len(of) == 0 || slices.Contains(of, r.path) {
			names++
		}
	}
	return names, bytes
}

// Stored returns the content of a file after a power loss now, or nil if it has no name then.
func (d *Disk) Stored(path string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.stored[path]; n != nil {
		return n.stored
	}
	return nil
}

// Edit changes the content of a file, like a failing disk; an empty result removes it.
func (d *Disk) Edit(path string, f func(text []byte) []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[path]
	if n == nil {
		return
	}
	if text := f(bytes.Clone(n.data)); text != nil {
		n.data, n.stored = text, text
		return
	}
	delete(d.names, path)
	delete(d.stored, path)
}

// RemoveAll removes a directory with all that is in it.
func (d *Disk) RemoveAll(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := func(path string, _ *node) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
	maps.DeleteFunc(d.names, in)
	maps.DeleteFunc(d.stored, in)
	d.pending = slices.DeleteFunc(d.pending, func(r rename) bool { return in(r.path, nil) })
}

// Names returns the names in a directory, sorted.
func (d *Disk) Names(dir string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.in(dir)
}
