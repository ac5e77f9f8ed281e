package importer

import (
	"fmt"
	"math"
	"strings"

	"linerate/internal/core/hist"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/regex"
)

var (
	escape = regex.New("\x1b\\[[0-9;]*m")
	// sockperf prints its errors to standard output, including those that do not end the test
	// (log_err, src/defs.h).
	perfError  = regex.New(`sockperf: ERROR: .*`)
	perfBanner = regex.New(`^sockperf: == version #`)
	perfAvg    = regex.New(`Summary: (Latency|Round trip) is ([0-9.,]+) usec`)
	perfPer    = regex.New(`percentile +([0-9.]+) += *([0-9.,]+)`) // version 2 pads the share too
	perfEnd    = regex.New(`IP = (\S+)\s+PORT = *[0-9]+ # (TCP|UDP)`)
	perfValid  = regex.New(`\[Valid Duration\] .*SentMessages=([0-9]+); ReceivedMessages=([0-9]+)`)
	perfLost   = regex.New(`# dropped messages = ([0-9]+)`)
	perfSeen   = regex.New(`Total ([0-9]+) observations`)
)

func isSockperf(text string) bool { return strings.Contains(text, "sockperf:") }

// readSockperf reads text of a sockperf client, one test or several.
func readSockperf(text string, _ Options) (File, error) {
	out := File{Program: "sockperf"}
	var open *sockperf
	flush := func() error {
		if open == nil {
			return nil
		}
		t, err := open.test()
		out.Tests = append(out.Tests, t)
		return err
	}
	for n, l := range lines(escape.ReplaceAllString(text, "")) {
		end := perfEnd.FindStringSubmatch(l)
		if perfBanner.MatchString(l) || end != nil && (open == nil || open.kind != "") || open == nil && perfError.MatchString(l) {
			if err := flush(); err != nil {
				return out, err
			}
			open = &sockperf{first: n}
		}
		if open == nil {
			continue
		}
		if end != nil {
			open.far, open.kind = end[1], end[2]
		}
		if err := open.take(n, l); err != nil {
			return out, err
		}
	}
	return out, flush()
}

// sockperf is a partly parsed test of sockperf.
type sockperf struct {
	first int
	fault *Fault // the first error line
	kind  string // TCP or UDP
	far   string
	twice float64   // factor from its latency to a round trip: 2 without --full-rtt
	valid []float64 // messages sent and received
	seen  []float64 // observations
	lost  []float64
	at    map[float64]float64 // percentiles, in µs
}

// take parses line n of the test.
func (s *sockperf) take(n int, l string) (err error) {
	switch {
	case perfError.MatchString(l) && s.fault == nil:
		s.fault = faultf(n, "the test failed: %.120s", perfError.FindString(l))
	case strings.Contains(l, "No valid observations found"):
		return faultf(n, "sockperf found no valid observation")
	case perfAvg.MatchString(l):
		m := perfAvg.FindStringSubmatch(l)
		if s.twice = 2; m[1] == "Round trip" {
			s.twice = 1
		}
		_, err = number(n, m[2])
	case perfValid.MatchString(l):
		s.valid, err = numbers(n, perfValid.FindStringSubmatch(l)[1:]...)
	case perfLost.MatchString(l):
		s.lost, err = numbers(n, perfLost.FindStringSubmatch(l)[1])
	case perfSeen.MatchString(l):
		s.seen, err = numbers(n, perfSeen.FindStringSubmatch(l)[1])
	case perfPer.MatchString(l):
		if s.twice == 0 {
			return faultf(n, "a percentile before the line that says whether it is of a round trip or of half of one")
		}
		var v []float64
		if v, err = numbers(n, perfPer.FindStringSubmatch(l)[1:]...); err == nil {
			if s.at == nil {
				s.at = map[float64]float64{}
			}
			s.at[v[0]] = v[1]
		}
	}
	return err
}

// test returns the finished test.
func (s *sockperf) test() (Test, error) {
	t := Test{Kind: s.kind, Far: s.far, Flow: model.Flow{Engine: requests.Name, Direction: model.To}}
	p50, p99 := s.at[50], s.at[99]
	switch whole := s.kind != "" && p50 > 0 && p99 > 0; {
	case s.fault != nil && !whole:
		return t, s.fault
	case s.fault != nil:
		t.note(fmt.Sprintf("line %d: %s", s.fault.Line, strings.TrimPrefix(s.fault.Err.Error(), "the test failed: ")))
	case !whole:
		return t, faultf(s.first, "the test that begins here has no percentiles: it was cut off, or it is not ping-pong or under-load")
	}
	answers, lost := math.Inf(1), 0.0
	if s.valid == nil || s.lost == nil || s.seen == nil {
		t.note("the file does not say how many messages were sent, dropped and observed, so its percentiles may be of a few")
	} else {
		answers, lost = s.seen[0], s.lost[0]
		if s.valid[1] != answers {
			t.note(fmt.Sprintf("%.0f messages were received, and %.0f observed", s.valid[1], answers))
		}
		if sent := s.valid[0]; answers < sent { // under-load requests an answer to one of 100
			t.note(fmt.Sprintf("answered %.0f of %.0f messages, %.0f were dropped: the percentiles are of those that were answered", answers, sent, lost))
		}
	}
	t.quantile(model.To, model.LatencyP50, 0.5, s.twice*p50/1e6, answers, lost)
	t.quantile(model.To, model.LatencyP99, 0.99, s.twice*p99/1e6, answers, lost)
	if len(t.Values) == 0 {
		return t, faultf(s.first, "the test that begins here says too little: %s", strings.Join(t.Notes, "; "))
	}
	return t, nil
}

// quantile adds quantile q of the latency, unless there are too few answers for it.
func (t *Test) quantile(d model.Direction, m model.Metric, q, value, answers, lost float64) {
	if why := hist.Lacks(q, tally(answers), tally(lost)); why != "" {
		t.note(fmt.Sprintf("no %s: %s", metric.Name(m), why))
		return
	}
	t.add(d, m, value)
}

// tally converts a number of answers; an unknown one counts as unlimited.
func tally(v float64) uint64 { return uint64(min(max(v, 0), hist.MaxCount)) }
