package peer

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/sockio"
)

// ErrIperf3 reports that the server runs iperf3, which has another protocol.
var ErrIperf3 = errors.New("this looks like an iperf3 server")

// An iperf3 server may take firstWord to send its first byte, and lastWord if it has accepted
// a connection after a test that failed: then to recognise it matters more than a second.
const (
	firstWord = time.Second
	lastWord  = 4 * firstWord
)

// readAck reads a server's ack. An iperf3 server takes a header of 2.1 for a cookie and asks
// for parameters, or reports that it is busy: no ack begins with these bytes.
func readAck(c net.Conn) error {
	var first [1]byte
	if _, err := io.ReadFull(c, first[:]); err != nil {
		return fmt.Errorf("read ack: %w", err)
	}
	if isIperf3Word(first[0]) {
		return ErrIperf3
	}
	_, err := iperf2.ReadAck(io.MultiReader(bytes.NewReader(first[:]), c))
	return err
}

// isIperf3Word reports whether an iperf3 server may answer a cookie with b.
func isIperf3Word(b byte) bool {
	s := iperf3.State(int8(b))
	return s == iperf3.ParamExchange || s == iperf3.AccessDenied || s == iperf3.ServerFailed
}

// leadBytes is what payloadBegins reads of each connection.
const leadBytes = 2

// payloadBegins waits at most limit until payload arrives on all connections, and reads its
// first bytes. An iperf3 server sends one byte, and then waits itself.
func payloadBegins(ctx context.Context, conns []*net.TCPConn, limit time.Duration) error {
	until := time.Now().Add(limit)
	defer context.AfterFunc(ctx, func() {
		for _, c := range conns {
			_ = c.SetReadDeadline(time.Unix(1, 0)) // fails only where the connection is closed
		}
	})()
	for _, c := range conns {
		word := false
		for i := range leadBytes {
			by := until
			if i > 0 {
				by = earlier(until, time.Now().Add(firstWord))
			}
			if err := c.SetReadDeadline(by); err != nil {
				return err
			}
			var b [1]byte
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if _, err := io.ReadFull(c, b[:]); err != nil {
				if word {
					return ErrIperf3
				}
				return fmt.Errorf("%d bytes came: %w", i, noEOF(err))
			}
			word = isIperf3Word(b[0])
		}
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// speaksIperf3 reports whether an iperf3 server listens at addr. It opens a test there and
// leaves at once. After a test such a server closes its port for a moment, and resets waiting
// clients, so speaksIperf3 tries more than once.
func speaksIperf3(ctx context.Context, addr string, from model.Egress) bool {
	ctx, cancel := context.WithTimeout(ctx, lastWord)
	defer cancel()
	began := time.Now()
	pause := time.NewTicker(firstWord / 10)
	defer pause.Stop()
	cookie, err := iperf3.NewCookie(rand.Reader)
	for err == nil && time.Since(began) < firstWord {
		if sockio.Answers(ctx, addr, from, cookie[:], func(r io.Reader) bool {
			var first [1]byte
			_, err := io.ReadFull(r, first[:])
			return err == nil && isIperf3Word(first[0])
		}) {
			return true
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// someWord is more than an iperf3 server sends to a client that it does not understand, and
// less than any payload.
const someWord = 64

// ErrSilent reports that nothing arrived from the server.
var ErrSilent = errors.New("no answer: nothing came back")

// judgePeer returns err, or ErrIperf3 if a test failed because the server is no iperf 2, or
// ErrSilent if there seems to be no server.
func (t *clientTest) judgePeer(ctx context.Context, near model.EndReport, err error) error {
	if ctx.Err() != nil || errors.Is(err, ErrIperf3) || isDial(err) {
		return err
	}
	moved := err == nil
	for _, d := range t.flow.Direction.Parts() {
		got := near
		if d == model.To {
			got = t.far // a client that sent to no server has still sent
		}
		some := false
		for _, f := range got.Flows {
			some = some || f.Direction == d && f.Bytes > someWord
		}
		moved = moved && (some || d == model.To && t.flow.Direction == model.Both)
	}
	if !moved && speaksIperf3(ctx, t.addr, t.Egress) {
		return fmt.Errorf("%s: %w", t.addr, ErrIperf3)
	}
	late, isNet := errors.AsType[net.Error](err)
	switch {
	case err == nil && t.datagrams && t.mode == iperf2.Forward && !t.heard:
		return ErrSilent // 2.0 and 2.1 report at the end, and repeat it
	case t.mode == iperf2.Reverse && isNet && late.Timeout():
		return fmt.Errorf("%w: %w", ErrSilent, err)
	}
	return err
}

// isDial reports whether the connection failed.
func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
