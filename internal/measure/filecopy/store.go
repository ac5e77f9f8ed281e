package filecopy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"linerate/internal/core/units"
)

// alignment is what Direct requires of addresses, offsets and lengths: no device has larger
// logical blocks.
const alignment = 4096

// errHalted reports that the run was stopped.
var errHalted = errors.New("stopped")

// store is the source or target of a copy: a file, or memory of this process.
type store struct {
	size  int64
	where string // description, "tmpfs, /dev/shm"
	claim *claim // set for a file of linerate's
	file  *os.File
	mem   []byte
	free  func() error
	give  func() // returns the store's part of the session's share
	ahead *ahead // populates mem; nil if it already is

	volume Volume
	direct bool // the file is open with Direct
	sum    digest
	summed bool // sum is known
	notes  []string
	warned []string
}

// note adds a line to the report on how it was done.
func (s *store) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

func (s *store) warn(format string, args ...any) {
	s.warned = append(s.warned, fmt.Sprintf(format, args...))
}

// how returns the notes as one sentence.
func (s *store) how() string { return strings.Join(append([]string{s.where}, s.notes...), ", ") }

// onDisk reports whether the page cache is between the program and where the data stays.
func (s *store) onDisk() bool { return s.file != nil && !s.volume.Memory }

// inMemory allocates a store of size bytes in process memory. It populates all pages if whole
// is true, else only the first ones.
func inMemory(size int64, whole bool, halted func() bool) (*store, error) {
	if err := enoughMemory(size); err != nil {
		return nil, err
	}
	// put may need the space up to the next multiple.
	mem, free, err := allocate((size + alignment - 1) / alignment * alignment)
	if err != nil {
		return nil, err
	}
	s := &store{size: size, where: "memory of the process", mem: mem[:size], free: free}
	if !whole {
		s.ahead = makeAhead(mem)
		return s, nil
	}
	for i := 0; i < len(mem); i += alignment {
		mem[i] = 1
		if i%(1<<26) == 0 && halted() {
			return nil, errors.Join(errHalted, s.close())
		}
	}
	return s, nil
}

// fill writes size bytes of pseudo-random data and stores their digest.
func (s *store) fill(seed uint64, buf []byte, halted func() bool) error {
	data, h := newData(seed), sha256.New()
	for at := int64(0); at < s.size; {
		if halted() {
			return errHalted
		}
		var b []byte
		if s.mem != nil {
			b = s.mem[at:min(at+defaultBlock, s.size)]
		} else {
			b = buf[:min(int64(len(buf)), s.size-at)]
		}
		// Read of a ChaCha8 never fails.
		_, _ = data.Read(b)
		h.Write(b)
		if s.mem == nil {
			if err := s.put(b, at); err != nil {
				return err
			}
		}
		at += int64(len(b))
	}
	s.sum, s.summed = digest(h.Sum(nil)), true
	return nil
}

// put writes b at offset at of the file. b begins a buffer with space up to the next multiple
// of alignment.
func (s *store) put(b []byte, at int64) error {
	whole := b
	if s.direct && len(b)%alignment != 0 {
		whole = b[:(len(b)+alignment-1)/alignment*alignment]
	}
	if _, err := s.file.WriteAt(whole, at); err != nil {
		return s.explain(err)
	}
	if len(whole) != len(b) {
		return s.file.Truncate(at + int64(len(b)))
	}
	return nil
}

// explain adds a hint for the user to an error of the file.
func (s *store) explain(err error) error {
	if v, failed := readVolume(s.file.Name()); failed == nil && v.Free < scarce {
		return fmt.Errorf("%w (%s has %s free)", err, v, v.Free)
	}
	return err
}

// scarce is the free space below which a write error is blamed on a full file system.
const scarce units.Bytes = 1 << 20

// settle flushes the file to disk: only then can its pages be dropped from the page cache, and
// only then does it not disturb the next measurement. Sync of package os is fsync(2),
// FlushFileBuffers, and on macOS F_FULLFSYNC, which also flushes the disk's cache.
func (s *store) settle() error {
	if !s.onDisk() || s.claim == nil {
		return nil
	}
	return s.file.Sync()
}

// chill drops the file from the page cache, and notes the result.
func (s *store) chill() {
	if !s.onDisk() {
		return
	}
	if s.direct {
		s.note("past the page cache")
	}
	left, err := dropCache(s.file)
	share, known := left.Get()
	switch {
	case err != nil && s.direct:
	case err != nil:
		s.warn("the page cache was not emptied before reading, so that reading may be faster than the disk: %v", err)
	case known && share > cacheSlack:
		s.warn("%.0f %% of the file was still in the page cache when reading began", 100*share)
	case s.direct:
	case known:
		s.note("page cache emptied before")
	default:
		s.note("page cache emptied before as far as the system does that (%s)", left.Reason())
	}
}

// cacheSlack is the share of a file in the page cache above which reading it no longer measures
// the disk (proposed: a tenth of the usual margin of 3 %).
const cacheSlack = 0.003

// reader reads the store from its start.
func (s *store) reader() io.Reader {
	return &storeReader{store: s}
}

type storeReader struct {
	*store
	at int64
}

// Read may fill more of b than is left of the store: with Direct only whole blocks can be read.
func (r *storeReader) Read(b []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	var (
		n   int
		err error
	)
	if r.mem != nil {
		n = copy(b, r.mem[r.at:])
	} else {
		n, err = r.file.ReadAt(b, r.at)
	}
	n = int(min(int64(n), r.size-r.at))
	r.at += int64(n)
	return n, err
}

// digest reads the whole store and returns its digest.
func (s *store) digest(buf []byte, halted func() bool) (digest, error) {
	sum, n, err := sumOf(s.reader(), buf, halted)
	if err == nil && n != s.size {
		err = fmt.Errorf("%s has %d bytes where %d were expected", s.where, n, s.size)
	}
	return sum, err
}

// close frees the store and removes the file if it is linerate's. It is idempotent.
func (s *store) close() error {
	if s == nil {
		return nil
	}
	var errs []error
	s.ahead.end()
	s.ahead = nil
	if s.give != nil {
		defer s.give()
	}
	if s.free != nil {
		errs = append(errs, s.free())
		s.free, s.mem = nil, nil
	}
	switch {
	case s.claim != nil:
		errs = append(errs, s.claim.remove())
	case s.file != nil:
		errs = append(errs, s.file.Close())
		s.file = nil
	}
	return errors.Join(errs...)
}
