package kmsg

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"linerate/internal/must"
)

// TestOpensAtTheEnd reads this machine's log, which started long ago.
func TestOpensAtTheEnd(t *testing.T) {
	r, err := Open()
	must.SkipIf(t, errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist), "this user may not read the kernel's log, or there is none: %v", err)
	must.Do(t, err)
	defer r.Close()
	first, err := r.Lines()
	must.True(t, err == nil && !slices.ContainsFunc(first, func(s string) bool { return strings.HasPrefix(s, "Linux version") }), "%q, %v", first, err)
	// at the beginning there are at least the kernel's own first messages
	must.Get(unix.Seek(r.fd, 0, unix.SEEK_SET))(t)
	b, err := r.next()
	must.Need(t, err == nil && b != nil, "no record from the beginning: %v", err)
	rec, err := parse(b)
	must.True(t, err == nil && rec.text != "", "%q is %+v, %v", b, rec, err)
	lines, err := r.Lines()
	must.True(t, err == nil && len(lines) >= 2, "%d lines from the beginning, %v", len(lines), err)
}

// pipe returns a reader whose records the test writes: like the device, a socket keeps record
// borders and returns EAGAIN.
func pipe(t *testing.T) (*Reader, func(record string)) {
	t.Helper()
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))(t)
	r := &Reader{reader{fd: fds[0], buf: make([]byte, recordBytes)}}
	t.Cleanup(func() { must.OK(t, errors.Join(r.Close(), unix.Close(fds[1]))) })
	return r, func(record string) { must.Do(t, unix.Send(fds[1], []byte(record), 0)) }
}

func TestLines(t *testing.T) {
	r, write := pipe(t)
	lines, err := r.Lines()
	must.True(t, lines == nil && err == nil, "%q, %v", lines, err)
	write("4,1,1,-;dc0: TX underrun -- increasing TX threshold\n")
	write("7,2,1,-;for debugging\n")
	write("12,3,1,-;a program's\n")
	write("6,4,1,-;eth0: NIC Link is Down\n SUBSYSTEM=net\n")
	must.Same(t, must.Get(r.Lines())(t), []string{"dc0: TX underrun -- increasing TX threshold", "eth0: NIC Link is Down"})
	lines, err = r.Lines()
	must.True(t, lines == nil && err == nil, "again: %q, %v", lines, err)
	write("nonsense")
	must.Fail(t, must.Err(r.Lines()), "nonsense")
}
