package model

import (
	"time"
)

// Metric names what a value measures. Its unit belongs to the name.
type Metric string

// Metrics of samples and runs. Samples carry the value of one interval.
const (
	Goodput       Metric = "goodput"        // bit/s of payload, taken at the receiver
	StreamGoodput Metric = "stream_goodput" // Goodput of one connection of several; Sample.Of is its number, 1…
	// StreamSent, StreamRetransmits and StreamCwnd are Sent, Retransmits and Cwnd of one
	// connection of several, as StreamGoodput.
	StreamSent        Metric = "stream_sent"
	StreamRetransmits Metric = "stream_retransmits"
	StreamCwnd        Metric = "stream_cwnd"
	Sent              Metric = "sent"           // bit/s of payload handed to the kernel by the sender
	Retransmits       Metric = "retransmits"    // segments retransmitted, count in the interval
	RTT               Metric = "rtt"            // smoothed round trip, seconds, mean over streams (sender's TCP_INFO)
	RTTMin            Metric = "rtt_min"        // least round trip seen by the kernel, seconds
	Cwnd              Metric = "cwnd"           // congestion window, bytes, sum over streams
	PeerWindow        Metric = "peer_window"    // receive window announced by the peer, bytes, sum over streams
	BusyTime          Metric = "busy_time"      // seconds in the interval with data to send, mean over streams
	RwndLimited       Metric = "rwnd_limited"   // seconds of busy time limited by the receive window
	SndbufLimited     Metric = "sndbuf_limited" // seconds of busy time limited by the send buffer
	CPU               Metric = "cpu"            // seconds of CPU of the measuring process per second
	Datagrams         Metric = "datagrams"      // datagrams that this end received or sent, count in the interval
	Lost              Metric = "lost"           // datagrams lost, count in the interval (receiver)
	LossRatio         Metric = "loss_ratio"     // lost of sent, 0…1, of a run
	// RetransmitRatio is the segments retransmitted of those sent, 0…1, of a run.
	RetransmitRatio Metric = "retransmit_ratio"
	// CPUPerGbitNear and CPUPerGbitFar are the CPU time of the measuring process at
	// one end for each Gbit of payload, seconds, of a run; their direction is that of
	// the run's flow.
	CPUPerGbitNear Metric = "cpu_per_gbit_near"
	CPUPerGbitFar  Metric = "cpu_per_gbit_far"
	Jitter         Metric = "jitter"           // interarrival jitter of RFC 3550 section 6.4.1, seconds
	LatencyP50     Metric = "latency_p50"      // seconds, there and back unless the engine says otherwise
	LatencyP99     Metric = "latency_p99"      // seconds
	IdleP50        Metric = "latency_idle_p50" // same as LatencyP50, without load
	IdleP99        Metric = "latency_idle_p99"
	AddedP50       Metric = "latency_added_p50" // LatencyP50 under load minus IdleP50, seconds; of a run
	AddedP99       Metric = "latency_added_p99"
	// IPCapacity is bit/s of IP packets in the greatest sub-interval of a run, taken at the
	// receiver (RFC 9097 section 5), IPRate their mean over the measured window.
	IPCapacity Metric = "ip_capacity"
	IPRate     Metric = "ip_rate"
	// DelayVariation and DelayVariationMax are the one-way delays above the least one, seconds:
	// their mean, and the largest.
	DelayVariation    Metric = "delay_variation"
	DelayVariationMax Metric = "delay_variation_max"
	RequestRate       Metric = "request_rate" // answered requests per second
	ConnectRate       Metric = "connect_rate" // connections opened, used and closed per second
	// Responsiveness is round trips a minute under load (draft-ietf-ippm-responsiveness).
	Responsiveness Metric = "responsiveness"
)

// Sample is the value of one metric over one interval of one run, taken at one
// end. Start and Length are by that end's monotonic clock, from its own start.
// Direction is empty for metrics of the host itself, such as CPU.
type Sample struct {
	Host      Host          `json:"host" bound:"end"`
	Direction Direction     `json:"direction,omitempty" bound:"|to|from"`
	Metric    Metric        `json:"metric"`
	Of        string        `json:"of,omitempty"` // the part of the host: "cpu3", "eth0"
	Start     time.Duration `json:"start_ns"`
	Length    time.Duration `json:"length_ns"`
	Value     float64       `json:"value"`
	Omitted   bool          `json:"omitted,omitempty"` // lies in the warm-up
}

// Samples are the samples of a session's runs, which may not fit in memory.
type Samples interface {
	// Of returns the samples of the run with a number, nil if none were kept.
	Of(run int) []Sample
}

// Held are samples in memory, by number of run.
type Held map[int][]Sample

// Of implements Samples.
func (h Held) Of(run int) []Sample { return h[run] }

// WarmsUp reports whether a run with a warm-up of omit still warms up when s has ended: which
// sample of a warm-up is the last is known only when it is over.
func (s Sample) WarmsUp(omit time.Duration) bool { return s.Omitted && s.Start+s.Length < omit }
