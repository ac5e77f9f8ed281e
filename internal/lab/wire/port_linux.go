package wire

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// batch is how many frames are passed to the kernel at once.
const batch = 64

// Port is the kernel's end of one virtual host's interface. One goroutine may receive while
// another one sends.
type Port interface {
	// receive copies the next waiting frame into buf and returns its length and its arrival
	// time, in nanoseconds of the wall clock, or 0 if unknown. ok is false if no frame waits.
	receive(buf []byte) (n int, wall int64, ok bool)
	// send passes frames to the host and returns how many it accepted.
	send(frames [][]byte) int
	// fd becomes readable when a frame waits.
	fd() int
	// missed returns how many frames of the host the kernel dropped since the last call because
	// receive was not called often enough.
	missed() uint64
	// Close closes the port.
	Close() error
}

// tapPort reads and writes one frame with one system call.
type tapPort struct{ file int }

// NewTAP returns a port over an open TAP file (IFF_TAP | IFF_NO_PI). It takes
// ownership of the descriptor and makes it non-blocking.
func NewTAP(fd int) (Port, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("make the TAP file non-blocking: %w", err)
	}
	return &tapPort{fd}, nil
}

func (t *tapPort) receive(buf []byte) (int, int64, bool) {
	n, errno := rawIO(unix.SYS_READ, t.file, buf)
	return n, 0, errno == 0 && n > 0
}

func (t *tapPort) send(frames [][]byte) int {
	accepted := 0
	for _, f := range frames {
		if _, errno := rawIO(unix.SYS_WRITE, t.file, f); errno == 0 {
			accepted++
		}
	}
	return accepted
}

func (t *tapPort) fd() int { return t.file }

// missed is 0: the host's interface counts what a TAP queue drops.
func (t *tapPort) missed() uint64 { return 0 }

func (t *tapPort) Close() error { return unix.Close(t.file) }

// OpenTAP creates the TAP device name in the calling thread's network namespace and returns its
// file. The error wraps fs.ErrPermission or fs.ErrNotExist if /dev/net/tun may not be opened or
// does not exist.
//
// The device has no offloads (TUNSETOFFLOAD requests none), so every frame that it returns is
// at most MTU sized and has its checksum filled in (drivers/net/tun.c, tun_net_fix_features,
// Linux 6.18).
func OpenTAP(name string) (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("create TAP device %s: %w", name, err), unix.Close(fd))
	}
	return fd, nil
}
