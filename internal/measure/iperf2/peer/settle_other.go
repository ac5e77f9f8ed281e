//go:build !linux

package peer

import (
	"errors"
	"io"
	"net"
	"time"
)

// settleOne closes its half of c and waits at most limit for the peer to close, which it does
// once it has read everything.
func settleOne(c *net.TCPConn, limit time.Duration) bool {
	_ = c.SetDeadline(time.Now().Add(limit))
	_ = c.CloseWrite() // if the connection has ended already, the copy reports it
	_, err := io.Copy(io.Discard, c)
	return errors.Join(err, c.Close()) == nil
}
