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

// GiveTo makes a socket that of another user, as root, so that sockets which this
// process opens as that user may share its port (Linux 6.1, net/ipv4/udp.c
// udp_lib_lport_inuse: all must be of one user). Elsewhere it does nothing.
func GiveTo(conn syscall.Conn, uid, gid int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := raw.Control(func(fd uintptr) { err = giveTo(fd, uid, gid) }); cerr != nil {
		return cerr
	}
	return err
}
