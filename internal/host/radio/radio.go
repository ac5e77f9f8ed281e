// Package radio reads what the system reports about a wireless interface: the signal strength
// of the other end, the rates in both directions, and its counters. It needs no rights.
package radio

import (
	"fmt"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
)

// State is the state of a wireless interface at one moment.
type State struct {
	model.Radio
	Counts
}

// Counts are the counters of a radio. Those of frames count from when the other end connected
// and have 32 bits; times are in milliseconds, from a moment that the driver chooses.
type Counts struct {
	Sent, Retries, Failed    fact.Of[uint32] // frames to the other end, and retransmissions
	Channel, Busy            fact.Of[uint64] // time on the channel, and the part of it in which the channel was busy
	Transmitting, OwnNetwork fact.Of[uint64] // the parts of Busy used by this radio and by the rest of its network
}

// Radio is an open wireless interface for repeated reading. It belongs to the network
// namespace of the thread that called Open. It is not safe for concurrent use.
type Radio struct{ source source }

// Open opens the wireless interface called name. It wraps errors.ErrUnsupported if the
// interface is not wireless, or the system does not report radios.
func Open(name string) (*Radio, error) {
	s, err := openSource(name)
	if err != nil {
		return nil, fmt.Errorf("radio %s: %w", name, err)
	}
	return &Radio{s}, nil
}

// Read returns the present state. It reads the times on the channel only if survey is true,
// since some drivers query their firmware for them.
func (r *Radio) Read(survey bool) (State, error) {
	s, err := r.source.read(survey)
	fact.Explain(&s, "the driver does not report it")
	return s, err
}

// Close closes the radio.
func (r *Radio) Close() error { return r.source.close() }

// Facts reads the interface called name once. It wraps errors.ErrUnsupported as Open does.
func Facts(name string) (model.Radio, error) {
	r, err := Open(name)
	if err != nil {
		return model.Radio{}, err
	}
	defer r.Close() // nothing was written
	s, err := r.Read(false)
	return s.Radio, err
}
