package iperf3

import (
	"fmt"
	"io"
)

// State is one signed byte on the control connection (section 3). It is sent
// alone; what follows it, if anything, is its own message.
type State int8

// The states of section 3. Those that no version sends are left out; Known
// reports false for them.
const (
	TestStart       State = 1  // server: all streams are accepted
	TestRunning     State = 2  // server: data may flow
	TestEnd         State = 4  // client: no more data
	ParamExchange   State = 9  // server: send the parameters
	CreateStreams   State = 10 // server: open the streams
	ServerTerminate State = 11 // server: it is being stopped
	ClientTerminate State = 12 // client: it is being stopped
	ExchangeResults State = 13 // server: send the results
	DisplayResults  State = 14 // server: the results are complete
	Done            State = 16 // client: the end
	AccessDenied    State = -1 // server: busy, or a wrong cookie
	ServerFailed    State = -2 // server: an error code follows (section 7)
)

// Party is one of the two programs of a test. The client connects and asks;
// either may send data.
type Party int

// The parties; the zero value is neither.
const (
	Nobody Party = iota
	Client
	Server
)

// String returns "client", "server" or "nobody".
func (p Party) String() string {
	switch p {
	case Client:
		return "client"
	case Server:
		return "server"
	default:
		return "nobody"
	}
}

// info returns the name of the state in the iperf3 sources and who sends it.
func (s State) info() (string, Party) {
	switch s {
	case TestStart:
		return "TEST_START", Server
	case TestRunning:
		return "TEST_RUNNING", Server
	case TestEnd:
		return "TEST_END", Client
	case ParamExchange:
		return "PARAM_EXCHANGE", Server
	case CreateStreams:
		return "CREATE_STREAMS", Server
	case ServerTerminate:
		return "SERVER_TERMINATE", Server
	case ClientTerminate:
		return "CLIENT_TERMINATE", Client
	case ExchangeResults:
		return "EXCHANGE_RESULTS", Server
	case DisplayResults:
		return "DISPLAY_RESULTS", Server
	case Done:
		return "IPERF_DONE", Client
	case AccessDenied:
		return "ACCESS_DENIED", Server
	case ServerFailed:
		return "SERVER_ERROR", Server
	default:
		return "", Nobody
	}
}

// Known reports whether any version sends the state.
func (s State) Known() bool { _, by := s.info(); return by != Nobody }

// SentBy returns who may send the state, and Nobody for an unknown one.
func (s State) SentBy() Party { _, by := s.info(); return by }

// String returns the name in the iperf3 sources, or "state N".
func (s State) String() string {
	if name, by := s.info(); by != Nobody {
		return name
	}
	return fmt.Sprintf("state %d", int8(s))
}

// Byte returns the state as it goes on the wire.
func (s State) Byte() byte { return byte(s) }

// ReadState reads exactly one byte, as states are often glued to what comes
// next. It wraps io.EOF when the peer closed instead; a state that is not
// Known is returned without an error, for the caller to name.
func ReadState(r io.Reader) (State, error) {
	var b [1]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, fmt.Errorf("read state: %w", err)
	}
	return State(b[0]), nil
}
