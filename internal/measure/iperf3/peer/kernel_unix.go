//go:build linux || freebsd || darwin

package peer

import (
	"errors"
	"fmt"
	"net"
)

// kernelKeep duplicates the descriptor, because an engine may close the one
// that it was given.
func kernelKeep(c *net.TCPConn) (*net.TCPConn, error) {
	f, err := c.File()
	if err != nil {
		return nil, fmt.Errorf("duplicate socket: %w", err)
	}
	again, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("duplicate socket: %w", err)
	}
	kept, ok := again.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("duplicate socket: it is a %T", again), again.Close())
	}
	return kept, nil
}
