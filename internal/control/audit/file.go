package audit

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// fileMode is for the owner only: the lines say who uses this host.
const fileMode = 0o600

// look is how often a file is compared with what has its name now.
const look = time.Second

// File is a file that lines are appended to. When it was renamed or removed, as
// logrotate does, or Reopen was called, the next line goes to a new file of that
// name. A full disk costs lines, never more: the loss is told, and counted.
type File struct {
	path string
	talk func(string)
	now  func() time.Time

	mu     sync.Mutex
	file   *os.File
	looked time.Time
	reopen bool
	lost   int  // lines since the last one that was written
	torn   bool // the file ends in half a line
	cannot bool // to reopen was told
}

// Open opens the file at path for appending, and makes it, for the owner only,
// where it is not there. talk, where given, is told what goes wrong later.
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

// Reopen has the next line go to whatever has the file's name then.
func (f *File) Reopen() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reopen = true
}

// Descriptor calls do with the open file, for a caller that changes its owner.
func (f *File) Descriptor(do func(*os.File) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return do(f.file)
}

// Write appends one line. It returns an error where the line is lost.
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

// follow goes over to a new file where the old one has its name no longer.
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
	if err != nil { // the old file is still a place to write to
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

// named reports whether the open file still has its name.
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
