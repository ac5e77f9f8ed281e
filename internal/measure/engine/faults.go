package engine

import (
	"errors"
	"fmt"
	"math"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
)

// The bounds that all engines share.
const (
	// MinInterval is the shortest time between two samples.
	MinInterval = 10 * time.Millisecond
	// MinMSS is the smallest segment size in bytes that Linux accepts: TCP_MIN_MSS,
	// include/net/tcp.h.
	MinMSS = 88
	// MaxMSS is the largest: MAX_TCP_WINDOW, same file.
	MaxMSS = 32767
)

// Faults collects what is wrong with a flow, so that all of it is reported at once. The zero
// value is empty.
type Faults struct{ all []error }

// Unless records a fault if ok is false.
func (f *Faults) Unless(ok bool, format string, args ...any) {
	if !ok {
		f.all = append(f.all, fmt.Errorf(format, args...))
	}
}

// Err returns all faults joined, nil if there are none.
func (f *Faults) Err() error { return errors.Join(f.all...) }

// Engine records a fault if the flow belongs to another engine.
func (f *Faults) Engine(flow model.Flow, name string) {
	f.Unless(flow.Engine == "" || flow.Engine == name, "engine %q is not %q", flow.Engine, name)
}

// Direction records an invalid direction.
func (f *Faults) Direction(flow model.Flow) {
	d := flow.Direction
	f.Unless(d == model.To || d == model.From || d == model.Both, "direction %q is none of to, from, both", d)
}

// Amount records a fault unless the flow has exactly one end: a duration after the omitted
// part, or a number of bytes, all of which count.
func (f *Faults) Amount(flow model.Flow) {
	f.Unless(flow.Duration >= 0, "duration %v is negative", flow.Duration)
	f.Unless(flow.Omit >= 0, "omit %v is negative", flow.Omit)
	f.Unless(flow.Bytes >= 0, "%d bytes: negative", flow.Bytes)
	f.Unless(flow.Duration != 0 || flow.Bytes != 0, "neither duration nor bytes given")
	f.Unless(flow.Duration == 0 || flow.Bytes == 0, "duration and bytes exclude each other")
	f.Unless(flow.Omit == 0 || flow.Bytes == 0, "omit and bytes exclude each other: every byte is counted")
}

// Interval records a sample interval that is too short.
func (f *Faults) Interval(flow model.Flow) {
	f.Unless(flow.Interval == 0 || flow.Interval >= MinInterval, "interval %v is shorter than %v", flow.Interval, MinInterval)
}

// Window records a size that no socket buffer can have.
func (f *Faults) Window(flow model.Flow) {
	f.Unless(flow.Window >= 0 && flow.Window <= math.MaxInt32, "window of %d bytes: not between 1 and %d", flow.Window, math.MaxInt32)
}

// MSS records a size that no segment can have.
func (f *Faults) MSS(flow model.Flow) {
	f.Unless(flow.MSS == 0 || flow.MSS >= MinMSS && flow.MSS <= MaxMSS, "segment size of %d bytes: not between %d and %d", flow.MSS, MinMSS, MaxMSS)
}

// Params parses the engine's own parameters of flow, and records what is wrong with their text.
func Params[T any](f *Faults, flow model.Flow) T {
	p, err := traffic.Read[T](flow.Params)
	f.Unless(err == nil, "%v", err)
	return p
}

// Lead records a lead time or points in a flow of an engine that supports neither.
func (f *Faults) Lead(flow model.Flow) {
	f.Unless(flow.Lead == 0, "%v before the warm-up: this engine does nothing then", flow.Lead)
	f.Unless(flow.Points == 0, "%d points: this engine reports none", flow.Points)
}
