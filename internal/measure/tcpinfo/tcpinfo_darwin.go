package tcpinfo

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

const connectionSource = "TCP_CONNECTION_INFO"

func read(fd uintptr) (Info, error) {
	c, err := unix.GetsockoptTCPConnectionInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_CONNECTION_INFO)
	if err != nil {
		return Info{}, fmt.Errorf("read tcp_connection_info: %w", err)
	}
	const none = "not in tcp_connection_info of darwin"
	i := Info{
		Timestamps:    fact.Known(c.Options&optTimestamps != 0, connectionSource),
		SACK:          fact.Known(c.Options&optSACK != 0, connectionSource),
		ECN:           fact.Known(c.Options&optECN != 0, connectionSource),
		MSS:           fact.Known(int(c.Maxseg), connectionSource),
		PathMTU:       fact.Unknown[int](none),
		RTTMin:        fact.Unknown[time.Duration](none),
		Cwnd:          fact.Known(units.Bytes(c.Snd_cwnd), connectionSource),
		PeerWindow:    fact.Known(units.Bytes(c.Snd_wnd), connectionSource),
		NotSent:       fact.Unknown[units.Bytes](none),
		Retransmits:   fact.Known(int64(c.Txretransmitpackets), connectionSource),
		SegmentsOut:   fact.Known(int64(c.Txpackets), connectionSource),
		SegmentsIn:    fact.Known(int64(c.Rxpackets), connectionSource),
		Busy:          fact.Unknown[time.Duration](none),
		RwndLimited:   fact.Unknown[time.Duration](none),
		SndbufLimited: fact.Unknown[time.Duration](none),
		DeliveryRate:  fact.Unknown[units.BitRate](none),
		AppLimited:    fact.Unknown[bool](none),
	}
	if c.Options&optScale != 0 {
		i.SendScale = fact.Known(int(c.Snd_wscale), connectionSource)
		i.RecvScale = fact.Known(int(c.Rcv_wscale), connectionSource)
	}
	// The system reports round trips in whole milliseconds, 0 below one.
	if c.Srtt > 0 {
		i.RTT = fact.Known(time.Duration(c.Srtt)*time.Millisecond, connectionSource)
		i.RTTVar = fact.Known(time.Duration(c.Rttvar)*time.Millisecond, connectionSource)
	}
	return i, nil
}

func congestion(uintptr) (string, error) {
	return "", fmt.Errorf("read congestion control of a socket on darwin: %w", errors.ErrUnsupported)
}
