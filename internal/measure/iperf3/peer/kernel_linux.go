package peer

import (
	"errors"
	"fmt"
	"net"

	"linerate/internal/measure/sockio"

	"golang.org/x/sys/unix"
)

// States of enum in include/net/tcp_states.h.
const (
	stateFinWait1  = 4
	stateFinWait2  = 5
	stateTimeWait  = 6
	stateClose     = 7
	stateCloseWait = 8
	stateLastAck   = 9
	stateClosing   = 11
)

// deliveryIsFinal: see delivered.
const deliveryIsFinal = true

func info(c *net.TCPConn) (*unix.TCPInfo, error) {
	var out *unix.TCPInfo
	err := reach(c, func(fd uintptr) error {
		i, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		out = i
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read tcp_info: %w", err)
	}
	return out, nil
}

// kernelDelivered does not wait for the end itself to be acknowledged: the
// peer's kernel may put that off by 40 ms (TCP_DELACK_MIN), where what its
// program reads is acknowledged at once.
func kernelDelivered(c *net.TCPConn) (bool, error) {
	i, err := info(c)
	if err != nil {
		return false, err
	}
	switch i.State {
	case stateFinWait2, stateTimeWait, stateClose:
		return true, nil
	case stateFinWait1, stateClosing, stateLastAck:
		// The end takes one number of the sequence.
		n, err := sockio.Unacknowledged(c)
		return err == nil && n <= 1, err
	}
	return false, nil
}

func kernelEnded(c *net.TCPConn) (bool, error) {
	i, err := info(c)
	if err != nil {
		return false, err
	}
	switch i.State {
	case stateCloseWait, stateLastAck, stateClosing, stateTimeWait, stateClose:
		return true, nil
	}
	return false, nil
}

func kernelReceived(c *net.TCPConn) (int64, error) {
	i, err := info(c)
	if err != nil {
		return 0, err
	}
	return int64(i.Bytes_received), nil
}

func kernelUnread(c *net.TCPConn) (int, error) {
	n := 0
	err := reach(c, func(fd uintptr) (err error) {
		n, err = unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read receive queue: %w", err)
	}
	return n, nil
}

// Bounds of what a paced connection keeps in its send buffer beyond what is
// on its way.
const (
	leastAhead = 16 << 10
	mostAhead  = 1 << 20
)

// kernelPace lets TCP pace itself, with or without the queueing discipline fq.
// It counts payload: tcp_update_skb_after_send, net/ipv4/tcp_output.c. The send
// buffer is kept at about 20 ms of data, because what waits in it has been
// counted as sent.
func kernelPace(c *net.TCPConn, bytesPerSecond uint64) error {
	ahead := int(min(max(bytesPerSecond/50, leastAhead), mostAhead))
	err := reach(c, func(fd uintptr) error {
		return unix.SetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, bytesPerSecond)
	})
	if err = errors.Join(err, sockio.LimitUnsent(c, ahead)); err != nil {
		return fmt.Errorf("set pacing rate: %w", err)
	}
	return nil
}
