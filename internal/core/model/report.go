package model

import (
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
	"linerate/internal/core/units"
)

// TCPSummary is the sender's kernel's account of a direction's connections over the measured
// window. Sums and means are over streams.
type TCPSummary struct {
	Congestion    fact.Of[string]        `json:"congestion"`
	MSS           fact.Of[int]           `json:"mss"`                  // bytes of payload per segment
	PathMTU       fact.Of[int]           `json:"path_mtu"`             // bytes
	Timestamps    fact.Of[bool]          `json:"timestamps"`           // RFC 7323 option in use
	SACK          fact.Of[bool]          `json:"sack"`                 //
	ECN           fact.Of[bool]          `json:"ecn,omitzero"`         // RFC 3168 was negotiated
	SendScale     fact.Of[int]           `json:"send_scale"`           // window scale announced by the peer; unknown if scaling is off
	RecvScale     fact.Of[int]           `json:"recv_scale"`           // window scale that we announced
	Retransmits   fact.Of[int64]         `json:"retransmits"`          // segments
	SegmentsOut   fact.Of[int64]         `json:"segments_out"`         //
	SegmentsIn    fact.Of[int64]         `json:"segments_in,omitzero"` // of a sender: acknowledgements
	Busy          fact.Of[time.Duration] `json:"busy_ns"`              // mean over streams
	RwndLimited   fact.Of[time.Duration] `json:"rwnd_limited_ns"`      // mean over streams, part of Busy
	SndbufLimited fact.Of[time.Duration] `json:"sndbuf_limited_ns"`
	RTT           fact.Of[time.Duration] `json:"rtt_ns"`      // median over intervals and streams of the smoothed RTT
	RTTMin        fact.Of[time.Duration] `json:"rtt_min_ns"`  //
	Cwnd          fact.Of[units.Bytes]   `json:"cwnd"`        // median over intervals, sum over streams
	PeerWindow    fact.Of[units.Bytes]   `json:"peer_window"` // median over intervals, sum over streams
	SendBuffer    fact.Of[units.Bytes]   `json:"send_buffer"` // at the end, sum over streams
	BBR           *BBRSummary            `json:"bbr,omitempty"`
}

// Share returns the share of the busy time that limited is, 0 to 1. It reports false where the
// sender's system does not count it.
func (t TCPSummary) Share(limited fact.Of[time.Duration]) (float64, bool) {
	l, ok1 := limited.Get()
	b, ok2 := t.Busy.Get()
	if !ok1 || !ok2 || b <= 0 {
		return 0, false
	}
	return min(1, float64(l)/float64(b)), true
}

// BBRSummary is bbr's model of the path, from the second half of the readings.
type BBRSummary struct {
	Rate     fact.Of[units.BitRate] `json:"rate"`               // of payload: median over readings of the sum over streams
	RTTMin   fact.Of[time.Duration] `json:"rtt_min_ns"`         // median over readings of the least of all streams
	Steady   fact.Of[float64]       `json:"steady"`             // share of all readings in which it probed neither up nor down
	InFlight fact.Of[int64]         `json:"in_flight,omitzero"` // highest number of segments in flight, at the end, sum over streams; from version 2 on
}

// Role is the part of an end in a direction.
type Role string

// The roles.
const (
	Sender   Role = "sender"
	Receiver Role = "receiver"
)

// FlowReport is the report of one end on one direction, at the end of a run.
type FlowReport struct {
	Direction Direction     `json:"direction" bound:"to|from"`
	Role      Role          `json:"role" bound:"sender|receiver"`
	Bytes     units.Bytes   `json:"bytes"`                           // payload in the measured window
	Window    time.Duration `json:"window_ns"`                       // length of the measured window
	Streams   []units.Bytes `json:"streams,omitempty" bound:"1000"`  // Bytes per stream
	TCP       *TCPSummary   `json:"tcp,omitempty"`                   // sender only
	UDP       *UDPSummary   `json:"udp,omitempty"`                   // udpflow
	Subflows  []Subflow     `json:"subflows,omitempty" bound:"4096"` // sender over Multipath TCP only
	Uncopied  bool          `json:"uncopied,omitempty"`              // tcpbulk: this end moved the payload without copying it
}

// Subflow is one path of a connection over Multipath TCP (RFC 8684), as the sender's
// kernel counts it in the measured window.
type Subflow struct {
	Stream      int                    `json:"stream"`               // from 1
	From        string                 `json:"from" bound:"address"` // of the sender, without port
	To          string                 `json:"to" bound:"address"`
	Bytes       units.Bytes            `json:"bytes"`  // acknowledged payload
	RTT         fact.Of[time.Duration] `json:"rtt_ns"` // median over intervals of the smoothed round trip
	Retransmits int64                  `json:"retransmits"`
}

// UDPSummary holds one end's counts of a direction's datagrams in the measured window, over all
// streams. A sender fills in Sent and the fields after it.
type UDPSummary struct {
	Received   int64                  `json:"received"`            // different datagrams that arrived
	Lost       int64                  `json:"lost"`                // sent in the window and never received
	Duplicates int64                  `json:"duplicates"`          // copies beyond the first
	Reordered  int64                  `json:"reordered"`           // arrived after one that was sent later (RFC 4737 section 3.3)
	MaxExtent  int64                  `json:"max_extent"`          // largest reordering extent, datagrams (RFC 4737 section 4.2.1)
	Jitter     fact.Of[time.Duration] `json:"jitter_ns"`           // interarrival jitter, RFC 3550 section 6.4.1, mean over streams, at the end
	Variation  *hist.Histogram        `json:"variation,omitempty"` // one-way delay above the least of the run, ns (RFC 5481 section 4.2, PDV)
	Coalesced  bool                   `json:"coalesced,omitempty"` // the receiver's kernel joined datagrams (UDP_GRO)
	Sent       int64                  `json:"sent"`                // datagrams handed to the kernel
	Refused    int64                  `json:"refused"`             // rejected by the kernel: no buffer, no route
	Pacing     string                 `json:"pacing,omitempty"`    // how it was paced: "kernel: fq", "clock", "none"
	Segmented  bool                   `json:"segmented,omitempty"` // UDP_SEGMENT was used
	Gaps       *hist.Histogram        `json:"gaps,omitempty"`      // time between datagrams leaving, ns, by the sender's clock
}

// Latency is a distribution of times measured by one end.
type Latency struct {
	Name      string          `json:"name" bound:"name"`                         // "idle udp", "loaded tcp", "request"
	Direction Direction       `json:"direction,omitempty" bound:"|to|from|both"` // of the load, if any
	Times     *hist.Histogram `json:"times"`                                     // ns
	Sent      int64           `json:"sent"`                                      // probes or requests
	Lost      int64           `json:"lost"`                                      // of Sent, never answered
}

// The names of the times of requests: from when they were due, and from when they were sent.
const (
	LatencyRequest = "request"
	LatencyServed  = "request (service)"
)

// Point is one message size of a sweep.
type Point struct {
	Size    units.Bytes     `json:"size" bound:"67108864"`
	Rounds  int64           `json:"rounds"`                           // exchanges in each trial
	Trials  []time.Duration `json:"trials_ns,omitempty" bound:"1024"` // time of one message one way, one number per trial, in order
	Stalled bool            `json:"stalled,omitempty"`                // no answer within the timeout
	Log     []string        `json:"log,omitempty" bound:"64,text"`    // kernel messages during the point
}

// Counter is how far one of the host's counters moved during the run, warm-up included.
type Counter struct {
	Name  string `json:"name" bound:"name"` // "udp_receive_buffer_errors"; package counters lists them
	Of    string `json:"of,omitempty"`      // "eth0", "cpu1"
	Value int64  `json:"value"`
}

// EndReport is the report of one end at the end of a run.
type EndReport struct {
	Host       Host             `json:"host" bound:"end"`
	Flows      []FlowReport     `json:"flows" bound:"4"`
	CPUUser    time.Duration    `json:"cpu_user_ns" bound:"1572864h"` // of the measuring process, in the measured window
	CPUSystem  time.Duration    `json:"cpu_system_ns" bound:"1572864h"`
	CPUWindow  time.Duration    `json:"cpu_window_ns"`     // the wall time that both cover
	SystemBusy fact.Of[float64] `json:"system_busy"`       // busy cores of the whole machine in the window, 1 is one core
	Waiting    string           `json:"waiting,omitempty"` // how the data plane waited: "blocking thread", "poller"
	Warnings   []string         `json:"warnings,omitempty" bound:"64,text"`
	Values     []Value          `json:"values,omitempty" bound:"256"`    // the run's values of metrics other than goodput
	Latencies  []Latency        `json:"latencies,omitempty" bound:"16"`  //
	Points     []Point          `json:"points,omitempty" bound:"4096"`   // of a sweep, in the order measured
	Counters   []Counter        `json:"counters,omitempty" bound:"4096"` // of the host
	Trace      *Trace           `json:"trace,omitempty"`                 // of the path from this end, if requested
}
