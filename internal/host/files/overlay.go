package files

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Overlay returns root with the written files in place. Read its directories with fs.ReadDir.
func Overlay(root fs.FS, written []File) fs.FS {
	o := overlay{root, make(map[string]overlaid)}
	for _, f := range written {
		name := strings.TrimPrefix(f.Path, "/")
		text := f.Content
		if f.Block {
			before, _ := fs.ReadFile(root, name) // an unreadable file counts as empty
			if merged, err := Merge(before, f.Content); err == nil {
				text = merged
			}
		}
		o.files[name] = overlaid{Reader: bytes.NewReader(nil), name: path.Base(name), text: text, mode: f.Mode}
	}
	return o
}

// Without returns root without the files for which gone returns true.
func Without(root fs.FS, gone func(name string) bool) fs.FS { return without{root, gone} }

// without is a tree with some files removed.
type without struct {
	fs.FS
	gone func(name string) bool
}

// Open implements fs.FS.
func (w without) Open(name string) (fs.File, error) {
	if w.gone(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return w.FS.Open(name)
}

// ReadDir implements fs.ReadDirFS.
func (w without) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(w.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return w.gone(path.Join(name, e.Name())) }), err
}

// ReadLink implements fs.ReadLinkFS.
func (w without) ReadLink(name string) (string, error) { return fs.ReadLink(w.FS, name) }

// Lstat implements fs.ReadLinkFS.
func (w without) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(w.FS, name) }

// overlay is a tree with some files replaced or added.
type overlay struct {
	fs.FS
	files map[string]overlaid
}

// Open implements fs.FS.
func (o overlay) Open(name string) (fs.File, error) {
	if f, ok := o.files[name]; ok {
		f.Reader = bytes.NewReader(f.text)
		return f, nil
	}
	return o.FS.Open(name)
}

// ReadDir implements fs.ReadDirFS. It also knows directories that only the changes have.
func (o overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(o.FS, name)
	found := false
	for file, f := range o.files {
		dir := path.Dir(file)
		switch {
		case dir == name:
			found = true
			entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == f.name })
			entries = append(entries, fs.FileInfoToDirEntry(f))
		case strings.HasPrefix(dir+"/", name+"/"):
			found = true
			below, _, _ := strings.Cut(strings.TrimPrefix(dir, name+"/"), "/")
			if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == below }) {
				entries = append(entries, fs.FileInfoToDirEntry(overlaid{name: below, mode: fs.ModeDir | 0o755}))
			}
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	if found {
		return entries, nil
	}
	return entries, err
}

// ReadLink implements fs.ReadLinkFS: no changed file is a link.
func (o overlay) ReadLink(name string) (string, error) {
	if _, ok := o.files[name]; ok {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return fs.ReadLink(o.FS, name)
}

// Lstat implements fs.ReadLinkFS.
func (o overlay) Lstat(name string) (fs.FileInfo, error) {
	if f, ok := o.files[name]; ok {
		return f, nil
	}
	return fs.Lstat(o.FS, name)
}

// overlaid is one changed file; it implements fs.File and fs.FileInfo.
type overlaid struct {
	io.Reader
	name string
	text []byte
	mode fs.FileMode
}

// Stat implements fs.File.
func (f overlaid) Stat() (fs.FileInfo, error) { return f, nil }

// Close implements fs.File.
func (f overlaid) Close() error { return nil }

// Name implements fs.FileInfo.
func (f overlaid) Name() string { return f.name }

// Size implements fs.FileInfo.
func (f overlaid) Size() int64 { return int64(len(f.text)) }

// Mode implements fs.FileInfo.
func (f overlaid) Mode() fs.FileMode { return f.mode & (fs.ModeDir | fs.ModePerm) }

// ModTime implements fs.FileInfo: later than that of every file that is not changed.
func (f overlaid) ModTime() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// IsDir implements fs.FileInfo.
func (f overlaid) IsDir() bool { return f.mode.IsDir() }

// Sys implements fs.FileInfo.
func (f overlaid) Sys() any { return nil }
