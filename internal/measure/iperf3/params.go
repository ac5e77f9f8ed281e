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

// Defaults of a server for absent keys (section 5).
const (
	defaultSeconds      = 10
	defaultLength       = 128 << 10
	defaultPacingMicros = 1000
)

// fromPeer is the source of facts read off the wire.
const fromPeer = "iperf3 peer"

// Params is a client's request to a server (section 5). The zero value of an optional field
// means that the key is absent. Keys that are not listed here are ignored, as by every version.
// Start from DefaultParams, because a Length or Parallel of 0 is not valid.
type Params struct {
	Protocol  Protocol
	Direction Direction
	Parallel  int64 // streams per direction, 1 to MaxParallel

	OmitSeconds int64 // warm-up that is not counted, before Seconds, 0 to 600
	Seconds     int64 // 0 to 86400; 0 if Bytes or Blocks ends the test
	Bytes       int64 // over all streams; 0: no limit
	Blocks      int64 // over all streams; 0: no limit

	Length        int64 // bytes per read or write, or per datagram
	Window        int64 // bytes for both socket buffers; 0: system default
	MSS           int64 // bytes; 0: system default
	BitsPerSecond int64 // payload, per stream; 0: unlimited
	FQRate        int64 // SO_MAX_PACING_RATE, bit/s per stream; 0: none
	PacingMicros  int64 // period of the pacing check
	Burst         int64 // packets per pacing check, 1 to 1000; 0: default
	TOS           int64 // the whole byte, not the DSCP
	FlowLabel     int64 // IPv6, to 0xfffff; 0: none

	ServerCPU fact.Of[int64]   // CPU to which the server binds itself
	Offload   fact.Of[Offload] // UDP segmentation; 3.21 sends it in every UDP test

	NoDelay          bool
	MPTCP            bool // since 3.19
	ServerOutput     bool // the results include the server's report
	WideCounters     bool // 64-bit sequence numbers in datagrams
	RepeatingPayload bool // digits instead of random bytes; since 3.7
	ZeroCopy         bool // the server sends with sendfile; since 3.11
	DontFragment     bool // UDP; since 3.10
	SkipRxCopy       bool // receive with MSG_TRUNC; since 3.19

	Title          string
	ExtraData      string // since 3.6; echoed in the server's report
	Congestion     string // requested algorithm
	CongestionUsed string // the client's actual algorithm
	AuthToken      string // see Token
	ClientVersion  string
}

// Offload are the settings of UDP segmentation and receive offload (section 5).
type Offload struct {
	GSO, GRO                                         bool
	GSODatagramBytes, GSOBufferBytes, GROBufferBytes int64
}

// DefaultParams returns the parameters that a server assumes for {}: TCP, forward, one stream,
// 10 s, blocks of 128 KiB.
func DefaultParams() Params {
	return Params{Parallel: 1, Seconds: defaultSeconds, Length: defaultLength, PacingMicros: defaultPacingMicros}
}

// fields lists the keys of p in the order of the real program; cpu, reverse, both and o stand
// for p.ServerCPU, p.Direction and p.Offload, and are nil if p has none.
func (p *Params) fields(cpu *int64, reverse, both *bool, o *Offload) []field {
	var all []field
	if cpu != nil {
		all = append(all, field{"server_affinity", cpu, always})
	}
	all = append(all, []field{
		{"omit", &p.OmitSeconds, always}, {"time", &p.Seconds, always}, {"num", &p.Bytes, always}, {"blockcount", &p.Blocks, always},
		{"MSS", &p.MSS, optional}, {"nodelay", &p.NoDelay, optional}, {"parallel", &p.Parallel, always},
		{"reverse", reverse, optional}, {"bidirectional", both, optional}, {"mptcp", &p.MPTCP, optional},
		{"window", &p.Window, optional}, {"len", &p.Length, always}, {"bandwidth", &p.BitsPerSecond, optional},
	}...)
	if o != nil {
		all = append(all, []field{
			{"gso", &o.GSO, digit}, {"gso_dg_size", &o.GSODatagramBytes, always}, {"gso_bf_size", &o.GSOBufferBytes, always},
			{"gro", &o.GRO, digit}, {"gro_bf_size", &o.GROBufferBytes, always},
		}...)
	}
	return append(all, []field{
		{"fqrate", &p.FQRate, optional}, {"pacing_timer", &p.PacingMicros, always}, {"burst", &p.Burst, optional},
		{"TOS", &p.TOS, optional}, {"flowlabel", &p.FlowLabel, optional}, {"title", &p.Title, optional},
		{"extra_data", &p.ExtraData, optional}, {"congestion", &p.Congestion, optional}, {"congestion_used", &p.CongestionUsed, optional},
		{"get_server_output", &p.ServerOutput, isOne}, {"udp_counters_64bit", &p.WideCounters, isOne},
		{"repeating_payload", &p.RepeatingPayload, isOne}, {"zerocopy", &p.ZeroCopy, isOne}, {"dont_fragment", &p.DontFragment, isOne},
		{"authtoken", &p.AuthToken, optional}, {"skip_rx_copy", &p.SkipRxCopy, isOne}, {"client_version", &p.ClientVersion, optional},
	}...)
}

// Marshal returns the parameters as JSON, without the length prefix. The error wraps ErrTooLong
// above MaxParams bytes; Marshal does not check ranges (see Validate).
func (p Params) Marshal() ([]byte, error) {
	var cpu *int64
	if v, ok := p.ServerCPU.Get(); ok {
		cpu = &v
	}
	var offload *Offload
	if v, ok := p.Offload.Get(); ok {
		offload = &v
	}
	protocol, reverse, both := true, p.Direction == Reverse, p.Direction == Bidirectional
	b, err := write(append([]field{{p.Protocol.String(), &protocol, always}}, p.fields(cpu, &reverse, &both, offload)...))
	if err == nil && len(b) > MaxParams {
		err = fmt.Errorf("write parameters of %d bytes: %w", len(b), ErrTooLong)
	}
	return b, err
}

// ParseParams parses a client's parameters. Absent keys get the values of DefaultParams, except
// a UDP test's Length, whose default differs between versions: it stays 0, and Validate refuses
// it. A protocol key must be true, because 3.12 and 3.21 take {"udp":1} for different tests.
// The error wraps ErrTooLong above MaxParams bytes; ParseParams does not check ranges (see
// Validate).
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
	if p.Protocol, err = o.protocol(); err != nil {
		return Params{}, fmt.Errorf("parse parameters: %w", err)
	}
	if p.Protocol == UDP {
		p.Length = 0
	}
	var cpu int64
	var reverse, both bool
	var offload Offload
	err = o.read(p.fields(&cpu, &reverse, &both, &offload), false)
	if err == nil && reverse && both {
		err = errors.New(`"reverse" excludes bidirectional`)
	}
	if err != nil {
		return Params{}, fmt.Errorf("parse parameters: %w", err)
	}
	if _, ok := o["server_affinity"]; ok {
		p.ServerCPU = fact.Known(cpu, fromPeer)
	}
	if o["gso"] != nil || o["gro"] != nil {
		p.Offload = fact.Known(offload, fromPeer)
	}
	switch {
	case reverse:
		p.Direction = Reverse
	case both:
		p.Direction = Bidirectional
	}
	return p, nil
}

// protocol returns the protocol whose key is true; TCP if none is.
func (o object) protocol() (found Protocol, err error) {
	n := 0
	for _, p := range []Protocol{TCP, UDP, SCTP} {
		switch raw, ok := o[p.String()]; {
		case !ok || string(raw) == "false":
		case string(raw) == "true":
			found = p
			n++
		default:
			return found, fmt.Errorf("%q: %s is not true", p.String(), shown(raw))
		}
	}
	if n > 1 {
		return found, fmt.Errorf("%q excludes another protocol", found.String())
	}
	return found, nil
}
