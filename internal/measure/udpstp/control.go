package udpstp

import (
	"fmt"
	"time"
)

// SetupLength is the length of a Setup request and of its response.
const SetupLength = 56

// Setup requests a flow of a test from a server, or is its response (section 2.1).
type Setup struct {
	Version       uint16
	Index, Count  uint8  // of this flow, from 0, and of all flows of the test
	Ident         uint16 // of the test, the same in all its flows
	Answer        bool   // it is the response
	Response      Response
	Bandwidth     uint16 // requested Mbit/s, of 15 bits; 0 is no request
	Upstream      bool   // the bandwidth applies to what the client sends
	Port          uint16 // of the server, for the flow
	Jumbo         bool   // datagrams above 1 Gbit/s grow to 9000 bytes
	Traditional   bool   // datagrams make packets of 1500 bytes, not of 1250
	Authenticated uint8  // the mode: 0 or 1
	Time          uint32 // of the signature, seconds since 1970
	Key           uint8  // number of the key
}

// Response is a server's response to a Setup request.
type Response uint8

// The responses (section 2.1).
const (
	Accepted Response = iota + 1
	OtherVersion
	OtherJumbo
	AuthNotConfigured
	AuthRequired
	AuthMode
	AuthFailed
	AuthTime
	BandwidthRequired
	CapacityExceeded
	OtherTraditional
	BadFlows
	NoFlowLeft
)

// Error says what the server refuses.
func (r Response) Error() string {
	texts := [...]string{
		OtherVersion: "it speaks another version of the protocol", OtherJumbo: "its setting of jumbo datagrams differs",
		AuthNotConfigured: "it has no keys", AuthRequired: "it asks for a key", AuthMode: "it does not know this mode of authentication",
		AuthFailed: "the key is wrong", AuthTime: "the clocks of both hosts differ by more than 5 s",
		BandwidthRequired: "it wants to know the bandwidth", CapacityExceeded: "its capacity is taken",
		OtherTraditional: "its size of packets differs", BadFlows: "it does not accept that many flows", NoFlowLeft: "it has no flow left",
	}
	if int(r) < len(texts) && texts[r] != "" {
		return texts[r]
	}
	return fmt.Sprintf("it answers with code %d", uint8(r))
}

// Append appends the PDU, unsigned.
func (s Setup) Append(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, SetupLength)...)
	p := b[at:]
	be.PutUint16(p, setupID)
	be.PutUint16(p[2:], s.Version)
	p[4], p[5] = s.Index, s.Count
	be.PutUint16(p[6:], s.Ident)
	p[8], p[9] = 1+flag(s.Answer), byte(s.Response)
	be.PutUint16(p[10:], s.Bandwidth&0x7fff|uint16(flag(s.Upstream))<<15)
	be.PutUint16(p[12:], s.Port)
	p[14], p[15] = flag(s.Jumbo)|flag(s.Traditional)<<1, s.Authenticated
	be.PutUint32(p[16:], s.Time)
	p[52] = s.Key
	return b
}

// ParseSetup parses a Setup request or response.
func ParseSetup(b []byte) (Setup, error) {
	if err := check(b, SetupLength, setupID, 54); err != nil {
		return Setup{}, err
	}
	if len(b) != SetupLength || b[8] != 1 && b[8] != 2 {
		return Setup{}, fmt.Errorf("%w: a Setup of kind %d in %d bytes", ErrPDU, b[8], len(b))
	}
	bandwidth := be.Uint16(b[10:])
	return Setup{
		Version: be.Uint16(b[2:]), Index: b[4], Count: b[5], Ident: be.Uint16(b[6:]), Answer: b[8] == 2, Response: Response(b[9]),
		Bandwidth: bandwidth & 0x7fff, Upstream: bandwidth>>15 != 0, Port: be.Uint16(b[12:]),
		Jumbo: b[14]&1 != 0, Traditional: b[14]&2 != 0, Authenticated: b[15], Time: be.Uint32(b[16:]), Key: b[52],
	}, nil
}

// NullLength is the length of a Null PDU.
const NullLength = 48

// AppendNull appends the PDU with which a server opens the firewall in front of it, unsigned
// (section 2.2).
func AppendNull(b []byte, version uint16, mode uint8) []byte {
	at := len(b)
	b = append(b, make([]byte, NullLength)...)
	be.PutUint16(b[at:], nullID)
	be.PutUint16(b[at+2:], version)
	b[at+4], b[at+7] = 1, mode
	return b
}

// IsNull reports whether b is a Null PDU, which has no content.
func IsNull(b []byte) bool { return len(b) == NullLength && be.Uint16(b) == nullID }

// Algorithm is a search algorithm for the highest sending rate.
type Algorithm uint8

// The algorithms (section 4).
const (
	AlgorithmB Algorithm = iota // ITU-T Y.1540 Annex B
	AlgorithmC                  // multiply and retry
)

// Searched is the Index of a test whose search begins at the lowest rate.
const Searched = 0xffff

// Activation requests the start of a flow from a server, or is its response (section 2.3).
type Activation struct {
	Version     uint16
	Upstream    bool // the client sends
	Response    uint8
	Low, Upper  time.Duration // of delay variation: below Low is good, above Upper is bad
	Trial       time.Duration // between two status PDUs
	Length      time.Duration // of the test, whole seconds
	Mark        uint8         // octet of DSCP and ECN
	Index       uint16        // row of the table of sending rates; Searched
	OneWay      bool          // the delay is one way, not the round trip
	Delta       uint8         // rows of a large step
	SlowLimit   uint16        // bad status PDUs until the search is slow
	ErrorLimit  uint16        // errors in the sequence that are still good
	IgnoreOrder bool          // reordered and duplicate datagrams are no errors
	Start       bool          // the search begins at Index
	Random      bool          // payload is random
	Algorithm   Algorithm
	Rate        Rate          // of an upstream test, from the server
	Period      time.Duration // of a sub-interval
	Mode, Key   uint8         // authentication
	Time        uint32
}

// ActivationOK and ActivationBad are the responses.
const (
	ActivationOK  = 1
	ActivationBad = 2
)

// Defaults returns the request of obudpst without options.
func Defaults() Activation {
	return Activation{
		Version: Version, Low: 30 * time.Millisecond, Upper: 90 * time.Millisecond, Trial: 50 * time.Millisecond, Length: 10 * time.Second,
		Index: Searched, Delta: 10, SlowLimit: 3, ErrorLimit: 10, IgnoreOrder: true, Period: time.Second,
	}
}

// Bounds of the parameters (obudpst 9.0.0, udpst.h).
const (
	MinLength = 5 * time.Second
	MaxLength = time.Hour
	MinPeriod = 100 * time.Millisecond
	MaxPeriod = 10 * time.Second
	minTrial  = 5 * time.Millisecond
	maxTrial  = 250 * time.Millisecond
	maxDelay  = 10 * time.Second
)

// Policed returns a with values out of bounds replaced by their defaults, and values above the
// server's limits by these: length, and the highest row (section 2.3).
func (a Activation) Policed(length time.Duration, row int) Activation {
	d := Defaults()
	outside := func(v, low, high time.Duration) bool { return v < low || v > high }
	if outside(a.Low, time.Millisecond, maxDelay) || outside(a.Upper, a.Low, maxDelay) {
		a.Low, a.Upper = d.Low, d.Upper
	}
	if outside(a.Trial, minTrial, maxTrial) {
		a.Trial = d.Trial
	}
	if outside(a.Length, MinLength, MaxLength) {
		a.Length = d.Length
	}
	a.Length = min(a.Length, length)
	if outside(a.Period, MinPeriod, MaxPeriod) {
		a.Period = d.Period
	}
	a.Period = min(a.Period, a.Length)
	if a.Index >= Rows {
		a.Index = Searched
	} else {
		a.Index = min(a.Index, uint16(row))
	}
	if a.Delta == 0 {
		a.Delta = d.Delta
	}
	if a.SlowLimit == 0 {
		a.SlowLimit = d.SlowLimit
	}
	if a.Algorithm > AlgorithmC {
		a.Algorithm = AlgorithmB
	}
	a.Mark, a.Random, a.Rate = 0, false, Rate{}
	return a
}

// ActivationLength is the length of an activation PDU in a version.
func ActivationLength(version uint16) int {
	if version < Version {
		return 60
	}
	return 104
}

// Append appends the PDU, unsigned.
func (a Activation) Append(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, ActivationLength(a.Version))...)
	p := b[at:]
	be.PutUint16(p, activationID)
	be.PutUint16(p[2:], a.Version)
	p[4], p[5] = 2-flag(a.Upstream), a.Response
	for i, d := range []time.Duration{a.Low, a.Upper, a.Trial} {
		be.PutUint16(p[6+2*i:], uint16(millis(d, 16)))
	}
	be.PutUint16(p[12:], uint16(a.Length/time.Second))
	p[15] = a.Mark
	be.PutUint16(p[16:], a.Index)
	p[18], p[19] = flag(a.OneWay), a.Delta
	be.PutUint16(p[20:], a.SlowLimit)
	be.PutUint16(p[22:], a.ErrorLimit)
	p[24], p[25], p[26] = flag(a.IgnoreOrder), flag(a.Start)|flag(a.Random)<<1, byte(a.Algorithm)
	a.Rate.put(p[28:])
	if a.Version < Version {
		p[14] = byte(a.Period / time.Second)
		return b
	}
	be.PutUint16(p[56:], uint16(millis(a.Period, 16)))
	p[63] = a.Mode
	be.PutUint32(p[64:], a.Time)
	p[100] = a.Key
	return b
}

// ParseActivation parses an activation request or response of a flow of that version.
func ParseActivation(b []byte, version uint16) (Activation, error) {
	length, sum := ActivationLength(version), 102
	if version < Version {
		sum = 58
	}
	if err := check(b, length, activationID, sum); err != nil {
		return Activation{}, err
	}
	if len(b) != length || b[4] != 1 && b[4] != 2 {
		return Activation{}, fmt.Errorf("%w: an activation of kind %d in %d bytes", ErrPDU, b[4], len(b))
	}
	ms := func(at int) time.Duration { return time.Duration(be.Uint16(b[at:])) * time.Millisecond }
	a := Activation{
		Version: be.Uint16(b[2:]), Upstream: b[4] == 1, Response: b[5], Low: ms(6), Upper: ms(8), Trial: ms(10),
		Length: time.Duration(be.Uint16(b[12:])) * time.Second, Mark: b[15], Index: be.Uint16(b[16:]), OneWay: b[18] != 0, Delta: b[19],
		SlowLimit: be.Uint16(b[20:]), ErrorLimit: be.Uint16(b[22:]), IgnoreOrder: b[24] != 0, Start: b[25]&1 != 0, Random: b[25]&2 != 0,
		Algorithm: Algorithm(b[26]), Rate: rateAt(b[28:]),
	}
	if version < Version {
		a.Period = time.Duration(b[14]) * time.Second
		return a, nil
	}
	a.Period, a.Mode, a.Time, a.Key = ms(56), b[63], be.Uint32(b[64:]), b[100]
	return a, nil
}
