package sockio

import (
	"errors"
	"fmt"
)

// bufferFactor is 1: the system reports the buffer size as requested.
const bufferFactor = 1

// bufferLimit names the setting that caps the send or receive buffer of a program.
func bufferLimit(string) string { return "kern.ipc.maxsockbuf" }

func setCongestion(int, string) error {
	return fmt.Errorf("darwin has one congestion control for all sockets: %w", errors.ErrUnsupported)
}
