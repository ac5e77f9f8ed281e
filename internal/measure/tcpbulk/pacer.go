package tcpbulk

import "time"

// pacer spreads a stream's writes evenly over time, and bounds its reads. The zero value does not
// pace.
type pacer struct {
	rate float64       // bytes a second; 0 is no limit
	next time.Duration // when the next write is due, since the start
}

// A write holds the bytes of paceStep, so that a queue never sees a longer burst, and at least
// a segment. A stream that the path blocked makes up for at most paceDebt.
const (
	paceStep  = time.Millisecond
	paceDebt  = 5 * time.Millisecond
	paceLeast = 1448                   // bytes: a segment of TCP at MTU 1500 with timestamps
	paceNap   = 100 * time.Millisecond // interval at which a stream checks whether it was stopped
	paceAhead = time.Second            // that a receiver is ahead of the rate at most: one end begins before the other
)

// wait sleeps until the next write is due, at most paceNap, and returns its length: at most
// most bytes, 0 if it is not due yet. now is the time since the start.
func (p *pacer) wait(most int, now time.Duration) int {
	if p.rate <= 0 {
		return most
	}
	n := min(most, max(paceLeast, int(p.rate*paceStep.Seconds())))
	p.next = max(p.next, now-paceDebt)
	if p.next > now {
		time.Sleep(min(p.next-now, paceNap))
	}
	if p.next > now+paceNap {
		return 0
	}
	p.next += time.Duration(float64(n) / p.rate * float64(time.Second))
	return n
}

// hold sleeps, at most paceNap, if a receiver that has read got bytes is ahead of the rate, and
// reports whether it was. TCP's flow control then stops a sender that ignores the rate.
func (p *pacer) hold(got int64, now time.Duration) bool {
	if p.rate <= 0 {
		return false
	}
	ahead := time.Duration(float64(got)/p.rate*float64(time.Second)) - now - paceAhead
	if ahead > 0 {
		time.Sleep(min(ahead, paceNap))
	}
	return ahead > 0
}
