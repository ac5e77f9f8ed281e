package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"linerate/internal/host/durable"
)

// ErrLocked says that another process writes the journal: it holds changes of
// its own, or is undoing some.
var ErrLocked = durable.ErrLocked

const lockName = "lock"

// lock is held by an open file, so that the end of the process, however it
// comes, gives it free.
type lock struct{ file *os.File }

// acquire takes the lock of dir or says who has it.
func acquire(dir string) (*lock, error) {
	path := filepath.Join(dir, lockName)
	f, _, err := openWritable(path, 0)
	if err != nil {
		return nil, fmt.Errorf("lock state directory %s: %w", dir, err)
	}
	err = durable.Lock(f)
	if errors.Is(err, ErrLocked) {
		holder, _ := os.ReadFile(path) // for people; an unreadable one is named as unknown
		who := strings.TrimSpace(string(holder))
		if who == "" {
			who = "an unknown process"
		}
		return nil, errors.Join(fmt.Errorf("state directory %s: %w (%s)", dir, ErrLocked, who), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock state directory %s: %w", dir, err), f.Close())
	}
	// Who holds it is for people only: a full or read-only disk must not keep an
	// undo away.
	_ = f.Truncate(0)
	_, _ = fmt.Fprintf(f, "process %d, since %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	return &lock{file: f}, nil
}

// release gives the lock free. The file stays: removing it would let two
// processes lock two files of one name.
func (l *lock) release() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
