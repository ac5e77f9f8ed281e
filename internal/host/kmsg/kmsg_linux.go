package kmsg

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const path = "/dev/kmsg"

// recordBytes is more than any record has: PRINTKRB_RECORD_MAX is 1024 for the
// text, to which come the head and the escapes (kernel/printk/printk.c,
// PRINTK_MESSAGE_MAX 2048; before 6.4 CONSOLE_EXT_LOG_MAX 8192).
const recordBytes = 8192

// reader holds /dev/kmsg open. Package os would wait for the next record.
type reader struct {
	fd  int
	buf []byte
}

func open() (reader, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return reader{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	// SEEK_END of 0 is behind the last record.
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
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
			// EPIPE: records were overwritten; the next read has the oldest left.
			continue
		}
		return nil, &os.PathError{Op: "read", Path: path, Err: err}
	}
}

func (r *reader) close() error { return unix.Close(r.fd) }
