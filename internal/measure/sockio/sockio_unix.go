//go:build linux || freebsd || darwin

package sockio

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
)

func set(fd uintptr, o engine.SocketOptions) error {
	s := int(fd)
	if o.Window != 0 {
		if err := unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_SNDBUF, o.Window); err != nil {
			return fmt.Errorf("set send buffer to %d bytes: %w", o.Window, err)
		}
		if err := unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUF, o.Window); err != nil {
			return fmt.Errorf("set receive buffer to %d bytes: %w", o.Window, err)
		}
	}
	if o.MSS != 0 {
		if err := unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_MAXSEG, o.MSS); err != nil {
			return fmt.Errorf("set segment size to %d bytes: %w", o.MSS, err)
		}
	}
	if o.Congestion != "" {
		if err := setCongestion(s, o.Congestion); err != nil {
			return fmt.Errorf("set congestion control %s: %w", o.Congestion, err)
		}
	}
	noDelay := 0
	if o.NoDelay {
		noDelay = 1
	}
	if err := unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_NODELAY, noDelay); err != nil {
		return fmt.Errorf("set tcp_nodelay to %d: %w", noDelay, err)
	}
	return nil
}

func get(fd uintptr) (Granted, error) {
	var g Granted
	for _, o := range []struct {
		name          string
		level, option int
		keep          func(v int)
	}{
		{"send buffer", unix.SOL_SOCKET, unix.SO_SNDBUF, func(v int) { g.SendBuffer = fact.Known(units.Bytes(v), "SO_SNDBUF") }},
		{"receive buffer", unix.SOL_SOCKET, unix.SO_RCVBUF, func(v int) { g.RecvBuffer = fact.Known(units.Bytes(v), "SO_RCVBUF") }},
		{"segment size", unix.IPPROTO_TCP, unix.TCP_MAXSEG, func(v int) { g.MSS = fact.Known(v, "TCP_MAXSEG") }},
		{"tcp_nodelay", unix.IPPROTO_TCP, unix.TCP_NODELAY, func(v int) { g.NoDelay = fact.Known(v != 0, "TCP_NODELAY") }},
	} {
		v, err := unix.GetsockoptInt(int(fd), o.level, o.option)
		if errors.Is(err, unix.EOPNOTSUPP) {
			continue // Multipath TCP reports the segment size since 6.16 [K]
		}
		if err != nil {
			return Granted{}, fmt.Errorf("read %s on %s: %w", o.name, runtime.GOOS, err)
		}
		o.keep(v)
	}
	return g, nil
}
