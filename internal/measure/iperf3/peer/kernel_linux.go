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

// deliveryIsFinal says that delivered knows of the end too; elsewhere the send buffer is
// empty, as that of a sender that is not done can be.
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

// delivered reports whether the peer has acknowledged everything that was written to a
// connection that has been shut down. It does not wait for the end itself to be acknowledged: the
// peer's kernel may put that off by 40 ms (TCP_DELACK_MIN), where what its
// program reads is acknowledged at once.
func delivered(c *net.TCPConn) (bool, error) {
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

// received is how many bytes have come since the connection began, read or not. The peer's
// end may count as one more.
func received(c *net.TCPConn) (int64, error) {
	i, err := info(c)
	if err != nil {
		return 0, err
	}
	return int64(i.Bytes_received), nil
}

// fionread asks for the bytes in the receive buffer.
const fionread = unix.SIOCINQ

// Bounds of what a paced connection keeps in its send buffer beyond what is
// on its way.
const (
	leastAhead = 16 << 10
	mostAhead  = 1 << 20
)

// pace limits what c sends of payload: TCP paces itself, with or without the queueing discipline fq.
// It counts payload: tcp_update_skb_after_send, net/ipv4/tcp_output.c. The send
// buffer is kept at about 20 ms of data, because what waits in it has been
// counted as sent.
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
