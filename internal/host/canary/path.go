package canary

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"linerate/internal/core/mtu"
	"linerate/internal/core/plain"
	"linerate/internal/core/probe"
	"linerate/internal/panics"
)

// answer answers a query about a path.
func answer(ctx context.Context, q probe.Query, within, settle time.Duration) []probe.Result {
	addr, err := resolve(ctx, q.Host, q.From)
	if err == nil {
		err = awaitLink(ctx, addr, settle)
	}
	if err != nil {
		return []probe.Result{{Target: q.Target, Full: q.Bytes > 0, Detail: reason(err)}}
	}
	if q.Bytes == 0 {
		r := probe.Result{Target: q.Target, Bytes: probe.Small}
		return []probe.Result{until(ctx, within, r, func(ctx context.Context) (string, error) { return anyAnswer(ctx, addr, probe.Small, wait) })}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	s := search{largest: q.Bytes, ask: func(size int, wait time.Duration) (string, error) { return anyAnswer(ctx, addr, size, wait) }}
	s.do()
	first := probe.Result{Target: q.Target, Full: true, Bytes: s.passes, OK: s.passes >= q.Bytes, Detail: s.detail()}
	all := []probe.Result{first, q.Address(addr.String())}
	if t := s.reported; t != nil {
		who := ""
		if t.router.IsValid() {
			who = t.router.String()
		}
		all = append(all, q.Router(who, t.mtu))
	}
	return all
}

const (
	// maxSizes is how many sizes a search tries, besides the first and the smallest.
	maxSizes = 12
	// A try waits for several round trips, within these bounds: a loaded machine is slow, and
	// a search must end in seconds.
	leastWait, mostWait = 200 * time.Millisecond, wait
	roundTrips          = 4
	// triesOfSize is how often to try a size before it counts as lost. If small packets are
	// lost at the same moment, that try says nothing about the size and is repeated.
	triesOfSize, triesAtAll = 2, 4
)

// search finds the largest packet that gets an answer.
type search struct {
	largest int // largest size to try
	ask     func(size int, wait time.Duration) (string, error)

	passes   int // largest size that was answered
	lost     int // smallest size above passes that was not answered; 0 for none
	sizes    int // number tried
	wait     time.Duration
	how      string
	reported *tooBig
	err      error // of the last try
}

func (s *search) do() {
	s.wait = mostWait
	began := time.Now()
	if !s.small() {
		return
	}
	s.wait = min(max(roundTrips*time.Since(began), leastWait), mostWait)
	s.passes = probe.Small
	if s.try(s.largest) {
		return
	}
	for s.sizes = 0; s.sizes < maxSizes && s.lost-s.passes > 1; s.sizes++ {
		s.try(s.next())
	}
}

// small probes with a small packet, several times.
func (s *search) small() bool {
	for range triesAtAll {
		if s.how, s.err = s.ask(probe.Small, s.wait); s.err == nil {
			return true
		}
	}
	return false
}

// next returns the next size to try.
func (s *search) next() int {
	reported := 0
	if s.reported != nil {
		reported = s.reported.mtu
	}
	return mtu.Next(s.passes, s.lost, reported)
}

// try tries one size, and narrows the search.
func (s *search) try(size int) bool {
	for silent, n := 0, 0; silent < triesOfSize && n < triesAtAll; n++ {
		small := make(chan error, 1)
		go func() {
			small <- panics.Call(func() error {
				_, err := s.ask(probe.Small, s.wait)
				return err
			})
		}()
		how, err := s.ask(size, s.wait)
		together := <-small
		if err == nil {
			s.how, s.passes = how, size
			return true
		}
		s.err = err
		if big, ok := errors.AsType[*tooBig](err); ok {
			if s.reported == nil || !s.reported.router.IsValid() || big.mtu > 0 && big.mtu < s.reported.mtu {
				s.reported = big
			}
			break
		}
		if together == nil {
			silent++
		}
	}
	s.lost = size
	return false
}

// detail describes the result.
func (s *search) detail() string {
	switch {
	case s.passes == 0:
		return reason(s.err)
	case s.lost == 0:
		return s.how
	case s.lost-s.passes > 1:
		return fmt.Sprintf("%s %d bytes pass, %d do not", probe.AtLeast, s.passes, s.lost)
	}
	return fmt.Sprintf("%d bytes pass, %d do not: %s", s.passes, s.lost, reason(s.err))
}

// Host returns the host of a user's target: the address, or the host of a HOST:PORT or URL.
func Host(target string) string {
	if u, err := plain.ParseURL(target); err == nil && u.Host != "" {
		return u.Hostname()
	}
	if host, _, err := net.SplitHostPort(target); err == nil {
		return host
	}
	return target
}
