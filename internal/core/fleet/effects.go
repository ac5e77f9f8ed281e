package fleet

import (
	"slices"

	"linerate/internal/core/stats"
)

// Deviation is how far a number of the direction between two hosts is from what is expected of it.
type Deviation struct {
	From, To int64
	D        float64
	Only     int64 // the one of them that it tells of; 0 if it may be either
}

// Tells reports whether it tells of a host.
func (d Deviation) Tells(host int64) bool { return d.Only == 0 || d.Only == host }

// Effects decomposes deviations: D = Sends[From] + Receives[To] + the rest, which belongs to the
// two hosts together.
type Effects struct{ Sends, Receives map[int64]float64 }

const (
	passes = 3 // of medians over senders and receivers (fleet.md section 6.2)
	// fewest is the number of partners from which a median separates the usual from the odd. With
	// fewer a host gets the number nearest to 0: what one partner alone saw may be its path, or a stalled run.
	fewest = 3
)

// Fit decomposes deviations by the medians of each sender and each receiver.
func Fit(all []Deviation) Effects {
	e := Effects{map[int64]float64{}, map[int64]float64{}}
	from, to := map[int64][]Deviation{}, map[int64][]Deviation{}
	for _, d := range all {
		if d.Tells(d.From) {
			from[d.From] = append(from[d.From], d)
		}
		if d.Tells(d.To) {
			to[d.To] = append(to[d.To], d)
		}
	}
	for range passes {
		for host, of := range from {
			e.Sends[host] = usual(of, func(d Deviation) (int64, float64) { return d.To, d.D - e.Receives[d.To] })
		}
		for host, of := range to {
			e.Receives[host] = usual(of, func(d Deviation) (int64, float64) { return d.From, d.D - e.Sends[d.From] })
		}
	}
	return e
}

// Rest returns what of a deviation belongs to neither host alone.
func (e Effects) Rest(d Deviation) float64 { return d.D - e.Sends[d.From] - e.Receives[d.To] }

// other returns what of a deviation belongs to the other end than a host.
func (e Effects) other(host int64, d Deviation) float64 {
	if d.From == host {
		return e.Receives[d.To]
	}
	return e.Sends[d.From]
}

// usual returns the median over partners of a host, each of which counts once, or of too few the number
// nearest to 0: 0 itself if they differ in sign.
func usual[T any, P comparable](all []T, of func(T) (partner P, y float64)) float64 {
	with := map[P][]float64{}
	for _, one := range all {
		partner, y := of(one)
		with[partner] = append(with[partner], y)
	}
	v := make([]float64, 0, len(with))
	for _, y := range with {
		v = append(v, stats.Median(y))
	}
	if len(v) < fewest {
		return max(0, slices.Min(v)) + min(0, slices.Max(v))
	}
	return stats.Median(v)
}
