package sockio

import "syscall"

// ReusePort lets several sockets have one UDP port of this user, of which the
// kernel gives each datagram to the one that is connected to its sender. It is
// for net.ListenConfig.Control and net.Dialer.Control. Where a system has no
// such thing the error wraps errors.ErrUnsupported.
func ReusePort(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) { err = reusePort(fd) }); cerr != nil {
		return cerr
	}
	return err
}
