package enginetest

import (
	"net"
	"os"
	"sync/atomic"
)

// Failing returns l, of which Accept fails so many times with errno before each
// connection, as where no descriptor is free.
func Failing(l net.Listener, times int, errno error) net.Listener {
	f := &failing{Listener: l, times: int64(times), errno: errno}
	f.left.Store(f.times)
	return f
}

type failing struct {
	net.Listener
	times int64
	errno error
	left  atomic.Int64
}

// Accept fails, or takes the next connection.
func (f *failing) Accept() (net.Conn, error) {
	if f.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: f.Addr(), Err: os.NewSyscallError("accept4", f.errno)}
	}
	c, err := f.Listener.Accept()
	if err == nil {
		f.left.Store(f.times)
	}
	return c, err
}
