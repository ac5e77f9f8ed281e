package kmsg

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const path = "/dev/kmsg"

// recordBytes is larger than any record: PRINTKRB_RECORD_MAX is 1024 for the text, plus the
// head and the escapes (kernel/printk/printk.c, PRINTK_MESSAGE_MAX 2048; before 6.4
// CONSOLE_EXT_LOG_MAX 8192).
const recordBytes = 8192

// reader is an open /dev/kmsg. Package os would wait for the next record.
type reader struct {
	fd  int
	buf []byte
}

func open() (reader, error) { return openAt(unix.SEEK_END) } // SEEK_END of 0 is after the last record

// OpenAll is Open, but the reader starts at the oldest remaining record.
func OpenAll() (*Reader, error) {
	r, err := openAt(unix.SEEK_SET) // the first record
	if err != nil {
		return nil, fmt.Errorf("open kernel log: %w", err)
	}
	return &Reader{r}, nil
}

func openAt(whence int) (reader, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return reader{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if _, err := unix.Seek(fd, 0, whence); err != nil {
		return reader{}, errors.Join(&os.PathError{Op: "seek", Path: path, Err: err}, unix.Close(fd))
	}
	return reader{fd: fd, buf: make([]byte, recordBytes)}, nil
}

// next returns the next record, nil at the end.
func (r *reader) next() ([]byte, error) {
	for {
		n, err := unix.Read(r.fd, r.buf)
		switch {
		case err == nil && n > 0:
			return r.buf[:n], nil
		case err == nil, errors.Is(err, unix.EAGAIN):
			return nil, nil
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR):
			// EPIPE: records were overwritten; the next read gets the oldest remaining one.
			continue
		}
		return nil, &os.PathError{Op: "read", Path: path, Err: err}
	}
}

func (r *reader) close() error { return unix.Close(r.fd) }
