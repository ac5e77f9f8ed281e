package engine

import (
	"errors"
	"fmt"
	"math"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
)

// The bounds that engines share.
const (
	// MinInterval is the shortest time between two samples.
	MinInterval = 10 * time.Millisecond
	// MinMSS is the smallest segment size in bytes that Linux takes: TCP_MIN_MSS,
	// include/net/tcp.h.
	MinMSS = 88
	// MaxMSS is the largest one: MAX_TCP_WINDOW, there.
	MaxMSS = 32767
)

// Faults collects what is wrong with a flow, so that all of it is reported at
// once. The zero value has none.
type Faults struct{ all []error }

// Unless notes a fault unless ok.
func (f *Faults) Unless(ok bool, format string, args ...any) {
	if !ok {
		f.all = append(f.all, fmt.Errorf(format, args...))
	}
}

// Err returns all faults joined, nil for none.
func (f *Faults) Err() error { return errors.Join(f.all...) }

// Engine notes a flow that is not for the engine of that name.
func (f *Faults) Engine(flow model.Flow, name string) {
	f.Unless(flow.Engine == "" || flow.Engine == name, "engine %q is not %q", flow.Engine, name)
}

// Direction notes a direction that does not exist.
func (f *Faults) Direction(flow model.Flow) {
	d := flow.Direction
	f.Unless(d == model.To || d == model.From || d == model.Both, "direction %q is none of to, from, both", d)
}

// Amount notes where a flow does not say when it ends, by its duration after
// what is omitted, or by its bytes of which each counts.
func (f *Faults) Amount(flow model.Flow) {
	f.Unless(flow.Duration >= 0, "duration %v is negative", flow.Duration)
	f.Unless(flow.Omit >= 0, "omit %v is negative", flow.Omit)
	f.Unless(flow.Bytes >= 0, "%d bytes: negative", flow.Bytes)
	f.Unless(flow.Duration != 0 || flow.Bytes != 0, "neither duration nor bytes given")
	f.Unless(flow.Duration == 0 || flow.Bytes == 0, "duration and bytes exclude each other")
	f.Unless(flow.Omit == 0 || flow.Bytes == 0, "omit and bytes exclude each other: every byte is counted")
}

// Interval notes samples that are too close together.
func (f *Faults) Interval(flow model.Flow) {
	f.Unless(flow.Interval == 0 || flow.Interval >= MinInterval, "interval %v is shorter than %v", flow.Interval, MinInterval)
}

// Window notes a size that no socket buffer can have.
func (f *Faults) Window(flow model.Flow) {
	f.Unless(flow.Window >= 0 && flow.Window <= math.MaxInt32, "window of %d bytes: not between 1 and %d", flow.Window, math.MaxInt32)
}

// MSS notes a size that no segment can have.
func (f *Faults) MSS(flow model.Flow) {
	f.Unless(flow.MSS == 0 || flow.MSS >= MinMSS && flow.MSS <= MaxMSS, "segment size of %d bytes: not between %d and %d", flow.MSS, MinMSS, MaxMSS)
}

// Params reads the engine's own parameters of flow, and notes what is wrong with
// their text.
func Params[T any](f *Faults, flow model.Flow) T {
	p, err := traffic.Read[T](flow.Params)
	f.Unless(err == nil, "%v", err)
	return p
}

// Lead notes a time before the warm-up, or points, in a flow of an engine that has
// none.
func (f *Faults) Lead(flow model.Flow) {
	f.Unless(flow.Lead == 0, "%v before the warm-up: this engine does nothing then", flow.Lead)
	f.Unless(flow.Points == 0, "%d points: this engine reports none", flow.Points)
}
