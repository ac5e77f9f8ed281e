//go:build !linux && !freebsd && !darwin

package peer

import (
	"errors"
	"fmt"
	"net"
	"runtime"
)

// deliveryIsFinal: see delivered.
const deliveryIsFinal = false

// kernelKeep returns c: the engine's portable plane uses it and closes it last.
func kernelKeep(c *net.TCPConn) (*net.TCPConn, error) { return c, nil }

func kernelDelivered(*net.TCPConn) (bool, error) { return false, unsupported("send queue") }
func kernelUnread(*net.TCPConn) (int, error)     { return 0, unsupported("receive queue") }
func kernelReceived(*net.TCPConn) (int64, error) { return 0, unsupported("received bytes") }
func kernelEnded(*net.TCPConn) (bool, error)     { return false, unsupported("connection state") }
func kernelPace(*net.TCPConn, uint64) error      { return unsupported("pacing of TCP by the kernel") }

func unsupported(what string) error {
	return fmt.Errorf("%s on %s: %w", what, runtime.GOOS, errors.ErrUnsupported)
}
