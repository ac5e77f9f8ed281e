//go:build !linux

package filecopy

import (
	"io"
	"net"
	"os"
)

// sendfile sends up to n bytes of f from offset through the Go runtime, which uses sendfile or
// TransmitFile.
func sendfile(c *net.TCPConn, f *os.File, offset, n int64) (int64, error) {
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	return c.ReadFrom(&io.LimitedReader{R: f, N: n})
}
