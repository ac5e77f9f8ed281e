package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"linerate/internal/core/model"
)

// The lab: a rate at which a second of traffic costs little CPU, and reno with a window that
// the queue holds, so that a run loses nothing. Both are so large that a machine that is late
// by 0.1 s keeps the link busy: runs differ only by the swing.
const (
	labRate  = 20 // Mbit/s
	swingBy  = 10 // percent
	turns    = 8  // baseline runs and candidate runs of a fixed session, each
	settling = "-t 1s --omit 300ms --settle 0s --margin 1%"
)

// periods returns the periods of the swing. A run takes 1.4 s in total, so that they last 44 to
// 220 runs, like periods of ten minutes to an hour for the runs of 15 s in the simulation of
// core/analysis.
func periods() []time.Duration {
	return []time.Duration{60 * time.Second, 90 * time.Second, 150 * time.Second, 300 * time.Second}
}

// period returns the period of session i.
func period(i int) time.Duration { return periods()[i%len(periods())] }

// lead returns where in its period session i begins: by the golden ratio, which spreads any
// number of sessions evenly.
func lead(i int) time.Duration {
	_, part := math.Modf(float64(i) * math.Phi)
	return (time.Duration(part * float64(period(i)))).Truncate(time.Millisecond)
}

// kind is a group of sessions that differ only in period, phase and seed.
type kind struct {
	name, about string
	sessions    int
	flags       []string
	truth       float64       // logarithm of the candidate's true effect, 0 for none
	right       model.Outcome // the correct outcome, "" if there is no effect
	sequence    bool          // also count what consecutive batches would have shown
}

// share returns the payload's share of what a full frame of a segment size occupies on the
// link, with time stamps (12 bytes of options, RFC 7323): 40 bytes of IP and TCP headers, 14 of
// Ethernet's, 24 around the frame (wire.Overhead).
func share(mss float64) float64 { return (mss - 12) / (mss + 40 + 14 + 24) }

// kinds returns all kinds. Windows of 384 and 512 KiB are far above what 20 Mbit/s need in 2
// ms, which is 5 kB. Segments of 774 and 793 bytes make the payload's share of the link 5.0 %
// smaller, or that of full ones 5.0 % larger, than the other's.
func kinds() []kind {
	same := []string{"--factor", "window=384KiB,512KiB", "--baseline", "384KiB", "--no-twin"}
	return []kind{
		{name: "same-fixed", about: "no difference, 8 blocks, judged once", sessions: 40, sequence: true,
			flags: append(slices.Clip(same), "--blocks", fmt.Sprint(turns))},
		{name: "less", about: "segments of 774 bytes against full ones, at most 20 blocks", sessions: 12,
			flags: []string{"--factor", "mss=1460,774", "--baseline", "1460", "-w", "512KiB", "--max-blocks", "20"},
			truth: math.Log(share(774) / share(1460)), right: model.Worse},
		{name: "more", about: "full segments against 793 bytes, at most 20 blocks", sessions: 12,
			flags: []string{"--factor", "mss=793,1460", "--baseline", "793", "-w", "512KiB", "--max-blocks", "20"},
			truth: math.Log(share(1460) / share(793)), right: model.Better},
		{name: "same-looked", about: "no difference, at most 8 blocks, looked at after each", sessions: 40,
			flags: append(slices.Clip(same), "--max-blocks", fmt.Sprint(turns))},
	}
}

// target returns the lab of session i.
func target(i int) string {
	return fmt.Sprintf("lab:rate=%dmbit,swing=%d%%/%s/%s,rtt=2ms,queue=1MiB,near.tcp.congestion_control=reno", labRate, swingBy, period(i), lead(i))
}
