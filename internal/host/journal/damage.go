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

// Damage is something in the journal that is no record.
type Damage struct {
	File   string // name of the copy; "" for what is missing in both
	Line   int    // 1…; 0 for what is missing
	Reason string
}

// String says it in one line.
func (d Damage) String() string {
	if d.File == "" {
		return d.Reason
	}
	return fmt.Sprintf("%s line %d: %s", d.File, d.Line, d.Reason)
}

// ErrDamaged says that something is lost of the journal: neither of its copies
// has it whole.
var ErrDamaged = errors.New("the journal is damaged")

// ErrNewer says that a newer linerate wrote the journal; see NewerError.
var ErrNewer = errors.New("the journal is of a newer linerate")

const (
	asideMark = ".damaged-"
	seenMark  = ".seen"
)

// save keeps the copies that have a part in what is lost, or both where none has,
// each as it is under a name that is free: journal.jsonl.damaged-1 and so on. It
// is there on disk before anything is written in its place.
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
		// A crash before the journal was written anew comes here twice with the same.
		if have, err := files.Read(path); err == nil && bytes.Equal(have, text) {
			return nil
		}
		err := durable.Create(files, path, text, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// Unacknowledged returns the paths of the damaged copies that were kept in dir
// and that no person has acknowledged, in the order of their names. No directory
// is none.
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

// Acknowledge notes that a person knows of the damaged copies in dir: they get
// names that end in .seen, which it returns, and stay.
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

// openWritable opens a file of the journal for reading and writing, and makes it
// where it does not exist. One on a read-only file system is opened for reading:
// what a crash left there has to be undone too.
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

// writable refuses records where there is no place for them.
func (j *Journal) writable() error {
	if j.Closed() {
		return fmt.Errorf("%s: %w", j.Path(), fs.ErrClosed)
	}
	if j.readOnly {
		return fmt.Errorf("%s: %w", j.Path(), syscall.EROFS)
	}
	return nil
}
