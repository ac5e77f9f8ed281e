package stats

import (
	"time"

	"linerate/internal/core/units"
)

// Defaults that linerate proposes, all in one place; statistics.md marks each with (p) in the
// section given here. Names with Default can be overridden by a plan.
const (
	DefaultConfidence               = 0.95            // of verdicts and intervals, two-sided (0)
	DefaultMargin     units.Percent = 3               // smallest change that matters (0)
	DefaultTolerance  units.Percent = 5               // of the plateau search (8)
	DefaultMaxBlocks                = 20              // most blocks of a sequential experiment (5.3)
	DefaultSettle                   = 2 * time.Second // after applying a setting (2)

	OmitLeast       = 3 * time.Second // least warm-up (1)
	OmitRoundTrips  = 20              // warm-up in round trips, if longer (1)
	BlockRepeats    = 2               // most repeats of a block with an invalid run (1)
	AssumedNoise    = 0.041           // of a block difference if not measured (13)
	NullBlocks      = 4               // baseline pairs at the start of a comparison of two settings (2)
	NullWarn        = 40              // evidence of the baseline against itself that gives a warning (5.4)
	NullVeto        = 200             // and that invalidates all verdicts (5.4)
	SubsetSize      = 3               // candidates in an incomplete block (2)
	UnstableRuns    = 2               // invalid runs from which a setting is called unstable (1)
	OrderAlpha      = 0.05            // of the checks of position effect and trend (2.2)
	PathDrop        = 0.20            // fall of the baseline that is called a change of path (2.2)
	ShiftPaths      = 2000            // simulated paths behind its critical value (10.3)
	ShiftQuantile   = 0.99            // quantile of those paths (10.3)
	DropLeast       = 0.10            // share of the rate whose loss is a drop of a size curve (9)
	DropSweeps      = 5               // least sweeps for cliffs and notches (9)
	StallBelow      = 0.10            // share of the run's median below which an interval is a stall (10.1)
	SpikeBeyond     = 6               // scales from the run's median beyond which an interval is a spike (10.2)
	SpikeFloor      = 0.02            // least scale as a share of the median (10.2)
	ExactFlipBlocks = 20              // most blocks whose sign vectors are enumerated (4.1)
	FlipDraws       = 100_000         // sign vectors drawn above that (4.1)
	NormalBlocks    = 3               // least blocks for a t interval, as a description (4.3)
	WatchBlocks     = 5               // least blocks that can rule out harm by evidence of 20 (5.3)
	LargeEffect     = 0.405           // log ratio of 1.5: from there on an open guard delays nothing (6.5)
	RankBlocks      = 6               // least blocks for the exact rank interval, and for any verdict (4.2, 4.4)
	PlannedPower    = 0.80            // power behind the least detectable change (7.2)
	NoiseQuantile   = 0.20            // lower chi-square quantile behind the noise bound (7.1)
	HopelessFactor  = 3               // projection over remaining blocks that is reported as hopeless (5.3)
	UnitMargin      = 0.03            // margin on the scale that the bets are designed for (3)
	powerMidpoints  = 2000            // midpoints of the power integral (7.2)
	madScale        = 1.4826          // standard deviation over median absolute deviation, normal values (10.2)
)

// DefaultOmit returns the warm-up of a path with round trip rtt: the larger of
// 3 s and 20 round trips (statistics.md section 1).
func DefaultOmit(rtt time.Duration) time.Duration {
	return max(OmitLeast, OmitRoundTrips*rtt)
}
