package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"linerate/internal/core/units"
)

// EngineKnob is the KnobID of the factor whose levels are engines. It has no host.
const EngineKnob = "engine"

// Engine returns the engine that s is measured with; "" is the plan's.
func (s Setting) Engine() string { return s.ofNoHost(EngineKnob) }

// Engines returns the engines that settings use in addition to the plan's.
func Engines(settings []Setting) []string {
	var out []string
	for _, s := range settings {
		if e := s.Engine(); e != "" && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

// Flow describes the test traffic of one run. The zero value of a field means the engine's
// documented default.
type Flow struct {
	Engine     string        `json:"engine" bound:"name"`                 // "tcpbulk"
	Direction  Direction     `json:"direction" bound:"to|from|both"`      //
	Streams    int           `json:"streams,omitempty" bound:"1000"`      // parallel connections per direction; 0 is 1
	Duration   time.Duration `json:"duration_ns"`                         // measured time after Omit; 0 only with Bytes
	Bytes      units.Bytes   `json:"bytes,omitempty"`                     // payload per direction instead of Duration
	Omit       time.Duration `json:"omit_ns"`                             // sent and stored, but not counted
	Interval   time.Duration `json:"interval_ns"`                         // reporting step; 0 is 1 s
	Block      units.Bytes   `json:"block,omitempty" bound:"67108864"`    // bytes per write; 0 is the engine's choice
	Window     units.Bytes   `json:"window,omitempty" bound:"2147483647"` // SO_SNDBUF and SO_RCVBUF; 0 leaves autotuning on
	MSS        int           `json:"mss,omitempty" bound:"65535"`         // TCP_MAXSEG in bytes; 0 leaves it to the path
	Nagle      bool          `json:"nagle,omitempty"`                     // true leaves Nagle's algorithm on (TCP_NODELAY off)
	Congestion string        `json:"congestion,omitempty"`                // congestion control of the sender; "" is the system's
	Lead       time.Duration `json:"lead_ns,omitempty"`                   // before Omit, for an engine's own preparations, such as probing without load
	Points     int           `json:"points,omitempty" bound:"4096"`       // number of points that the run reports, one per message size; it ends after the last
	Params     Params        `json:"params,omitempty"`                    // for this engine only
}

// Length returns the planned length of f: lead, warm-up and measured time. If bytes or points
// end it, it takes longer.
func (f *Flow) Length() time.Duration { return f.Lead + f.Omit + f.Duration }

// Params are an engine's own parameters, as the text of one JSON object that only that engine
// reads and writes; "" is its defaults. Flow, protocol and store pass them through unchanged.
// Package traffic parses them.
type Params string

// MarshalJSON writes the object, and null for none. It returns an error for invalid JSON.
func (p Params) MarshalJSON() ([]byte, error) {
	if p == "" {
		return []byte("null"), nil
	}
	if !json.Valid([]byte(p)) {
		return nil, errors.New("parameters of an engine are no JSON")
	}
	return []byte(p), nil
}

// UnmarshalJSON stores the text in compact form; null means none.
func (p *Params) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*p = ""
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return err
	}
	*p = Params(b.String())
	return nil
}
