package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"linerate/internal/host/durable"
)

// Damage is a part of the journal that is not a record.
type Damage struct {
	File   string // name of the copy; "" for records missing in both
	Line   int    // 1…; 0 for missing records
	Reason string
}

// String returns one line.
func (d Damage) String() string {
	if d.File == "" {
		return d.Reason
	}
	return fmt.Sprintf("%s line %d: %s", d.File, d.Line, d.Reason)
}

// ErrDamaged reports that part of the journal is lost: neither copy has it whole.
var ErrDamaged = errors.New("the journal is damaged")

// ErrNewer reports that a newer linerate wrote the journal; see NewerError.
var ErrNewer = errors.New("the journal is of a newer linerate")

const (
	asideMark = ".damaged-"
	seenMark  = ".seen"
)

// save saves the copies that may have held lost records, or both if neither did, under free
// names: journal.jsonl.damaged-1 and so on. They are on disk before anything replaces them.
func (m merged) save(dir Dir) error {
	neither := m.spoilt == [2]bool{}
	for i, s := range m.scans {
		if !m.spoilt[i] && !neither || len(s.text) == 0 {
			continue
		}
		if err := saveAs(dir.files(), filepath.Join(dir.Path, copies[i])+asideMark, s.text); err != nil {
			return err
		}
	}
	return nil
}

func saveAs(files durable.FS, stem string, text []byte) error {
	for n := 1; ; n++ {
		path := stem + strconv.Itoa(n)
		if _, err := files.Read(path + seenMark); err == nil {
			continue
		}
		// After a crash before the journal was rewritten, the same copy comes here again.
		if have, err := files.Read(path); err == nil && bytes.Equal(have, text) {
			return nil
		}
		err := durable.Create(files, path, text, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// Unacknowledged returns the paths of the damaged copies in dir that the user has not
// acknowledged, sorted by name; none if there is no directory.
func Unacknowledged(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for damaged journals: %w", err)
	}
	var all []string
	for _, e := range entries {
		name := e.Name()
		stem, number, ok := strings.Cut(name, asideMark)
		if _, err := strconv.Atoi(number); ok && err == nil && slices.Contains(copies[:], stem) {
			all = append(all, filepath.Join(dir, name))
		}
	}
	return all, nil
}

// Acknowledge records that the user knows of the damaged copies in dir: it renames them to
// names ending in .seen, which it returns.
func Acknowledge(dir string) ([]string, error) {
	all, err := Unacknowledged(dir)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	var done []string
	for _, path := range all {
		if err := os.Rename(path, path+seenMark); err != nil {
			return done, fmt.Errorf("acknowledge: %w", err)
		}
		done = append(done, path+seenMark)
	}
	return done, durable.SyncDir(dir)
}

// openWritable opens a file of the journal for reading and writing, and creates it if needed.
// On a read-only file system it opens the file for reading: what a crash left there must be
// undone too.
func (d Dir) openWritable(path string, flag int) (f durable.File, readOnly bool, err error) {
	f, err = d.files().Open(path, os.O_RDWR|os.O_CREATE|flag, 0o600)
	if !errors.Is(err, syscall.EROFS) {
		return f, false, err
	}
	if f, openErr := d.files().Open(path, os.O_RDONLY, 0); openErr == nil {
		return f, true, nil
	}
	return nil, false, err
}

// writable returns an error if the journal cannot take records.
func (j *Journal) writable() error {
	if j.Closed() {
		return fmt.Errorf("%s: %w", j.Path(), fs.ErrClosed)
	}
	if j.readOnly {
		return fmt.Errorf("%s: %w", j.Path(), syscall.EROFS)
	}
	return nil
}
