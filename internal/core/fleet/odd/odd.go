// Package odd finds the hosts and the directions between two hosts that carry less than the
// others (fleet.md section 6). A single measurement raises a suspicion, and no more.
package odd

import (
	"math"
	"slices"

	"linerate/internal/core/fleet"
	"linerate/internal/core/stats"
)

// Host is a host that carries less than the others. Its shares are relative to the others; 1 if
// it is as good as they are.
type Host struct {
	Host            int
	Sends, Receives float64
}

// Way is a direction between two hosts that carries less than both carry with others.
type Way struct {
	From, To int
	Share    float64 // of the rate that these two hosts should reach
}

// Result is the analysis of a matrix of rates.
type Result struct {
	Level float64 // what most of the better directions reach; 0 without a number
	Hosts []Host  // odd hosts, in the order of their places
	Ways  []Way   // odd by themselves
}

// Margin is the least shortfall that counts, as a share (p): one run cannot show less.
const Margin = 0.2

const (
	// upper is the quantile of rates that stands for what hosts can do (fleet.md section 6.1):
	// a slow partner spoils only one of a host's rates.
	upper = 0.8
	// How many standard errors an effect must have, so that noise alone is not called odd (p).
	// There are many more directions than hosts.
	hostErrors = 4
	wayErrors  = 5
	leastHosts = 3 // with two, either could be the slow one
	// nothing is the share that stands for no payload, because 0 has no logarithm.
	nothing = 1e-6
)

// Look finds what is odd in a matrix of rates. A direction should reach the lower of what its
// hosts otherwise send and receive (fleet.md section 6.1), and a host what the others reach.
func Look(rates fleet.Matrix) Result {
	r := Result{Level: Level(rates)}
	if r.Level == 0 {
		return r
	}
	n := len(rates)
	sent, received := make([]float64, n), make([]float64, n)
	for i := range rates {
		sent[i], received[i] = reach(rates.Row(i)), reach(rates.Column(i))
		if n < leastHosts {
			sent[i], received[i] = r.Level, r.Level
		}
	}
	rests := rates.Map(func(i, j int, v float64) float64 { return short(min(sent[i], received[j]), v) })
	noise, margin, e := 0.0, -math.Log(1-Margin), fleet.Effects{}
	if n >= leastHosts {
		e = fleet.Fit(rests.Deviations())
		rests = rests.Map(func(i, j int, v float64) float64 { return e.Rest(fleet.Deviation{From: int64(i), To: int64(j), D: v}) })
		noise = stats.Scatter(rests.All())
	}
	share := func(effect float64, ways int) float64 {
		if ways == 0 || effect < max(margin, hostErrors*stats.MedianError*noise/math.Sqrt(float64(ways))) {
			return 1
		}
		return math.Exp(-effect)
	}
	for i := range rates {
		h := Host{i, share(short(r.Level, sent[i])+e.Sends[int64(i)], len(rates.Row(i))), share(short(r.Level, received[i])+e.Receives[int64(i)], len(rates.Column(i)))}
		if h.Sends < 1 || h.Receives < 1 {
			r.Hosts = append(r.Hosts, h)
		}
	}
	for i, row := range rests {
		for j, rest := range row {
			if rest >= max(margin, wayErrors*noise) { // false for NaN
				r.Ways = append(r.Ways, Way{i, j, math.Exp(-rest)})
			}
		}
	}
	return r
}

// Level returns what most of the better directions reach: the median of those within the margin
// of the upper quantile; 0 without a number.
func Level(rates fleet.Matrix) float64 {
	all := rates.All()
	least := reach(all) * (1 - Margin) // it sorts them
	if from, _ := slices.BinarySearch(all, least); len(all) > 0 {
		return stats.Median(all[from:])
	}
	return 0
}

// reach returns the upper quantile of v, 0 for none.
func reach(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[min(len(v)-1, int(upper*float64(len(v))))]
}

// short returns how far a rate falls short of another, as a logarithm.
func short(of, rate float64) float64 {
	if of <= 0 {
		return 0
	}
	return math.Log(of / max(rate, of*nothing))
}
