package limits

import (
	"math"
	"time"

	"linerate/internal/core/units"
)

// Constants of CUBIC, RFC 9438 sections 4.6 and 5.
const (
	cubicBeta = 0.7 // share of the window that remains after a loss
	cubicC    = 0.4 // growth constant, segments per second cubed
)

// mathisC returns the constant of Mathis, Semke, Mahdavi, Ott: "The
// Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", ACM CCR
// 27(3), 1997, table 1 for periodic losses: sqrt(3/2) with an acknowledgment
// per segment and sqrt(3/4) with one per two.
func mathisC(delayedAcks bool) float64 {
	if delayedAcks {
		return math.Sqrt(3.0 / 4)
	}
	return math.Sqrt(3.0 / 2)
}

// Mathis returns the most that Reno's congestion avoidance carries at a loss of a share p of
// the segments, 0 to 1: C x MSS x 8 / (rtt x sqrt p). mss is in bytes. Delayed acknowledgments
// halve the growth of a sender that counts acknowledgments; Linux and FreeBSD count bytes (RFC
// 3465), for which delayedAcks is false. No loss (p of 0 or less) or no delay does not limit
// and gives +Inf; an mss of 0 or less carries nothing.
func Mathis(mss int, rtt time.Duration, p float64, delayedAcks bool) units.BitRate {
	return windowRate(mss, rtt, p, func(_, p float64) float64 {
		return mathisC(delayedAcks) / math.Sqrt(p)
	})
}

// Cubic returns the most that CUBIC carries outside its Reno-friendly region at a loss of a
// share p of the segments, from the average window in segments of RFC 9438 section 5.1,
// equation 5, which is 1.054 x (rtt/p)^(3/4). The arguments are those of Mathis.
func Cubic(mss int, rtt time.Duration, p float64) units.BitRate {
	return windowRate(mss, rtt, p, func(rtt, p float64) float64 {
		return cubicK() * math.Pow(rtt/p, 0.75)
	})
}

// LossBound returns the most that a CUBIC sender carries at a loss of a share p of the
// segments: the larger of Cubic and Mathis, since CUBIC is never slower than Reno (RFC 9438
// section 4.3). The arguments are those of Mathis.
func LossBound(mss int, rtt time.Duration, p float64) units.BitRate {
	return max(Mathis(mss, rtt, p, false), Cubic(mss, rtt, p))
}

// TimeoutBound returns approximately what Reno carries at a loss of a share p of the segments,
// 0 to 1, if small windows leave many losses to the retransmission timer: Padhye, Firoiu,
// Towsley, Kurose, "Modeling TCP Throughput", SIGCOMM 1998, equation 30, with one
// acknowledgment per segment. timer is the least retransmission timeout. The other arguments
// are those of Mathis.
func TimeoutBound(mss int, rtt, timer time.Duration, p float64) units.BitRate {
	return windowRate(mss, rtt, p, func(rtt, p float64) float64 {
		waits := timer.Seconds() * min(1, 3*math.Sqrt(3*p/8)) * p * (1 + 32*p*p)
		return rtt / (rtt*math.Sqrt(2*p/3) + waits)
	})
}

// LossBudget returns the largest share of lost segments, 0 to 1, at which Reno still reaches
// target: the inverse of Mathis without delayed acknowledgments. It is 1 if loss does not
// matter (no delay, no target) and 0 if no budget suffices (an mss of 0 or less). CUBIC never
// needs less; CubicLossBudget returns what it tolerates.
func LossBudget(target units.BitRate, mss int, rtt time.Duration) float64 {
	return budget(target, mss, rtt, func(_, window float64) float64 {
		return math.Pow(mathisC(false)/window, 2)
	})
}

// CubicLossBudget is LossBudget for a CUBIC sender: the inverse of LossBound.
func CubicLossBudget(target units.BitRate, mss int, rtt time.Duration) float64 {
	cubic := budget(target, mss, rtt, func(rtt, window float64) float64 {
		return rtt / math.Pow(window/cubicK(), 4.0/3)
	})
	return max(cubic, LossBudget(target, mss, rtt))
}

// cubicK returns the factor of RFC 9438 equation 5, about 1.054.
func cubicK() float64 {
	return math.Pow(cubicC*(3+cubicBeta)/(4*(1-cubicBeta)), 0.25)
}

// windowRate converts an average window in segments, a function of the round trip in seconds
// and of the loss, to a rate.
func windowRate(mss int, rtt time.Duration, p float64, segments func(rtt, p float64) float64) units.BitRate {
	switch {
	case mss <= 0:
		return 0
	case rtt <= 0 || p <= 0:
		return units.BitRate(math.Inf(1))
	}
	seconds := rtt.Seconds()
	return units.BitRate(segments(seconds, min(p, 1)) * float64(mss) * 8 / seconds)
}

// budget converts the window in segments that target needs to a loss, by a function of the
// round trip in seconds and of that window.
func budget(target units.BitRate, mss int, rtt time.Duration, loss func(rtt, window float64) float64) float64 {
	switch {
	case mss <= 0:
		return 0
	case rtt <= 0 || target <= 0:
		return 1
	}
	seconds := rtt.Seconds()
	return min(1, loss(seconds, float64(target)*seconds/8/float64(mss)))
}
