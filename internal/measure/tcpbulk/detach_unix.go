//go:build linux || freebsd

package tcpbulk

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/measure/plane"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpinfo"
)

// fdLink is a connection outside the Go runtime.
type fdLink struct{ fd int }

// detach takes c's socket away from the Go runtime and closes c.
func detach(c *net.TCPConn) (fdLink, error) {
	fd, err := plane.Detach(c)
	return fdLink{fd}, err
}

// interrupt shuts down the direction of role: blocked calls return at once. A receiver keeps
// its own direction open, because a connection that is shut down both ways answers data with a
// reset (tcp_rcv_state_process, net/ipv4/tcp_input.c), which the sender would take for a
// failure.
func (l fdLink) interrupt(role model.Role) {
	how := unix.SHUT_RDWR
	if role == model.Receiver {
		how = unix.SHUT_RD
	}
	// It fails only if the connection has ended already.
	_ = unix.Shutdown(l.fd, how)
}

func (l fdLink) info() (tcpinfo.Info, error) { return tcpinfo.ReadFD(uintptr(l.fd)) }
func (l fdLink) subflows(out []tcpinfo.Subflow) ([]tcpinfo.Subflow, error) {
	return tcpinfo.ReadSubflowsFD(uintptr(l.fd), out)
}
func (l fdLink) bbr() (tcpinfo.BBR, error)        { return tcpinfo.ReadBBRFD(uintptr(l.fd)) }
func (l fdLink) congestion() (string, error)      { return tcpinfo.CongestionFD(uintptr(l.fd)) }
func (l fdLink) granted() (sockio.Granted, error) { return sockio.ReadFD(uintptr(l.fd)) }
func (l fdLink) close() error                     { return unix.Close(l.fd) }

// errnoErr returns e as an error, nil for 0.
func errnoErr(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}
