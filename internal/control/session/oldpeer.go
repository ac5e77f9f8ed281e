package session

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"linerate/internal/control/session/sessionpb"
)

// Linerates of session protocol 1 begin with HTTP/2 and say hello in its first
// call. They are told that the two ends do not fit, in their own words: the few
// frames for that are written by hand, so that no HTTP/2 server listens to who
// has not said hello.

// http2Preface is what a client of HTTP/2 sends first (RFC 9113 section 3.4).
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

var (
	errOldController = errors.New("a controller of session protocol 1")
	errOldAgent      = errors.New("an agent of session protocol 1")
)

// Frames of HTTP/2 (RFC 9113 section 4.1): length (3 bytes), type, flags, stream
// (4 bytes), payload.
const (
	frameHead     = 9
	frameData     = 0x0
	frameHeaders  = 0x1
	frameSettings = 0x4
	endStream     = 0x1
	endHeaders    = 0x4
)

// isSettings reports whether b begins like the SETTINGS that an HTTP/2 server
// sends first: a frame of less than 64 KiB without flags on stream 0.
func isSettings(b []byte) bool {
	return len(b) >= 8 && b[0] == 0 && b[3] == frameSettings && b[4] == 0 && b[5] == 0 && b[6] == 0 && b[7] == 0
}

// tellOld reads the hello of protocol 1 from c, of which the first 8 bytes were
// read, and refuses it. It takes in no more than the greeting of today.
func (a *adapter) tellOld(c io.ReadWriter) {
	in := io.LimitReader(c, maxGreeting)
	if _, err := io.CopyN(io.Discard, in, int64(len(http2Preface)-magicBytes)); err != nil {
		return
	}
	stream, body, err := firstCall(in)
	if err != nil {
		return
	}
	p := new(sessionpb.HelloRequest)
	_ = proto.Unmarshal(body, p) // an unknown version is as good a reason
	speaks := max(p.GetProtocol(), 1)
	var k check
	version := k.text("version", p.GetVersion(), MaxName)
	if k.err != nil {
		version = "unknown"
	}
	text, err := json.Marshal(map[string]string{
		"code": "out_of_range", "message": mismatch("the agent", a.version, Protocol, "the controller", version, speaks).Error(),
	})
	if err != nil {
		return
	}
	// :status 400 and content-type of the static table of HPACK (RFC 7541 section
	// 6.1, 6.2.2 and appendix A).
	const kind = "application/json"
	headers := append([]byte{0x8c, 0x0f, 31 - 15, byte(len(kind))}, kind...)
	answer := frame(frameSettings, 0, 0, nil)
	answer = append(answer, frame(frameHeaders, endHeaders, stream, headers)...)
	if _, err := c.Write(append(answer, frame(frameData, endStream, stream, text)...)); err != nil {
		return
	}
	late := time.AfterFunc(lingerAfterRefusal, func() {
		if closer, ok := c.(io.Closer); ok {
			_ = closer.Close()
		}
	})
	defer late.Stop()
	_, _ = io.Copy(io.Discard, in)
}

// firstCall reads frames up to the end of the first request and returns its
// stream and its body.
func firstCall(in io.Reader) (stream uint32, body []byte, err error) {
	for {
		var h [frameHead]byte
		if _, err := io.ReadFull(in, h[:]); err != nil {
			return 0, nil, err
		}
		n := int(h[0])<<16 | int(h[1])<<8 | int(h[2])
		if n > maxGreeting {
			return 0, nil, ErrInvalid
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(in, b); err != nil {
			return 0, nil, err
		}
		if h[3] == frameData {
			body = append(body, b...)
		}
		if (h[3] == frameData || h[3] == frameHeaders) && h[4]&endStream != 0 {
			return binary.BigEndian.Uint32(h[5:]) &^ (1 << 31), body, nil
		}
	}
}

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, payload...)
}
