package peer

import (
	"io"
	"net"
	"time"
)

// settleOne closes c for good and waits at most limit until the peer has
// acknowledged all that was sent. Reading to the peer's end would not tell:
// tcpbulk has shut the receiving side down too. A close that lingers does
// (sk_stream_wait_close, net/core/stream.c), also on a non-blocking socket.
func settleOne(c *net.TCPConn, limit time.Duration) bool {
	start := time.Now()
	_ = c.CloseWrite() // where the connection has ended already, the close below says so
	_ = c.SetReadDeadline(start.Add(limit))
	// What is left unread would turn the end into a reset.
	_, _ = io.Copy(io.Discard, c)
	left := max(limit-time.Since(start), time.Second)
	if err := c.SetLinger(int(left / time.Second)); err != nil {
		_ = c.Close()
		return false
	}
	return c.Close() == nil && time.Since(start) < limit
}
