package peer

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"linerate/internal/measure/sockio"
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

// deliveryIsFinal reports that delivered also covers the end of the connection; elsewhere it
// only sees an empty send buffer, which an unfinished sender can have too.
const deliveryIsFinal = true

func info(c *net.TCPConn) (*unix.TCPInfo, error) {
	out, err := sockio.OnDescriptor(c, func(fd uintptr) (*unix.TCPInfo, error) {
		return unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err != nil {
		return nil, fmt.Errorf("read tcp_info: %w", err)
	}
	return out, nil
}

// delivered reports whether the peer has acknowledged everything written to a connection that
// has been shut down. It does not wait for the FIN to be acknowledged: the peer's kernel may
// delay that by 40 ms (TCP_DELACK_MIN), while it acknowledges data that its program reads at
// once.
func delivered(c *net.TCPConn) (bool, error) {
	i, err := info(c)
	if err != nil {
		return false, err
	}
	switch i.State {
	case stateFinWait2, stateTimeWait, stateClose:
		return true, nil
	case stateFinWait1, stateClosing, stateLastAck:
		// The FIN takes one sequence number.
		n, err := sockio.Unacknowledged(c)
		return err == nil && n <= 1, err
	}
	return false, nil
}

// ended reports whether the peer has ended its direction.
func ended(c *net.TCPConn) (bool, error) {
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

// received returns how many bytes have arrived since the connection began, read or not. The
// peer's FIN may count as one more.
func received(c *net.TCPConn) (int64, error) {
	i, err := info(c)
	if err != nil {
		return 0, err
	}
	return int64(i.Bytes_received), nil
}

// fionread requests the bytes in the receive buffer.
const fionread = unix.SIOCINQ

// Bounds of the unsent data in the send buffer of a paced connection.
const (
	leastAhead = 16 << 10
	mostAhead  = 1 << 20
)

// pace limits the payload rate of c: TCP paces itself, with or without the fq qdisc. It counts
// payload: tcp_update_skb_after_send, net/ipv4/tcp_output.c. It keeps the send buffer at about
// 20 ms of data, because data waiting in it counts as sent.
func pace(c *net.TCPConn, bytesPerSecond uint64) error {
	ahead := int(min(max(bytesPerSecond/50, leastAhead), mostAhead))
	err := sockio.WithDescriptor(c, func(fd uintptr) error {
		return unix.SetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, bytesPerSecond)
	})
	if err = errors.Join(err, sockio.LimitUnsent(c, ahead)); err != nil {
		return fmt.Errorf("set pacing rate: %w", err)
	}
	return nil
}
