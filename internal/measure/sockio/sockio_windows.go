package sockio

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
)

// bufferFactor is 1: the system reports the buffer size as requested.
const bufferFactor = 1

// bufferLimit names the setting that caps the send or receive buffer of a program.
func bufferLimit(string) string { return "the system" }

func set(fd uintptr, o engine.SocketOptions) error {
	s := windows.Handle(fd)
	if o.MSS != 0 {
		return fmt.Errorf("set segment size to %d bytes: windows takes it from the interface: %w", o.MSS, errors.ErrUnsupported)
	}
	if o.Congestion != "" {
		return fmt.Errorf("set congestion control %s: windows chooses it by template, see Set-NetTCPSetting: %w",
			o.Congestion, errors.ErrUnsupported)
	}
	if o.Window != 0 {
		if err := windows.SetsockoptInt(s, windows.SOL_SOCKET, windows.SO_SNDBUF, o.Window); err != nil {
			return fmt.Errorf("set send buffer to %d bytes: %w", o.Window, err)
		}
		if err := windows.SetsockoptInt(s, windows.SOL_SOCKET, windows.SO_RCVBUF, o.Window); err != nil {
			return fmt.Errorf("set receive buffer to %d bytes: %w", o.Window, err)
		}
	}
	noDelay := 0
	if o.NoDelay {
		noDelay = 1
	}
	if err := windows.SetsockoptInt(s, windows.IPPROTO_TCP, windows.TCP_NODELAY, noDelay); err != nil {
		return fmt.Errorf("set tcp_nodelay to %d: %w", noDelay, err)
	}
	return nil
}

func get(fd uintptr) (Granted, error) {
	const noMSS = "not available on windows"
	s := windows.Handle(fd)
	snd, err := windows.GetsockoptInt(s, windows.SOL_SOCKET, windows.SO_SNDBUF)
	if err != nil {
		return Granted{}, fmt.Errorf("read send buffer on windows: %w", err)
	}
	rcv, err := windows.GetsockoptInt(s, windows.SOL_SOCKET, windows.SO_RCVBUF)
	if err != nil {
		return Granted{}, fmt.Errorf("read receive buffer on windows: %w", err)
	}
	// The option is one byte wide (Winsock, IPPROTO_TCP options); the rest of the integer is
	// not written.
	noDelay, err := windows.GetsockoptInt(s, windows.IPPROTO_TCP, windows.TCP_NODELAY)
	if err != nil {
		return Granted{}, fmt.Errorf("read tcp_nodelay on windows: %w", err)
	}
	return Granted{
		SendBuffer: fact.Known(units.Bytes(snd), "SO_SNDBUF"),
		RecvBuffer: fact.Known(units.Bytes(rcv), "SO_RCVBUF"),
		MSS:        fact.Unknown[int](noMSS),
		NoDelay:    fact.Known(noDelay&0xff != 0, "TCP_NODELAY"),
	}, nil
}
