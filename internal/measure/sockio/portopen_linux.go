package sockio

import (
	"errors"

	"golang.org/x/sys/unix"
)

// unseen has a client's socket hold back the acknowledgement that completes the handshake for
// 200 ms (tcp_rcv_synsent_state_process, net/ipv4/tcp_input.c, and TCP_DELACK_MAX), and send a
// reset when it is closed. A reset before that acknowledgement leaves nothing to accept
// (tcp_check_req, net/ipv4/tcp_minisocks.c).
func unseen(fd uintptr) error {
	return errors.Join(
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 1),
		unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
}
