package persist

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/aymanbagabas/go-udiff"

	"linerate/internal/host/durable"
	"linerate/internal/host/files"
)

// Change is what Write would do to one file.
type Change struct {
	Path          string
	Block         bool // only the part between the marks is linerate's
	Exists        bool // before
	Mode          fs.FileMode
	Before, After []byte // the whole file
}

// Written returns the files after the changes.
func Written(changes []Change) []files.File {
	all := make([]files.File, len(changes))
	for i, c := range changes {
		all[i] = files.File{Path: c.Path, Mode: c.Mode, Content: c.After}
	}
	return all
}

// Same reports whether the file already holds what would be written.
func (c Change) Same() bool { return c.Exists && string(c.Before) == string(c.After) }

// Diff returns the change as a unified diff (POSIX diff -u), "" if there is none.
func (c Change) Diff() string {
	if c.Same() {
		return ""
	}
	from := c.Path
	if !c.Exists {
		from = "/dev/null"
	}
	return udiff.Unified(from, c.Path, string(c.Before), string(c.After))
}

// Preview returns what Write would do, or the error that Write would return. It writes
// nothing, takes no lock and needs only the right to read.
func (k Keeper) Preview(written []files.File) ([]Change, error) {
	records, err := k.Peek()
	if err != nil {
		return nil, err
	}
	all, err := k.plan(&Record{}, records, written)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, p := range all {
		changes = append(changes, Change{p.kept.Path, p.kept.Block, p.kept.Before.Exists, p.mode, p.kept.Before.bytes, p.data})
	}
	return changes, nil
}

// Peek is Records without a lock, while another process may be writing. It changes nothing.
func (k Keeper) Peek() ([]Record, error) {
	if err := durable.Trusted(k.State); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(k.dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return k.readRecords(entries)
}

// Standing returns the records with at least one file still as they wrote it, newest first:
// their settings are kept now. Like Preview it changes nothing.
func (k Keeper) Standing() ([]Record, error) {
	records, err := k.Peek()
	if err != nil {
		return nil, err
	}
	slices.Reverse(records)
	return slices.DeleteFunc(records, func(r Record) bool { return !slices.ContainsFunc(r.Files, k.stands) }), nil
}

// stands reports whether a file is as a Write left it; in a shared file only the block
// counts.
func (k Keeper) stands(f Kept) bool {
	now, err := look(k.real(f.Path))
	if err != nil || !now.Exists {
		return false
	}
	if !f.Block {
		return now.Sum == f.After
	}
	_, inner, _, err := files.Split(now.bytes)
	return err == nil && len(inner) > 0 && durable.Sum(inner) == f.Inner
}
