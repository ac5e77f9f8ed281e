package journal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"linerate/internal/host/durable"
)

// ErrLocked reports that another process writes the journal: it holds changes of its own, or
// is undoing some.
var ErrLocked = durable.ErrLocked

// HeldError names the holder of the lock. It wraps ErrLocked.
type HeldError struct {
	Dir string
	Who string // "process 4711, since 2026-01-02T15:04:05Z"
	// Undo is set while that process keeps retrying an undo: how much is open, and why.
	Undo string
}

// Error returns a message that names the holder.
func (e *HeldError) Error() string {
	if e.Undo != "" {
		return fmt.Sprintf("state directory %s: %v: an undo is still being retried by %s: %s", e.Dir, ErrLocked, e.Who, e.Undo)
	}
	return fmt.Sprintf("state directory %s: %v (%s)", e.Dir, ErrLocked, e.Who)
}

// Unwrap returns ErrLocked.
func (e *HeldError) Unwrap() error { return ErrLocked }

const (
	lockName  = "lock"
	retryName = "retry"
)

// Retry marks this process as retrying an undo, while it leaves the journal to others between
// its tries. done ends that. The error is a HeldError if another process is doing so already.
func (d Dir) Retry() (done func(), err error) {
	l, err := d.acquire(retryName)
	if err != nil {
		return nil, err
	}
	return func() { _ = l.release() }, nil
}

// lock is held by an open file, so that it is released however the process ends.
type lock struct {
	file durable.File
	who  string
}

// acquire takes the lock of that name in d, or returns a HeldError with its holder.
func (d Dir) acquire(name string) (*lock, error) {
	dir, path := d.Path, filepath.Join(d.Path, name)
	f, _, err := d.openWritable(path, 0)
	if err != nil {
		return nil, fmt.Errorf("lock state directory %s: %w", dir, err)
	}
	err = f.Lock()
	if errors.Is(err, ErrLocked) {
		text, _ := d.files().Read(path) // for display; an unreadable holder is "an unknown process"
		who, undo, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		who = cmp.Or(who, "an unknown process")
		if err := f.Close(); err != nil {
			return nil, err
		}
		return nil, &HeldError{Dir: dir, Who: who, Undo: strings.TrimSpace(undo)}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock state directory %s: %w", dir, err), f.Close())
	}
	l := &lock{file: f, who: fmt.Sprintf("process %d, since %s", os.Getpid(), time.Now().UTC().Format(time.RFC3339))}
	l.write("")
	return l, nil
}

// write tells other processes who holds the lock, and what an undo has still open. It is only
// for display, so errors are ignored: a full or read-only disk must not prevent an undo.
func (l *lock) write(undo string) {
	text := l.who + "\n"
	if undo != "" {
		text += strings.Join(strings.Fields(undo), " ") + "\n"
	}
	_, _ = l.file.WriteAt([]byte(text), 0)
	_ = l.file.Truncate(int64(len(text)))
}

// Note tells other processes, which find the journal locked, that an undo is being retried
// and what is still open; "" means that there is no undo.
func (j *Journal) Note(undo string) {
	if j.lock.file != nil {
		j.lock.write(undo)
	}
}

// release releases the lock. The file stays: if it were removed, two processes could lock two
// files of the same name.
func (l *lock) release() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
