package iperf3

import (
	"errors"
	"fmt"

	"linerate/internal/core/fact"
)

// Protocol is the transport of the streams.
type Protocol int

// The protocols of section 5.
const (
	TCP Protocol = iota
	UDP
	SCTP
)

// String returns the protocol's key in the parameters.
func (p Protocol) String() string {
	switch p {
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	default:
		return "tcp"
	}
}

// MaxParallel is the most streams per direction that a test may have
// (section 5).
const MaxParallel = 128

// What a server assumes of keys that are absent (section 5).
const (
	defaultSeconds      = 10
	defaultLength       = 128 << 10
	defaultPacingMicros = 1000
)

// fromPeer is the source of facts read off the wire.
const fromPeer = "iperf3 peer"

// Params is what a client asks of a server (section 5). A zero value of an
// optional field means that the key is absent. Keys that are not here are
// ignored, as by every version. Start from DefaultParams, because a Length or
// Parallel of 0 is not valid.
type Params struct {
	Protocol  Protocol
	Direction Direction
	Parallel  int64 // streams per direction, 1 to MaxParallel

	OmitSeconds int64 // warm-up that is not counted, before Seconds, 0 to 600
	Seconds     int64 // 0 to 86400; 0 where Bytes or Blocks ends the test
	Bytes       int64 // over all streams; 0: no limit
	Blocks      int64 // over all streams; 0: no limit

	Length        int64 // bytes per read or write, or per datagram
	Window        int64 // bytes for both socket buffers; 0: as the systems choose
	MSS           int64 // bytes; 0: as the systems choose
	BitsPerSecond int64 // payload, per stream; 0: unlimited
	FQRate        int64 // SO_MAX_PACING_RATE, bit/s per stream; 0: none
	PacingMicros  int64 // period of the pacing check
	Burst         int64 // packets per pacing check, 1 to 1000; 0: not given
	TOS           int64 // the whole byte, not the DSCP
	FlowLabel     int64 // IPv6, to 0xfffff; 0: none

	ServerCPU fact.Of[int64]   // CPU to which the server binds itself
	Offload   fact.Of[Offload] // UDP segmentation; 3.21 sends it in every UDP test

	NoDelay          bool
	MPTCP            bool // since 3.19
	ServerOutput     bool // the results shall hold the server's report
	WideCounters     bool // 64-bit sequence numbers in datagrams
	RepeatingPayload bool // digits instead of random bytes; since 3.7
	ZeroCopy         bool // the server sends with sendfile; since 3.11
	DontFragment     bool // UDP; since 3.10
	SkipRxCopy       bool // receive with MSG_TRUNC; since 3.19

	Title          string
	ExtraData      string // since 3.6; comes back in the server's report
	Congestion     string // algorithm asked for
	CongestionUsed string // algorithm that the client got
	AuthToken      string // see Token
	ClientVersion  string
}

// Offload are the settings of UDP segmentation and receive offload (section 5).
type Offload struct {
	GSO, GRO                                         bool
	GSODatagramBytes, GSOBufferBytes, GROBufferBytes int64
}

// DefaultParams returns what a server assumes of a client that sends {}: TCP,
// forward, one stream, 10 s, blocks of 128 KiB.
func DefaultParams() Params {
	return Params{Parallel: 1, Seconds: defaultSeconds, Length: defaultLength, PacingMicros: defaultPacingMicros}
}

// kind says how a key is written; every kind is read leniently.
type kind int

const (
	always   kind = iota // a number, always there
	optional             // a number, left out when 0
	isTrue               // true, left out when false
	isOne                // 1, left out when false
	text                 // a string, left out when empty
	offload              // the five keys of Offload
)

type field struct {
	key    string
	kind   kind
	number *int64
	on     *bool
	text   *string
}

// fields lists the keys of p in the order of the real program; reverse and
// both stand for p.Direction.
func (p *Params) fields(reverse, both *bool) []field {
	return []field{
		{key: "omit", kind: always, number: &p.OmitSeconds},
		{key: "time", kind: always, number: &p.Seconds},
		{key: "num", kind: always, number: &p.Bytes},
		{key: "blockcount", kind: always, number: &p.Blocks},
		{key: "MSS", kind: optional, number: &p.MSS},
		{key: "nodelay", kind: isTrue, on: &p.NoDelay},
		{key: "parallel", kind: always, number: &p.Parallel},
		{key: "reverse", kind: isTrue, on: reverse},
		{key: "bidirectional", kind: isTrue, on: both},
		{key: "mptcp", kind: isTrue, on: &p.MPTCP},
		{key: "window", kind: optional, number: &p.Window},
		{key: "len", kind: always, number: &p.Length},
		{key: "bandwidth", kind: optional, number: &p.BitsPerSecond},
		{kind: offload},
		{key: "fqrate", kind: optional, number: &p.FQRate},
		{key: "pacing_timer", kind: always, number: &p.PacingMicros},
		{key: "burst", kind: optional, number: &p.Burst},
		{key: "TOS", kind: optional, number: &p.TOS},
		{key: "flowlabel", kind: optional, number: &p.FlowLabel},
		{key: "title", kind: text, text: &p.Title},
		{key: "extra_data", kind: text, text: &p.ExtraData},
		{key: "congestion", kind: text, text: &p.Congestion},
		{key: "congestion_used", kind: text, text: &p.CongestionUsed},
		{key: "get_server_output", kind: isOne, on: &p.ServerOutput},
		{key: "udp_counters_64bit", kind: isOne, on: &p.WideCounters},
		{key: "repeating_payload", kind: isOne, on: &p.RepeatingPayload},
		{key: "zerocopy", kind: isOne, on: &p.ZeroCopy},
		{key: "dont_fragment", kind: isOne, on: &p.DontFragment},
		{key: "authtoken", kind: text, text: &p.AuthToken},
		{key: "skip_rx_copy", kind: isOne, on: &p.SkipRxCopy},
		{key: "client_version", kind: text, text: &p.ClientVersion},
	}
}

// Marshal returns the parameters as JSON, without the length in front. It
// wraps ErrTooLong above MaxParams bytes; it does not check ranges (Validate).
func (p Params) Marshal() ([]byte, error) {
	reverse, both := p.Direction == Reverse, p.Direction == Bidirectional
	w := &writer{}
	w.raw(p.Protocol.String(), []byte("true"))
	if cpu, ok := p.ServerCPU.Get(); ok {
		w.integer("server_affinity", cpu)
	}
	for _, f := range p.fields(&reverse, &both) {
		switch f.kind {
		case always:
			w.integer(f.key, *f.number)
		case optional:
			if *f.number != 0 {
				w.integer(f.key, *f.number)
			}
		case isTrue:
			if *f.on {
				w.raw(f.key, []byte("true"))
			}
		case isOne:
			if *f.on {
				w.integer(f.key, 1)
			}
		case text:
			if *f.text != "" {
				w.text(f.key, *f.text)
			}
		case offload:
			if o, ok := p.Offload.Get(); ok {
				o.write(w)
			}
		}
	}
	b := w.end()
	if len(b) > MaxParams {
		return nil, fmt.Errorf("write parameters of %d bytes: %w", len(b), ErrTooLong)
	}
	return b, nil
}

func (o Offload) write(w *writer) {
	bit := map[bool]int64{true: 1}
	w.integer("gso", bit[o.GSO])
	w.integer("gso_dg_size", o.GSODatagramBytes)
	w.integer("gso_bf_size", o.GSOBufferBytes)
	w.integer("gro", bit[o.GRO])
	w.integer("gro_bf_size", o.GROBufferBytes)
}

// ParseParams reads a client's parameters. Absent keys get the values of
// DefaultParams, except a UDP test's Length, which versions do not agree on:
// it stays 0, and Validate refuses it. A protocol key must be true, because
// 3.12 and 3.21 take {"udp":1} for different tests. It wraps ErrTooLong above
// MaxParams bytes; it does not check ranges (Validate).
//
//	{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":2,"len":131072,"pacing_timer":1000,"client_version":"3.12"}
//	{"udp":true,"omit":0,"time":10,"num":0,"blockcount":0,"parallel":1,"len":1448,"bandwidth":1048576,"client_version":"3.9"}
//	{}
func ParseParams(data []byte) (Params, error) {
	if len(data) > MaxParams {
		return Params{}, fmt.Errorf("parse parameters of %d bytes: %w", len(data), ErrTooLong)
	}
	o, err := parseObject(data)
	if err != nil {
		return Params{}, fmt.Errorf("parse parameters: %w", err)
	}
	p := DefaultParams()
	r := &reader{o: o}
	p.readProtocol(r)
	var reverse, both bool
	for _, f := range p.fields(&reverse, &both) {
		switch f.kind {
		case always, optional:
			r.integer(f.key, f.number)
		case isTrue, isOne:
			r.flag(f.key, f.on)
		case text:
			r.text(f.key, f.text)
		case offload:
			p.readOffload(r)
		}
	}
	if r.has("server_affinity") {
		var cpu int64
		r.integer("server_affinity", &cpu)
		p.ServerCPU = fact.Known(cpu, fromPeer)
	}
	switch {
	case reverse && both:
		r.fail("reverse", errors.New("excludes bidirectional"))
	case reverse:
		p.Direction = Reverse
	case both:
		p.Direction = Bidirectional
	}
	if r.err != nil {
		return Params{}, fmt.Errorf("parse parameters: %w", r.err)
	}
	return p, nil
}

func (p *Params) readProtocol(r *reader) {
	found := 0
	for _, proto := range []Protocol{TCP, UDP, SCTP} {
		raw, ok := r.o[proto.String()]
		switch {
		case !ok || string(raw) == "false":
		case string(raw) == "true":
			p.Protocol = proto
			found++
		default:
			r.fail(proto.String(), fmt.Errorf("%s is not true", shown(raw)))
		}
	}
	if found > 1 {
		r.fail(p.Protocol.String(), errors.New("excludes another protocol"))
	}
	if p.Protocol == UDP {
		p.Length = 0
	}
}

func (p *Params) readOffload(r *reader) {
	if !r.has("gso") && !r.has("gro") {
		return
	}
	var o Offload
	r.flag("gso", &o.GSO)
	r.flag("gro", &o.GRO)
	r.integer("gso_dg_size", &o.GSODatagramBytes)
	r.integer("gso_bf_size", &o.GSOBufferBytes)
	r.integer("gro_bf_size", &o.GROBufferBytes)
	p.Offload = fact.Known(o, fromPeer)
}
