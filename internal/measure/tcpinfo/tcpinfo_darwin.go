package tcpinfo

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Bits of tcpi_options, bsd/netinet/tcp.h of xnu.
const (
	optTimestamps = 1
	optSACK       = 2
	optScale      = 4
	optECN        = 8
)

const source = "TCP_CONNECTION_INFO"

func read(fd uintptr) (Info, error) {
	c, err := unix.GetsockoptTCPConnectionInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_CONNECTION_INFO)
	if err != nil {
		return Info{}, fmt.Errorf("read tcp_connection_info: %w", err)
	}
	const none = "not in tcp_connection_info of darwin"
	i := Info{
		Timestamps:    fact.Known(c.Options&optTimestamps != 0, source),
		SACK:          fact.Known(c.Options&optSACK != 0, source),
		ECN:           fact.Known(c.Options&optECN != 0, source),
		MSS:           fact.Known(int(c.Maxseg), source),
		PathMTU:       fact.Unknown[int](none),
		RTTMin:        fact.Unknown[time.Duration](none),
		Cwnd:          fact.Known(units.Bytes(c.Snd_cwnd), source),
		PeerWindow:    fact.Known(units.Bytes(c.Snd_wnd), source),
		NotSent:       fact.Unknown[units.Bytes](none),
		Retransmits:   fact.Known(int64(c.Txretransmitpackets), source),
		SegmentsOut:   fact.Known(int64(c.Txpackets), source),
		Busy:          fact.Unknown[time.Duration](none),
		RwndLimited:   fact.Unknown[time.Duration](none),
		SndbufLimited: fact.Unknown[time.Duration](none),
		DeliveryRate:  fact.Unknown[units.BitRate](none),
		AppLimited:    fact.Unknown[bool](none),
	}
	if c.Options&optScale != 0 {
		i.SendScale = fact.Known(int(c.Snd_wscale), source)
		i.RecvScale = fact.Known(int(c.Rcv_wscale), source)
	}
	// The system counts round trips in whole milliseconds and says 0 below one.
	if c.Srtt > 0 {
		i.RTT = fact.Known(time.Duration(c.Srtt)*time.Millisecond, source)
		i.RTTVar = fact.Known(time.Duration(c.Rttvar)*time.Millisecond, source)
	}
	return i, nil
}

func congestion(uintptr) (string, error) {
	return "", fmt.Errorf("read congestion control of a socket on darwin: %w", errors.ErrUnsupported)
}
