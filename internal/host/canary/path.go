package canary

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/rescue"
)

const (
	pathScheme  = "path://"
	smallScheme = "small://"
)

// PathTo is the target that asks how large packets to a host may be, up to bytes
// of the IP packet. The answers are read by PathOf.
func PathTo(host string, bytes int) string { return pathScheme + host + "/" + strconv.Itoa(bytes) }

// SmallTo is the target that asks a host with small packets only.
func SmallTo(host string) string { return smallScheme + host }

// Path is how large packets from one host to another may be. A packet that is
// larger than what the other direction carries is seen to arrive where the other
// end refuses a UDP port, so that each direction is told for itself.
type Path struct {
	Host    string // as it was asked for
	Address string // that it has, "" where that is not known
	Asked   int    // bytes of the largest packet that was tried
	Passes  int    // bytes of the largest that was answered; 0: not even a small one
	Exact   bool   // Passes+1 was tried and lost
	Router  string // who said that a packet was too big; "" for nobody, or for somebody unknown
	Told    bool   // somebody said so
	MTU     int    // that was told with it; 0 for none
}

// PathOf reads the answers to PathTo(host, bytes). It reports false where there
// are none.
func PathOf(results []Result, host string, bytes int) (Path, bool) {
	target := PathTo(host, bytes)
	i := slices.IndexFunc(results, func(r Result) bool { return r.Target == target })
	if i < 0 {
		return Path{}, false
	}
	r := results[i]
	p := Path{Host: host, Asked: bytes, Passes: r.Bytes, Exact: !strings.HasPrefix(r.Detail, atLeast)}
	for _, more := range results[i+1:] {
		of, who, ok := strings.Cut(more.Target, " ")
		switch {
		case !ok || who != target:
			return p, true
		case of == addressWord:
			p.Address = more.Detail
		case of == routerWord:
			p.Router, p.Told, p.MTU = more.Detail, true, more.Bytes
		}
	}
	return p, true
}

// What the answers after the first one are about, and how the first one says that
// the search ended early.
const (
	addressWord = "address"
	routerWord  = "router"
	atLeast     = "at least"
)

// query is what a target of this file asks.
type query struct {
	target, host string
	bytes        int // 0: small packets only
}

func parsePath(target string) (query, bool) {
	if host, ok := strings.CutPrefix(target, smallScheme); ok {
		return query{target: target, host: host}, host != "" && !strings.Contains(host, "/")
	}
	rest, ok := strings.CutPrefix(target, pathScheme)
	if !ok {
		return query{}, false
	}
	at := strings.LastIndex(rest, "/")
	if at <= 0 || strings.Contains(rest[:at], "/") {
		return query{}, false
	}
	n, err := strconv.Atoi(rest[at+1:])
	return query{target: target, host: rest[:at], bytes: n}, err == nil && n >= smallPacket && n <= 65535
}

// results answers q.
func (q query) results(ctx context.Context, within, settle time.Duration) []Result {
	addr, err := resolve(ctx, q.host)
	if err == nil {
		err = awaitLink(ctx, addr, settle)
	}
	if err != nil {
		return []Result{{Target: q.target, Full: q.bytes > 0, Detail: reason(err)}}
	}
	if q.bytes == 0 {
		r := Result{Target: q.target, Bytes: smallPacket}
		return []Result{until(ctx, within, r, func(ctx context.Context) (string, error) { return anyAnswer(ctx, addr, smallPacket, wait) })}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	s := search{largest: q.bytes, ask: func(size int, wait time.Duration) (string, error) { return anyAnswer(ctx, addr, size, wait) }}
	s.do()
	first := Result{Target: q.target, Full: true, Bytes: s.passes, OK: s.passes >= q.bytes, Detail: s.detail()}
	all := []Result{first, {Target: addressWord + " " + q.target, OK: true, Detail: addr.String()}}
	if t := s.told; t != nil {
		who := ""
		if t.router.IsValid() {
			who = t.router.String()
		}
		all = append(all, Result{Target: routerWord + " " + q.target, Bytes: t.mtu, OK: true, Detail: who})
	}
	return all
}

const (
	// maxSizes is how many sizes a search tries besides the first and the least.
	maxSizes = 12
	// A try waits for several round trips, within these bounds: a loaded machine is
	// late, and a search is to end in seconds.
	leastWait, mostWait = 200 * time.Millisecond, wait
	roundTrips          = 4
	// triesOfSize is how often a size is tried before it counts as lost. What else
	// is lost in the same moment says nothing about sizes, and is tried again.
	triesOfSize, triesAtAll = 2, 4
)

// search finds the largest packet that is answered.
type search struct {
	largest int // to try
	ask     func(size int, wait time.Duration) (string, error)

	passes int // largest that was answered
	lost   int // least that was not, above passes; 0 for none
	sizes  int // tried
	wait   time.Duration
	how    string
	told   *tooBig
	err    error // of the last try
}

// common are the MTUs that paths have: the least of IPv4 and IPv6, tunnels,
// PPPoE (RFC 2516), Ethernet, 802.11, FDDI, what drivers call jumbo, and each of
// these less the 14 bytes of the header that some of them count.
func common() []int {
	return []int{576, 1280, 1400, 1420, 1450, 1476, 1480, 1492, 1500, 1504, 2304, 4074, 4088, 4352, 7408, 8166, 8986, 9000, 9014, 9198, 9202, 9216, 16110}
}

func (s *search) do() {
	s.wait = mostWait
	began := time.Now()
	if !s.small() {
		return
	}
	s.wait = min(max(roundTrips*time.Since(began), leastWait), mostWait)
	s.passes = smallPacket
	if s.try(s.largest) {
		return
	}
	for s.sizes = 0; s.sizes < maxSizes && s.lost-s.passes > 1; s.sizes++ {
		s.try(s.next())
	}
}

// small asks with a small packet, several times.
func (s *search) small() bool {
	for range triesAtAll {
		if s.how, s.err = s.ask(smallPacket, s.wait); s.err == nil {
			return true
		}
	}
	return false
}

// next is the size to try: what was told, then the commonest, then among those
// that paths have, then the middle. The size above one that a path may well end
// at is tried as soon as that one has passed.
func (s *search) next() int {
	within := func(n int) bool { return n > s.passes && n < s.lost }
	switch {
	case s.told != nil && within(s.told.mtu):
		return s.told.mtu
	case within(1500):
		return 1500
	case slices.Contains(common(), s.passes) || s.told != nil && s.told.mtu == s.passes:
		return s.passes + 1
	}
	var left []int
	for _, n := range common() {
		if within(n) {
			left = append(left, n)
		}
	}
	if len(left) > 0 {
		return left[len(left)/2]
	}
	return (s.passes + s.lost) / 2
}

// try tries one size, and narrows the search.
func (s *search) try(size int) bool {
	for silent, n := 0, 0; silent < triesOfSize && n < triesAtAll; n++ {
		small := make(chan error, 1)
		go func() {
			small <- rescue.Call(func() error {
				_, err := s.ask(smallPacket, s.wait)
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
			if s.told == nil || !s.told.router.IsValid() || big.mtu > 0 && big.mtu < s.told.mtu {
				s.told = big
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

// detail says for people what was found.
func (s *search) detail() string {
	switch {
	case s.passes == 0:
		return reason(s.err)
	case s.lost == 0:
		return s.how
	case s.lost-s.passes > 1:
		return fmt.Sprintf("%s %d bytes pass, %d do not", atLeast, s.passes, s.lost)
	}
	return fmt.Sprintf("%d bytes pass, %d do not: %s", s.passes, s.lost, reason(s.err))
}

// Host returns the host that a target of the user is about: the address, or that
// of HOST:PORT or of a URL.
func Host(target string) string {
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		return u.Hostname()
	}
	if host, _, err := net.SplitHostPort(target); err == nil {
		return host
	}
	return target
}
