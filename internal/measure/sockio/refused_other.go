//go:build !windows

package sockio

import (
	"errors"
	"net"
	"syscall"
)

func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

func hearRefusals(*net.UDPConn) error { return nil }
