// Package labtest repeats what a test holds against the truth of a lab, and says
// when the machine was too busy for any truth about rates and delays.
//
// A wire of 100 Mbit/s is one only while the machine lets its process run in time.
// Whether it did is measured beside each try, by what the same machine does to a
// sleeper and by how much of it nobody needed, so that a product that is wrong
// fails on a machine that has time, and a right one never fails on one that has
// none.
package labtest

import (
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
	"time"
)

const (
	// Tries is how often a measurement has to be wrong, on a machine that has time,
	// to count against what is tested.
	Tries = 3
	// most is how often it is tried at all.
	most = Tries + 1
	// leastIdle is the share of the machine's time that nobody needed, below which
	// a process may have had to wait for its turn.
	leastIdle = 0.15
	// mostLate is the share of a measurement's time in which a sleeper was not
	// woken though its time had come, above which the wire was not in time either.
	mostLate = 0.02
)

// Try repeats measure until it returns "". What measure says is wrong counts
// where the machine had time for it; the third time fails the test. A test whose
// tries were spoilt by other work on the machine is skipped. What no load excuses,
// as an answer before its time, measure reports to the test itself.
func Try(t testing.TB, measure func() (wrong string)) {
	t.Helper()
	counted := 0
	var last string
	for try := 1; try <= most; try++ {
		m := observe(t)
		last = measure()
		spoilt := m.busy(t)
		if last == "" {
			return
		}
		if spoilt == "" {
			counted++
			t.Logf("try %d: %s", try, last)
		} else {
			t.Logf("try %d does not count, %s: %s", try, spoilt, last)
		}
		if counted == Tries {
			t.Error(last)
			return
		}
	}
	t.Skipf("other work on this machine spoilt %d of %d tries: %s", most-counted, most, last)
}

// machine is what the machine does while something is measured.
type machine struct {
	begun       time.Time
	idle, total float64
	stop        chan struct{}
	late        chan time.Duration
}

// observe begins to look at the machine.
func observe(t testing.TB) *machine {
	t.Helper()
	m := &machine{begun: time.Now(), stop: make(chan struct{}), late: make(chan time.Duration, 1)}
	m.idle, m.total = processorTimes(t)
	go func() {
		const nap = 2 * time.Millisecond
		var late time.Duration
		for due := time.Now().Add(nap); ; due = time.Now().Add(nap) {
			select {
			case <-m.stop:
				m.late <- late
				return
			case <-time.After(nap):
			}
			// A timer of the runtime's is itself up to 1 ms late.
			late += max(0, time.Since(due)-time.Millisecond)
		}
	}()
	return m
}

// busy ends the observation and says why nothing can be judged, "" for nothing.
func (m *machine) busy(t testing.TB) string {
	t.Helper()
	close(m.stop)
	late := (<-m.late).Seconds() / time.Since(m.begun).Seconds()
	idle, total := processorTimes(t)
	switch share := (idle - m.idle) / (total - m.total); {
	case total > m.total && share < leastIdle:
		return fmt.Sprintf("the machine was idle for %.0f %% of the time", 100*share)
	case late > mostLate:
		return fmt.Sprintf("a sleeper was late for %.0f %% of the time", 100*late)
	}
	return ""
}

// processorTimes reads what the machine's cores did since its start, in ticks:
// user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)). What is
// nice gives way to everybody else and counts as idle.
func processorTimes(t testing.TB) (idle, total float64) {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	var v [8]float64
	if _, err := fmt.Sscanf(string(text), "cpu %f %f %f %f %f %f %f %f",
		&v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]); err != nil {
		t.Fatal(err)
	}
	for _, x := range v {
		total += x
	}
	return v[3] + v[1], total
}

// Waking returns what the machine itself adds, in the median of n, to an exchange
// of datagrams whose answer is held back for d: the time until a timer and two
// sockets have woken their readers. It is what no wire can be blamed for.
func Waking(t testing.TB, d time.Duration, n int) time.Duration {
	t.Helper()
	far, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = far.Close() }()
	near, err := net.DialUDP("udp4", nil, far.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = near.Close() }()
	go func() {
		var b [64]byte
		for {
			k, from, err := far.ReadFromUDP(b[:])
			if err != nil {
				return
			}
			<-time.After(d)
			_, _ = far.WriteToUDP(b[:k], from)
		}
	}()
	added := make([]time.Duration, n)
	var b [64]byte
	for i := range added {
		start := time.Now()
		if _, err := near.Write(b[:]); err != nil {
			t.Fatal(err)
		}
		if _, err := near.Read(b[:]); err != nil {
			t.Fatal(err)
		}
		added[i] = time.Since(start) - d
	}
	slices.Sort(added)
	return added[n/2]
}
