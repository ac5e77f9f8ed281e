//go:build !windows

package canary

import (
	"errors"
	"net"
	"syscall"
)

// refused reports whether err means that no program listens on a port.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// oversize reports whether a packet is larger than the path MTU that its socket knows.
func oversize(err error) bool { return errors.Is(err, syscall.EMSGSIZE) }

// hear does nothing: sockets report refused datagrams by default.
func hear(net.Conn) error { return nil }
