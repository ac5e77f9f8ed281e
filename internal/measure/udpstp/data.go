package udpstp

import "fmt"

// Action tells the peer whether the test continues.
type Action uint8

// The actions. Stopping is internal to the server, and never sent.
const (
	Testing Action = iota
	Stopping
	Stopped
)

// LoadLength is the length of a load PDU's header, and MinLoad that of the shortest load PDU
// over IPv4.
const (
	LoadLength = 32
	MinLoad    = LoadLength + 20
)

// Load is the header of a load PDU (section 2.4).
type Load struct {
	Action       Action
	Stalled      bool   // the sender has received nothing for Stall
	Sequence     uint32 // from 1
	Payload      uint16 // bytes of UDP payload
	StatusErrors uint16 // status PDUs lost before the last one; 65535 is reordered
	Status       Stamp  // of the last status PDU received
	Sent         Stamp
	Delay        uint16 // ms from that status PDU to this one
}

// Put writes the header to the start of b.
func (l Load) Put(b []byte) {
	be.PutUint16(b, loadID)
	b[2], b[3] = byte(l.Action), flag(l.Stalled)
	be.PutUint32(b[4:], l.Sequence)
	be.PutUint16(b[8:], l.Payload)
	be.PutUint16(b[10:], l.StatusErrors)
	l.Status.put(b[12:])
	l.Sent.put(b[20:])
	be.PutUint16(b[28:], l.Delay)
	be.PutUint16(b[30:], 0)
}

// ParseLoad parses the header of a load PDU.
func ParseLoad(b []byte) (Load, error) {
	if err := check(b, LoadLength, loadID, 30); err != nil {
		return Load{}, err
	}
	if b[2] > byte(Stopped) || b[3] > 1 {
		return Load{}, fmt.Errorf("%w: action %d, stalled %d", ErrPDU, b[2], b[3])
	}
	return Load{
		Action: Action(b[2]), Stalled: b[3] == 1, Sequence: be.Uint32(b[4:]), Payload: be.Uint16(b[8:]), StatusErrors: be.Uint16(b[10:]),
		Status: stampAt(b[12:]), Sent: stampAt(b[20:]), Delay: be.Uint16(b[28:]),
	}, nil
}

// None is the value of a delay that was not measured.
const None = 0xffffffff

// Delays are the one-way delays above the least one, ms.
type Delays struct{ Min, Max, Sum, Count uint32 }

// SubInterval is what a receiver counted in a sub-interval (section 2.5).
type SubInterval struct {
	Datagrams              uint32
	Bytes                  uint64 // of UDP payload
	Micros                 uint32 // its length
	Lost, Reordered, Twice uint32
	Delays                 Delays
	RTTMin, RTTMax         uint32 // round trips above the least one, ms
	Elapsed                uint32 // ms since the first one began
}

// Status is a status PDU (section 2.5).
type Status struct {
	Action                 Action
	Stalled                bool
	Sequence               uint32 // from 1
	Rate                   Rate   // from the server
	SubIntervals           uint32 // that are over; Saved is the last of them
	Saved                  SubInterval
	Lost, Reordered, Twice uint32 // in this trial interval
	ClockDelta             int32  // least difference of both clocks, ms
	Delays                 Delays // in this trial interval
	RTTMin                 uint32 // of the test, ms; None
	RTTVariation           uint32 // last round trip above RTTMin, ms; None
	Renewed                bool   // a minimum delay has changed
	Micros                 uint32 // length of this trial interval
	Datagrams, Bytes       uint32 // in it
	Sent                   Stamp
	Mode                   uint8 // authentication
}

// StatusLength returns the length of a status PDU in a version.
func StatusLength(version uint16) int {
	if version < Version {
		return 168
	}
	return 204
}

// Before version 20 a status PDU has 4 bytes of a C compiler's padding after each of these
// offsets, and ends after 160 of the others.
var padded = [...]int{44, 96}

const commonStatus = 160

// Append appends the PDU in a version.
func (s Status) Append(b []byte, version uint16) []byte {
	var p [204]byte
	be.PutUint16(p[:], statusID)
	p[2], p[3] = byte(s.Action), flag(s.Stalled)
	be.PutUint32(p[4:], s.Sequence)
	s.Rate.put(p[8:])
	v := &s.Saved
	put32(p[36:], s.SubIntervals, v.Datagrams)
	be.PutUint64(p[44:], v.Bytes)
	put32(p[52:], v.Micros, v.Lost, v.Reordered, v.Twice, v.Delays.Min, v.Delays.Max, v.Delays.Sum, v.Delays.Count, v.RTTMin, v.RTTMax, v.Elapsed)
	put32(p[96:], s.Lost, s.Reordered, s.Twice, uint32(s.ClockDelta), s.Delays.Min, s.Delays.Max, s.Delays.Sum, s.Delays.Count, s.RTTMin, s.RTTVariation)
	p[136] = flag(s.Renewed)
	put32(p[140:], s.Micros, s.Datagrams, s.Bytes)
	s.Sent.put(p[152:])
	if version >= Version {
		p[163] = s.Mode
		return append(b, p[:]...)
	}
	from := 0
	for _, at := range padded {
		b = append(append(b, p[from:at]...), 0, 0, 0, 0)
		from = at
	}
	return append(b, p[from:commonStatus]...)
}

// ParseStatus parses a status PDU of a flow of that version.
func ParseStatus(b []byte, version uint16) (Status, error) {
	length, sum := StatusLength(version), 202
	if version < Version {
		sum = 146
	}
	if err := check(b, length, statusID, sum); err != nil {
		return Status{}, err
	}
	if len(b) != length || b[2] > byte(Stopped) || b[3] > 1 {
		return Status{}, fmt.Errorf("%w: a status of %d bytes, action %d, stalled %d", ErrPDU, len(b), b[2], b[3])
	}
	var p [204]byte
	if version >= Version {
		copy(p[:], b)
	} else {
		copy(p[:44], b)
		copy(p[44:96], b[48:])
		copy(p[96:commonStatus], b[104:])
	}
	u := func(at int) uint32 { return be.Uint32(p[at:]) }
	delays := func(at int) Delays { return Delays{u(at), u(at + 4), u(at + 8), u(at + 12)} }
	return Status{
		Action: Action(p[2]), Stalled: p[3] == 1, Sequence: u(4), Rate: rateAt(p[8:]), SubIntervals: u(36),
		Saved: SubInterval{
			Datagrams: u(40), Bytes: be.Uint64(p[44:]), Micros: u(52), Lost: u(56), Reordered: u(60), Twice: u(64), Delays: delays(68),
			RTTMin: u(84), RTTMax: u(88), Elapsed: u(92),
		},
		Lost: u(96), Reordered: u(100), Twice: u(104), ClockDelta: int32(u(108)), Delays: delays(112), RTTMin: u(128), RTTVariation: u(132),
		Renewed: p[136] != 0, Micros: u(140), Datagrams: u(144), Bytes: u(148), Sent: stampAt(p[152:]), Mode: p[163],
	}, nil
}

func put32(b []byte, all ...uint32) {
	for i, v := range all {
		be.PutUint32(b[4*i:], v)
	}
}
