//go:build !windows

package canary

import (
	"errors"
	"net"
	"syscall"
)

// refused reports whether err says that nobody listens on a port.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// oversize reports whether a packet is too large for what its socket knows of
// the way.
func oversize(err error) bool { return errors.Is(err, syscall.EMSGSIZE) }

// hear is what sockets do anyway: they tell that a datagram was refused.
func hear(net.Conn) error { return nil }
