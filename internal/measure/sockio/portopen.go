package sockio

import (
	"context"
	"errors"
	"net"
	"syscall"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
)

// PortOpen returns the error of a TCP connection to addr that the program there never sees: a
// server of one client, such as iperf3 -s -1, is not used up. It is nil if the port is open, or
// if this system cannot ask in that way.
func PortOpen(ctx context.Context, addr string, o model.Egress) error {
	egress := ControlEgress(o)
	d := net.Dialer{ControlContext: func(_ context.Context, network, address string, c syscall.RawConn) error {
		if err := egress(network, address, c); err != nil {
			return err
		}
		var failed error
		if err := c.Control(func(fd uintptr) { failed = unseen(fd) }); err != nil {
			return err
		}
		return failed
	}}
	c, err := Dial(ctx, d, "tcp", addr, engine.SocketOptions{Egress: o})
	switch {
	case err == nil:
		_ = c.Close() // a reset
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	}
	return err
}
