package kmsg

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// buffer is the kernel's message buffer, readable to all unless
// security.bsd.unprivileged_read_msgbuf is 0 (FreeBSD sys/kern/subr_prf.c).
const buffer = "kern.msgbuf"

type reader struct{ msgbuf }

func open() (reader, error) {
	var r reader
	b, err := unix.SysctlRaw(buffer)
	if err != nil {
		return reader{}, fmt.Errorf("%s: %w", buffer, err)
	}
	r.take(b)
	return r, nil
}

// next returns the next line in Linux format, nil at the end.
func (r *reader) next() ([]byte, error) {
	if l := r.msgbuf.next(); l != nil {
		return l, nil
	}
	b, err := unix.SysctlRaw(buffer)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", buffer, err)
	}
	r.take(b)
	return r.msgbuf.next(), nil
}

func (*reader) close() error { return nil }
