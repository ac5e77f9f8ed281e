package iperf3

import (
	"cmp"
	"fmt"
	"io"
)

// State is one signed byte on the control connection (section 3). It is sent alone; anything
// that follows it is a message of its own.
type State int8

// The states of section 3. States that no version sends are left out; Known returns false for
// them.
const (
	TestStart       State = 1  // server: all streams are accepted
	TestRunning     State = 2  // server: data may flow
	TestEnd         State = 4  // client: no more data
	ParamExchange   State = 9  // server: send the parameters
	CreateStreams   State = 10 // server: open the streams
	ServerTerminate State = 11 // server: it is shutting down
	ClientTerminate State = 12 // client: it is shutting down
	ExchangeResults State = 13 // server: send the results
	DisplayResults  State = 14 // server: the results are complete
	Done            State = 16 // client: the end
	AccessDenied    State = -1 // server: busy, or a wrong cookie
	ServerFailed    State = -2 // server: an error code follows (section 7)
)

// Party is one of the two programs of a test. The client connects and requests; either may send
// data.
type Party int

// The parties.
const (
	Client Party = iota + 1
	Server
)

// name returns the name of the state in the iperf3 sources, "" for an unknown one.
func (s State) name() string {
	return map[State]string{
		TestStart: "TEST_START", TestRunning: "TEST_RUNNING", TestEnd: "TEST_END", ParamExchange: "PARAM_EXCHANGE",
		CreateStreams: "CREATE_STREAMS", ServerTerminate: "SERVER_TERMINATE", ClientTerminate: "CLIENT_TERMINATE",
		ExchangeResults: "EXCHANGE_RESULTS", DisplayResults: "DISPLAY_RESULTS", Done: "IPERF_DONE",
		AccessDenied: "ACCESS_DENIED", ServerFailed: "SERVER_ERROR",
	}[s]
}

// Known reports whether any version sends the state.
func (s State) Known() bool { return s.name() != "" }

// String returns the name in the iperf3 sources, or "state N".
func (s State) String() string { return cmp.Or(s.name(), fmt.Sprintf("state %d", int8(s))) }

// Byte returns the state in wire format.
func (s State) Byte() byte { return byte(s) }

// ReadState reads exactly one byte, since states may share a segment with what follows. The
// error wraps io.EOF if the peer closed instead. A state that is not Known is not an error: the
// caller reports it.
func ReadState(r io.Reader) (State, error) {
	var b [1]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, fmt.Errorf("read state: %w", err)
	}
	return State(b[0]), nil
}
