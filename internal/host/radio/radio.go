// Package radio reads what the system tells of a wireless interface: how strongly it hears
// the other end, at which rates it sends and receives, and what it counts. It needs no
// rights.
package radio

import (
	"fmt"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
)

// State is what a wireless interface tells at one moment.
type State struct {
	model.Radio
	Counts
}

// Counts are the counters of a radio. Those of frames count from when the other end was
// connected and have 32 bits; times are in milliseconds, from a moment of the driver's
// choice.
type Counts struct {
	Sent, Retries, Failed    fact.Of[uint32] // frames to the other end, and attempts to send them again
	Channel, Busy            fact.Of[uint64] // time on the channel, and the part in which something was sent there
	Transmitting, OwnNetwork fact.Of[uint64] // the parts of Busy that this radio and the rest of its network took
}

// Radio is a wireless interface that is read again and again. It belongs to the network
// namespace of the thread that called Open. It is not safe for concurrent use.
type Radio struct{ source source }

// Open finds the wireless interface called name. It wraps errors.ErrUnsupported where the
// interface is not wireless, or the system does not tell.
func Open(name string) (*Radio, error) {
	s, err := openSource(name)
	if err != nil {
		return nil, fmt.Errorf("radio %s: %w", name, err)
	}
	return &Radio{s}, nil
}

// Read returns what the radio tells now. The times on the channel are read only if survey
// is true: some drivers ask their firmware for them.
func (r *Radio) Read(survey bool) (State, error) {
	s, err := r.source.read(survey)
	fact.Explain(&s, "the driver does not tell")
	return s, err
}

// Close ends the reading.
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
