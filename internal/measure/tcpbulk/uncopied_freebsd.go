package tcpbulk

import "syscall"

// discard is 0: FreeBSD's soreceive has no MSG_TRUNC for streams, so that hold and sendFile are
// never called.
const discard = 0

func hold([]byte) (int, error) { return -1, noWay() }

func sendFile(_, _ int, _ int64) (int, syscall.Errno) { return 0, syscall.ENOSYS }
