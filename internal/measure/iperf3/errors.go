package iperf3

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Code is iperf3's own error number, as it follows the state ServerFailed
// (section 7).
type Code int32

// The codes of section 7 that a server sends or a reader should recognise.
const (
	CodeDuration         Code = 5
	CodeStreams          Code = 6
	CodeBlockSize        Code = 7
	CodeBufferSize       Code = 8
	CodeInterval         Code = 9
	CodeMSS              Code = 10
	CodeBurst            Code = 15
	CodeUDPBlockSize     Code = 20
	CodeTotalRate        Code = 27
	CodeMaxDuration      Code = 37
	CodeCookie           Code = 106
	CodeMessage          Code = 110
	CodeSendParams       Code = 113
	CodeReceiveParams    Code = 114
	CodeSendResults      Code = 116
	CodeReceiveResults   Code = 117
	CodeClientTerminated Code = 119
	CodeServerTerminated Code = 120
	CodeAccessDenied     Code = 121
	CodeBufferTooSmall   Code = 141
	CodeAuthentication   Code = 142
	CodeNoMessage        Code = 144
	CodeTimeLimit        Code = 160
	CodeStreamListen     Code = 202
	CodeStreamConnect    Code = 203
	CodeStreamAccept     Code = 204
	CodeStreamWrite      Code = 205
	CodeStreamRead       Code = 206
	CodeStreamClose      Code = 207
	CodeStreamID         Code = 208
)

// codeTexts is a function, so that nothing can modify it.
func codeTexts() map[Code]string {
	return map[Code]string{
		CodeDuration:         "test duration out of range",
		CodeStreams:          "number of streams out of range",
		CodeBlockSize:        "block size out of range",
		CodeBufferSize:       "socket buffer size out of range",
		CodeInterval:         "report interval out of range",
		CodeMSS:              "maximum segment size out of range",
		CodeBurst:            "burst out of range",
		CodeUDPBlockSize:     "datagram size out of range",
		CodeTotalRate:        "total rate above the server's limit",
		CodeMaxDuration:      "test longer than the server's maximum",
		CodeCookie:           "cookie could not be exchanged",
		CodeMessage:          "unknown control message",
		CodeSendParams:       "parameters could not be sent",
		CodeReceiveParams:    "parameters could not be received",
		CodeSendResults:      "results could not be sent",
		CodeReceiveResults:   "results could not be received",
		CodeClientTerminated: "the client was stopped",
		CodeServerTerminated: "the server was stopped",
		CodeAccessDenied:     "the server is busy",
		CodeBufferTooSmall:   "socket buffer smaller than asked",
		CodeAuthentication:   "authentication refused",
		CodeNoMessage:        "no control message in time",
		CodeTimeLimit:        "the server's time limit passed",
		CodeStreamListen:     "stream could not listen",
		CodeStreamConnect:    "stream could not connect",
		CodeStreamAccept:     "stream could not be accepted",
		CodeStreamWrite:      "stream could not be written",
		CodeStreamRead:       "stream could not be read",
		CodeStreamClose:      "stream could not be closed",
		CodeStreamID:         "unknown stream id",
	}
}

// String returns the meaning of the code, or "error N".
func (c Code) String() string {
	if text, ok := codeTexts()[c]; ok {
		return text
	}
	return fmt.Sprintf("error %d", int32(c))
}

// ServerError is the error that a server sends after the state ServerFailed.
type ServerError struct {
	Code     Code
	Errno    int32 // the server's errno, numbered as on its system; 0 if none
	HasErrno bool  // false if the server sent none, as 3.12 does on a refused token
}

// Error returns the meaning, the code and the errno unless it is 0.
func (e *ServerError) Error() string {
	if e.HasErrno && e.Errno != 0 {
		return fmt.Sprintf("iperf3 server: %s (code %d, errno %d there)", e.Code, int32(e.Code), e.Errno)
	}
	return fmt.Sprintf("iperf3 server: %s (code %d)", e.Code, int32(e.Code))
}

// ReadServerError reads what follows the state ServerFailed: a code, and an errno if the server
// sends one (section 7). There is none if the peer closes, stays silent until the reader's
// deadline or sends only part of it. The error is that of reading the code.
func ReadServerError(r io.Reader) (*ServerError, error) {
	var word [4]byte
	if _, err := io.ReadFull(r, word[:]); err != nil {
		return nil, fmt.Errorf("read the server's error code: %w", err)
	}
	e := &ServerError{Code: Code(binary.BigEndian.Uint32(word[:]))}
	if _, err := io.ReadFull(r, word[:]); err == nil {
		e.Errno, e.HasErrno = int32(binary.BigEndian.Uint32(word[:])), true
	}
	return e, nil
}

// Append appends the whole message to dst, including the state byte.
func (e *ServerError) Append(dst []byte) []byte {
	dst = append(dst, ServerFailed.Byte())
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.Code))
	if e.HasErrno {
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.Errno))
	}
	return dst
}
