package packets

import (
	"context"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"linerate/internal/measure/sockio"
	"linerate/internal/panics"
)

// unmarked is the byte of marks if the system does not report the mark.
const unmarked = 0xff

// answer reports what arrives until the sender closes its half of the line.
func (t *test) answer(ctx context.Context) error {
	var watch panics.Group
	watch.Go(func() {
		_, _ = io.Copy(io.Discard, t.line) // the sender sends nothing more before it closes
		_ = t.socket.SetReadDeadline(time.Unix(1, 0))
	})
	defer watch.Wait()
	defer func() { _ = t.line.SetReadDeadline(time.Unix(1, 0)) }()
	b, marks := make([]byte, mostBytes), make([]byte, 128)
	for {
		n, oob, _, _, err := t.socket.ReadMsgUDP(b, marks)
		switch e, isTimeout := errors.AsType[net.Error](err); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isTimeout && e.Timeout(), errors.Is(err, net.ErrClosed):
			return nil
		case err != nil || n < headerLen || !t.mine(b[:n]):
			continue // a late datagram of the opening, or an earlier port unreachable
		}
		var a [answerLen]byte
		copy(a[:4], b[headerLen-4:headerLen])
		binary.BigEndian.PutUint32(a[4:], uint32(n))
		a[8] = unmarked
		if m, ok := sockio.Mark(marks[:oob]); ok {
			a[8] = m
		}
		if _, err := t.line.Write(a[:]); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
}

// mine reports whether a datagram belongs to this run.
func (t *test) mine(b []byte) bool {
	return string(b[:len(magic)]) == magic && subtle.ConstantTimeCompare(b[len(magic):len(magic)+keyLen], t.key[:]) == 1
}
