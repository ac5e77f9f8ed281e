package peer

import (
	"io"
	"net"
	"time"
)

// settleOne closes c and waits at most limit until the peer has acknowledged everything.
// Reading until the peer closes would not show that, since tcpbulk has also shut down the
// receiving side. A lingering close does (sk_stream_wait_close, net/core/stream.c), even on a
// non-blocking socket.
func settleOne(c *net.TCPConn, limit time.Duration) bool {
	start := time.Now()
	_ = c.CloseWrite() // if the connection has ended already, the close below reports it
	_ = c.SetReadDeadline(start.Add(limit))
	// Unread data would turn the close into a reset.
	_, _ = io.Copy(io.Discard, c)
	left := max(limit-time.Since(start), time.Second)
	if err := c.SetLinger(int(left / time.Second)); err != nil {
		_ = c.Close()
		return false
	}
	return c.Close() == nil && time.Since(start) < limit
}
