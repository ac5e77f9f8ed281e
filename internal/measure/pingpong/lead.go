package pingpong

import (
	"context"
	"errors"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/measure/plane"
)

// How the leader divides its time.
const (
	// trials is the number of trials of a size. NetPIPE has 3, or 7 in builds for publication.
	trials = 7
	// defaultShare is the default time for a size.
	defaultShare = 200 * time.Millisecond
	// trialsPerShare makes a trial 20 ms by default: long enough for hundreds of the shortest
	// messages, and seven trials with their calibration fit.
	trialsPerShare = 10
	// maxShares is how many shares a size of slow messages may take before its trials end
	// early.
	maxShares = 5
	// growth is the factor between two batches of the calibration.
	growth = 4
	// patienceFactor is how many times longer than expected a batch may take.
	patienceFactor = 10
	// maxBatch bounds every batch.
	maxBatch = 10 * time.Minute
	// Stalls that end the sweep: the path is gone, or not worth it.
	stallsInRow = 3
	stallsInAll = 10
)

// lead measures all sizes.
func (r *course) lead(ctx context.Context) error {
	share := r.engine.share
	if r.flow.Duration > 0 {
		share = r.flow.Duration / time.Duration(len(r.flow.Sweep.Sizes))
	}
	s := sweep{course: r, share: share, target: max(share/trialsPerShare, time.Millisecond)}
	why := s.all(ctx)
	if left := len(r.flow.Sweep.Sizes) - len(r.points); left > 0 {
		r.warn("not measured: %d of %s: %s", left, plain.Count(len(r.flow.Sweep.Sizes), "size"), why)
		if len(r.points) == 0 {
			return errors.New("no size was measured: " + why)
		}
	}
	return nil
}

// errStopped reports that Stop was called between two batches.
var errStopped = errors.New("stopped")

// sweep is one pass of the leader over the sizes.
type sweep struct {
	*course
	share  time.Duration // intended for one size
	target time.Duration // intended for one trial
	stalls int           // total
	row    int           // consecutive sizes that stalled last
	late   bool          // the follower may still wait on the previous connection
}

// all measures the sizes and returns why it ended, "" if all were measured.
func (s *sweep) all(ctx context.Context) string {
	for i, size := range s.flow.Sweep.Sizes {
		if why := s.ending(ctx); why != "" {
			s.finish()
			return why
		}
		if i > 0 && s.flow.Sweep.Fresh && s.row == 0 {
			if err := s.renew(ctx); err != nil {
				return s.whyNot(ctx, err)
			}
		}
		begun := s.Now()
		point, err := s.measure(int(size))
		point.Log = s.logged()
		if err == nil {
			s.row = 0
			s.keep(point, begun)
			continue
		}
		if errors.Is(err, errStopped) {
			s.finish()
		}
		if s.isStopped() || ctx.Err() != nil {
			return s.whyNot(ctx, err)
		}
		if !errors.Is(err, plane.ErrStalled) {
			s.warn("%v: the connection was lost: %v", size, err)
		}
		point.Stalled = true
		s.keep(point, begun)
		s.stalls++
		s.row++
		if err := s.reconnect(ctx, (*plane.Link).Abort); err != nil {
			return s.whyNot(ctx, err)
		}
		s.late = true
	}
	s.finish()
	return ""
}

// ending returns why no further size is measured, "" to continue.
func (s *sweep) ending(ctx context.Context) string {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx).Error()
	case s.isStopped():
		return "stopped"
	case s.row >= stallsInRow:
		return "three sizes in a row stalled"
	case s.stalls >= stallsInAll:
		return "too many sizes stalled"
	case s.flow.Duration > 0 && s.Now() >= s.flow.Duration:
		return "the time is over"
	}
	return ""
}

// whyNot returns the reason for the sweep to end, if there is one, else err.
func (s *sweep) whyNot(ctx context.Context, err error) string {
	if why := s.ending(ctx); why != "" {
		return why
	}
	return err.Error()
}

// finish tells the follower that the sweep is over.
func (s *sweep) finish() {
	p := s.peer()
	wait := s.wait()
	p.link.Limit(wait, wait)
	if err := p.tell(end); err != nil {
		s.warn("the other end was not told of the end: %v", err)
	}
}

// renew agrees on a new connection, and opens it.
func (s *sweep) renew(ctx context.Context) error {
	p := s.peer()
	p.link.Limit(s.engine.bounds.leader, s.engine.bounds.leader)
	if err := p.tell(renew); err != nil && !s.isStopped() {
		// The connection is abandoned either way; the follower notices.
		s.warn("renew connection: %v", err)
	}
	return s.reconnect(ctx, (*plane.Link).Close)
}

// keep adds a point to the report, and emits it.
func (s *sweep) keep(p model.Point, begun time.Duration) {
	s.points = append(s.points, p)
	if len(p.Trials) == 0 {
		return
	}
	s.Emit([]model.Sample{{
		Host: s.env.Host, Direction: s.direction, Metric: model.LatencyP50, Value: middle(p.Trials).Seconds(),
		Start: begun, Length: s.Now() - begun,
	}})
}

// middle returns the median of d, the upper one of two; it does not change d.
func middle(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/2] }

// measure calibrates and runs the trials of one size. With an error, the point holds the trials
// before it.
func (s *sweep) measure(size int) (model.Point, error) {
	point := model.Point{Size: units.Bytes(size)}
	begun := time.Now()
	rounds, first, err := s.calibrate(size)
	if err != nil {
		return point, err
	}
	point.Rounds = int64(rounds)
	if first > 0 {
		point.Trials = []time.Duration{first}
		return point, nil
	}
	p := s.peer()
	for len(point.Trials) < trials && (len(point.Trials) == 0 || time.Since(begun) < maxShares*s.share) {
		if s.isStopped() {
			return point, errStopped
		}
		oneWay, _, err := p.lead(s.batch(size, rounds), s.bounds(size, rounds))
		if err != nil {
			return point, err
		}
		point.Trials = append(point.Trials, oneWay)
	}
	return point, nil
}

// calibrate warms up the connection and returns the rounds of a trial. If the first messages
// alone took as long as the whole size may, it also returns their time, which is the only
// trial.
func (s *sweep) calibrate(size int) (rounds int, first time.Duration, err error) {
	p := s.peer()
	least := leastRounds(s.mode)
	begun, again := time.Now(), false
	for rounds := least; ; {
		oneWay, all, err := p.lead(s.batch(size, rounds), s.bounds(size, rounds))
		if err != nil {
			return 0, 0, err
		}
		s.late = false
		spent := time.Since(begun)
		if rounds == least && !again && all >= maxShares*s.share {
			return rounds, oneWay, nil
		}
		long := all >= s.target/growth
		if long && rounds == least && !again && !s.isStopped() {
			// Large, or only late: the first messages of a connection often are.
			again = true
			continue
		}
		if long || spent >= maxShares*s.share || rounds == maxRounds || s.isStopped() {
			perRound := max(1, all/time.Duration(rounds))
			return min(max(int(s.target/perRound), least), maxRounds), 0, nil
		}
		rounds = min(rounds*growth, maxRounds)
	}
}

// wait returns how long the follower may take to answer: after a stall it notices by its own
// timeout, if the path does not carry a reset either.
func (s *sweep) wait() time.Duration {
	if s.late {
		return s.engine.bounds.follower + s.engine.bounds.leader
	}
	return s.engine.bounds.leader
}

func (s *sweep) bounds(size, rounds int) limits {
	return limits{answer: s.wait(), quiet: s.engine.quiet(size, s.engine.bounds.leader), total: s.limit(size, rounds)}
}

func (s *sweep) batch(size, rounds int) frame {
	return frame{kind: batch, mode: s.mode, size: size, rounds: rounds}
}

// limit returns how long a batch may take: much longer than the sizes measured so far suggest,
// if each byte costs as much as at the size that predicts the least.
func (s *sweep) limit(size, rounds int) time.Duration {
	limit := s.engine.bounds.batch
	expected := time.Duration(0)
	for _, p := range s.points {
		if len(p.Trials) == 0 {
			continue
		}
		t := float64(middle(p.Trials)) * max(1, float64(size)/float64(p.Size)) * 2 * float64(rounds)
		if d := time.Duration(min(t, float64(maxBatch))); expected == 0 || d < expected {
			expected = d
		}
	}
	return min(max(limit, patienceFactor*expected), maxBatch)
}
