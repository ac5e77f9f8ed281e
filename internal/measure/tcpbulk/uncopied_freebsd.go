package tcpbulk

import (
	"errors"
	"syscall"
)

// Without a copy only Linux sends and receives here: FreeBSD's soreceive has no MSG_TRUNC for
// streams.
const discard = 0

func hold([]byte) (int, error) { return -1, errors.ErrUnsupported }

func sendFile(_, _ int, _ int64) (int, syscall.Errno) { return 0, syscall.ENOSYS }
