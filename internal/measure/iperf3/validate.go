package iperf3

import (
	"errors"
	"fmt"
	"math"
)

// RangeError is one parameter outside the range that a server accepts (section 5).
type RangeError struct {
	Key      string // in the parameters' JSON
	Value    int64
	Min, Max int64
	Code     Code // the code with which a server refuses it
}

// Error names the key, its value and the legal range.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%q is %d, must be %d to %d", e.Key, e.Value, e.Min, e.Max)
}

// Ranges of section 5.
const (
	maxSeconds      = 86400
	maxOmitSeconds  = 600
	maxBlock        = 1 << 20
	maxMSS          = 32767
	maxWindow       = 512 << 20
	maxBurst        = 1000
	maxTOS          = 255
	maxServerCPU    = 1024
	maxFlowLabel    = 0xfffff
	maxUnrestricted = math.MaxInt64
)

// Validate returns every parameter that is out of range, each a *RangeError, joined. The ranges
// are those of iperf3's development head, the first that checks them; a server should refuse
// with the code of the first one.
func (p Params) Validate() error {
	minLength, maxLength, lengthCode := int64(1), int64(maxBlock), CodeBlockSize
	if p.Protocol == UDP {
		minLength, maxLength, lengthCode = MinDatagram, MaxDatagram, CodeUDPBlockSize
	}
	o := p.Offload.Or(Offload{})
	var faults []error
	for _, c := range []RangeError{
		{"parallel", p.Parallel, 1, MaxParallel, CodeStreams},
		{"len", p.Length, minLength, maxLength, lengthCode},
		{"time", p.Seconds, 0, maxSeconds, CodeDuration},
		{"omit", p.OmitSeconds, 0, maxOmitSeconds, CodeReceiveParams},
		{"MSS", p.MSS, 0, maxMSS, CodeMSS},
		{"window", p.Window, 0, maxWindow, CodeBufferSize},
		{"burst", p.Burst, 0, maxBurst, CodeBurst},
		{"TOS", p.TOS, 0, maxTOS, CodeReceiveParams},
		{"server_affinity", p.ServerCPU.Or(0), 0, maxServerCPU, CodeReceiveParams},
		{"flowlabel", p.FlowLabel, 0, maxFlowLabel, CodeReceiveParams},
		{"num", p.Bytes, 0, maxUnrestricted, CodeReceiveParams},
		{"blockcount", p.Blocks, 0, maxUnrestricted, CodeReceiveParams},
		{"bandwidth", p.BitsPerSecond, 0, maxUnrestricted, CodeReceiveParams},
		{"fqrate", p.FQRate, 0, maxUnrestricted, CodeReceiveParams},
		{"pacing_timer", p.PacingMicros, 0, maxUnrestricted, CodeReceiveParams},
		{"gso_dg_size", o.GSODatagramBytes, 0, MaxDatagram, CodeReceiveParams},
		{"gso_bf_size", o.GSOBufferBytes, 0, MaxDatagram, CodeReceiveParams},
		{"gro_bf_size", o.GROBufferBytes, 0, MaxDatagram, CodeReceiveParams},
	} {
		if c.Value < c.Min || c.Value > c.Max {
			faults = append(faults, &c)
		}
	}
	return errors.Join(faults...)
}

// TotalBitsPerSecond returns the payload rate of the whole test as a server's rate limit counts
// it: the rate per stream, times the streams of all directions (section 5). It is 0 for an
// unlimited test, and saturates.
func (p Params) TotalBitsPerSecond() int64 {
	streams := int64(len(Streams(p.Direction, int(min(p.Parallel, MaxParallel)))))
	if streams > 0 && p.BitsPerSecond > math.MaxInt64/streams {
		return math.MaxInt64
	}
	return max(p.BitsPerSecond, 0) * streams
}
