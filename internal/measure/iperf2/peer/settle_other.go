//go:build !linux

package peer

import (
	"errors"
	"io"
	"net"
	"time"
)

// settleOne ends c and waits at most limit for the peer's end, which comes once
// it has read everything.
func settleOne(c *net.TCPConn, limit time.Duration) bool {
	_ = c.SetDeadline(time.Now().Add(limit))
	_ = c.CloseWrite() // where the connection has ended already, the copy says so
	_, err := io.Copy(io.Discard, c)
	return errors.Join(err, c.Close()) == nil
}
