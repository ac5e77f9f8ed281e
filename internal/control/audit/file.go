package audit

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// fileMode is for the owner only: the lines show who uses this host.
const fileMode = 0o600

// look is how often the open file is compared with the one at its path.
const look = time.Second

// File appends lines to a file. After the file is renamed or removed, as by logrotate, or after
// Reopen, the next line goes to a new file of that name. A full disk only costs lines: the loss
// is counted and reported.
type File struct {
	path string
	talk func(string)
	now  func() time.Time

	mu     sync.Mutex
	file   *os.File
	looked time.Time
	reopen bool
	lost   int  // lines since the last successful write
	torn   bool // the file ends in a partial line
	cannot bool // a failure to reopen was reported
}

// Open opens the file at path for appending, and creates it, for the owner only, if necessary.
// If talk is not nil, it receives later problems.
func Open(path string, talk func(line string)) (*File, error) {
	if talk == nil {
		talk = func(string) {}
	}
	f := &File{path: path, talk: talk, now: time.Now}
	var err error
	if f.file, err = open(path); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	f.looked = f.now()
	return f, nil
}

func open(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, fileMode)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Reopen makes the next line go to the file that is at the path by then.
func (f *File) Reopen() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reopen = true
}

// Descriptor calls do with the open file, for a caller that changes the file's owner.
func (f *File) Descriptor(do func(*os.File) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return do(f.file)
}

// Write appends one line. It returns an error if the line is lost.
func (f *File) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return 0, os.ErrClosed
	}
	f.follow()
	before := ""
	if f.torn {
		before = "\n"
	}
	if f.lost > 0 {
		before += fmt.Sprintf(`{"time":%q,"event":%q,"reason":"the file could not be written","left_out":%d}`+"\n",
			f.now().UTC().Format(timeFormat), LeftOut, f.lost)
	}
	n, err := f.file.Write(append([]byte(before), line...))
	if err != nil {
		f.torn = f.torn || n > 0
		if f.lost++; f.lost == 1 {
			f.talk(fmt.Sprintf("audit log: %v: lines are lost until it can be written again", err))
		}
		return max(0, n-len(before)), err
	}
	if f.lost > 0 {
		f.talk(fmt.Sprintf("audit log: %s can be written again; %d lines were lost", f.path, f.lost))
	}
	f.lost, f.torn = 0, false
	return len(line), nil
}

// follow opens a new file if the path no longer leads to the current one.
func (f *File) follow() {
	now := f.now()
	if !f.reopen && now.Sub(f.looked) < look && now.After(f.looked) {
		return
	}
	f.looked = now
	if !f.reopen && f.named() {
		return
	}
	next, err := open(f.path)
	if err != nil { // the old file can still be written
		if !f.cannot {
			f.talk(fmt.Sprintf("audit log: %v: goes on in the old file", err))
			f.cannot = true
		}
		return
	}
	f.reopen, f.cannot = false, false
	_ = f.file.Close()
	f.file = next
}

// named reports whether the open file is still at its path.
func (f *File) named() bool {
	there, err := os.Stat(f.path)
	if err != nil {
		return false
	}
	mine, err := f.file.Stat()
	return err == nil && os.SameFile(there, mine)
}

// Close closes the file. It is idempotent.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
