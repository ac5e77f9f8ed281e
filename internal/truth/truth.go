// Package truth decides whether measurements agree with a known truth. It is for tests that
// check a rate, a delay or a clock against bounds: one busy second spoils one try, and the
// majority of several tries decides.
package truth

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Tries is the usual number of tries: three that agree decide.
const Tries = 5

// Hold calls measure up to tries times, and fails t unless each claim holds in more than half
// of them: then the median of the tries is also within its bounds. A try that fails by Errorf
// or Fatalf counts against an extra claim named "run". Hold returns as soon as every claim is
// decided. tries must be odd, at least 1.
//
// Hold logs one line for each claim that begins with "truth:", and appends it to the
// file that LINERATE_TRUTH names.
func Hold(t *testing.T, tries int, measure func(*Try)) {
	t.Helper()
	v := newVerdict(tries)
	for !v.decided() {
		try := &Try{TB: t, values: map[string]claim{}}
		try.run(measure)
		v.add(try)
		if try.failed {
			t.Logf("try %d of %d failed:\n%s", v.done, tries, strings.Join(try.log, "\n"))
		}
		if try.skipped {
			t.SkipNow()
		}
	}
	for _, line := range v.lines(t.Name()) {
		t.Log(line)
		record(t, line)
	}
	for _, name := range v.order {
		if c := v.claims[name]; 2*c.inside <= tries {
			t.Errorf("%s: within bounds in %d of %d tries", name, c.inside, v.done)
		}
	}
}

func record(t *testing.T, line string) {
	name := os.Getenv("LINERATE_TRUTH")
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(f, line); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// Try is one measurement. It is a testing.TB whose failures count against this try only, not
// the test.
type Try struct {
	testing.TB
	values  map[string]claim
	order   []string
	log     []string
	failed  bool
	skipped bool

	ctx      context.Context
	cleanups []func()
}

type claim struct {
	value, least, most float64
	unit               string
}

func (c claim) holds() bool { return c.value >= c.least && c.value <= c.most }

// Claim states that value lies between least and most, inclusive. An infinity is no bound. unit
// is printed after the values. Each try must make the same claims.
func (y *Try) Claim(name string, value, least, most float64, unit string) {
	if _, twice := y.values[name]; !twice {
		y.order = append(y.order, name)
	}
	y.values[name] = claim{value: value, least: least, most: most, unit: unit}
}

// run calls measure, and afterwards the functions passed to Cleanup.
func (y *Try) run(measure func(*Try)) {
	ctx, cancel := context.WithCancel(y.TB.Context())
	y.ctx = ctx
	y.apart(func() { measure(y) })
	cancel()
	for len(y.cleanups) > 0 {
		last := y.cleanups[len(y.cleanups)-1]
		y.cleanups = y.cleanups[:len(y.cleanups)-1]
		y.apart(last)
	}
}

// apart calls f in its own goroutine, so that Fatalf ends that one instead of the test's.
func (*Try) apart(f func()) {
	var one sync.WaitGroup
	one.Go(f)
	one.Wait()
}

// Context returns a context that ends with the try, before the Cleanup functions run.
func (y *Try) Context() context.Context { return y.ctx }

// Cleanup calls f at the end of the try.
func (y *Try) Cleanup(f func()) { y.cleanups = append(y.cleanups, f) }

// Log stores a line, which is printed if the try fails.
func (y *Try) Log(args ...any) { y.log = append(y.log, fmt.Sprint(args...)) }

// Logf stores a line, which is printed if the try fails.
func (y *Try) Logf(format string, args ...any) { y.log = append(y.log, fmt.Sprintf(format, args...)) }

// Fail marks the try as failed.
func (y *Try) Fail() { y.failed = true }

// FailNow marks the try as failed and ends it. As with testing.T, only the measuring goroutine
// may call it.
func (y *Try) FailNow() { y.failed = true; runtime.Goexit() }

// Failed reports whether the try has failed.
func (y *Try) Failed() bool { return y.failed }

// Error is Log and Fail.
func (y *Try) Error(args ...any) { y.Log(args...); y.Fail() }

// Errorf is Logf and Fail.
func (y *Try) Errorf(format string, args ...any) { y.Logf(format, args...); y.Fail() }

// Fatal is Log and FailNow.
func (y *Try) Fatal(args ...any) { y.Log(args...); y.FailNow() }

// Fatalf is Logf and FailNow.
func (y *Try) Fatalf(format string, args ...any) { y.Logf(format, args...); y.FailNow() }

// SkipNow ends the try and skips the test.
func (y *Try) SkipNow() { y.skipped = true; runtime.Goexit() }

// Skip is Log on the test and SkipNow.
func (y *Try) Skip(args ...any) { y.TB.Log(args...); y.SkipNow() }

// Skipf is Logf on the test and SkipNow.
func (y *Try) Skipf(format string, args ...any) { y.TB.Logf(format, args...); y.SkipNow() }

// verdict counts tries.
type verdict struct {
	tries, done int
	claims      map[string]*count
	order       []string
}

type count struct {
	claim
	values          []float64
	inside, outside int
}

func newVerdict(tries int) *verdict {
	return &verdict{tries: tries, claims: map[string]*count{}}
}

func (v *verdict) add(y *Try) {
	v.done++
	run := claim{value: 1, least: 1, most: 1}
	if y.failed {
		run.value = 0
	}
	v.count("run", run)
	for _, name := range y.order {
		v.count(name, y.values[name])
	}
	for _, name := range v.order { // a try that ended early makes no claims
		if c := v.claims[name]; c.inside+c.outside < v.done {
			c.outside++
		}
	}
}

func (v *verdict) count(name string, c claim) {
	if v.claims[name] == nil {
		v.claims[name] = &count{}
		v.order = append(v.order, name)
		v.claims[name].outside = v.done - 1
	}
	n := v.claims[name]
	n.claim = c
	n.values = append(n.values, c.value)
	if c.holds() {
		n.inside++
	} else {
		n.outside++
	}
}

// decided reports whether no further try could change the outcome of any claim.
func (v *verdict) decided() bool {
	if v.done == 0 {
		return false
	}
	for _, c := range v.claims {
		if 2*c.inside <= v.tries && 2*c.outside <= v.tries {
			return false
		}
	}
	return true
}

func (v *verdict) lines(test string) []string {
	var out []string
	for _, name := range v.order {
		c := v.claims[name]
		verdict := "holds"
		if 2*c.inside <= v.tries {
			verdict = "FAILS"
		}
		if name == "run" {
			if c.outside > 0 {
				out = append(out, fmt.Sprintf("truth: %-5s %s: %d of %d runs completed", verdict, test, c.inside, v.done))
			}
			continue
		}
		figures := make([]string, len(c.values))
		for i, x := range c.values {
			figures[i] = fmt.Sprintf("%.6g", x)
		}
		out = append(out, fmt.Sprintf("truth: %-5s %s: %s: %s %s, bound %s, %d of %d tries inside",
			verdict, test, name, strings.Join(figures, " "), c.unit, bound(c.least, c.most), c.inside, v.done))
	}
	return out
}

func bound(least, most float64) string {
	switch {
	case math.IsInf(least, -1):
		return fmt.Sprintf("at most %.6g", most)
	case math.IsInf(most, 1):
		return fmt.Sprintf("at least %.6g", least)
	}
	return fmt.Sprintf("%.6g to %.6g", least, most)
}
