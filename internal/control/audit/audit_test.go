package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/control/audit"
	"linerate/internal/must"
)

// page is a writer that can be read while it is written to.
type page struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *page) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Split(strings.TrimSuffix(p.b.String(), "\n"), "\n")
}

func from(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// TestLine checks the order of a line's keys and its form.
func TestLine(t *testing.T) {
	var p page
	var talk []string
	l := audit.New(audit.Config{Lines: &p, Talk: func(e audit.Event) { talk = append(talk, e.String()) }})
	at := time.Date(2026, 11, 22, 8, 0, 0, 123e6, time.FixedZone("x", 3600))
	for _, e := range []audit.Event{
		{Time: at, Kind: audit.RunEnd, Protocol: "linerate", Key: "ci", From: netip.MustParseAddr("::ffff:192.0.2.1"), Engine: "tcp",
			Direction: "to", Took: 1500 * time.Millisecond, Sent: 12, Received: 34e6, Outcome: audit.OK},
		{Time: at, Kind: audit.Change, Protocol: "linerate", Key: "ops", From: netip.MustParseAddr("2001:db8::1"), Knob: "tcp.sack",
			Place: "net.ipv4.tcp_sack", Old: "1", New: "0"},
		{Time: at, Kind: audit.Refused, Protocol: "iperf3", From: netip.MustParseAddr("192.0.2.9"), Outcome: audit.Denied, Reason: "busy\n\x1b[2J\u202e\u0085x"},
	} {
		l.Record(e)
	}
	must.Do(t, l.Close())
	want := []string{
		`{"time":"2026-11-22T07:00:00.123Z","event":"run-end","protocol":"linerate","key":"ci","address":"192.0.2.1","engine":"tcp","direction":"to","seconds":1.5,"sent":12,"received":34000000,"outcome":"ok"}`,
		`{"time":"2026-11-22T07:00:00.123Z","event":"change","protocol":"linerate","key":"ops","address":"2001:db8::1","knob":"tcp.sack","place":"net.ipv4.tcp_sack","old":"1","new":"0"}`,
		`{"time":"2026-11-22T07:00:00.123Z","event":"refused","protocol":"iperf3","address":"192.0.2.9","outcome":"denied","reason":"busy ?[2J? x"}`,
	}
	for i, got := range p.lines() {
		must.True(t, i < len(want) && got == want[i], "line %d is %s", i, got)
	}
	must.Equal(t, len(p.lines()), len(want), "lines")
	words := []string{
		"192.0.2.1 (key ci) done (tcp, to, 1.5 s, 12 B sent, 34 MB received)",
		`2001:db8::1 (key ops) changes tcp.sack (net.ipv4.tcp_sack) "1" -> "0"`,
		"iperf3: refused 192.0.2.9: busy ?[2J? x",
	}
	must.Equal(t, fmt.Sprint(talk), fmt.Sprint(words), "in words: %q", talk)
	l.Record(audit.Event{Kind: audit.Started}) // after the end: nothing
	(*audit.Log)(nil).Record(audit.Event{})
}

// count returns the number of lines and the number of events that they report as omitted.
func count(t *testing.T, lines []string, keep func(line map[string]any) bool) (written, left int) {
	t.Helper()
	for _, s := range lines {
		var m map[string]any
		must.Dof(t, json.Unmarshal([]byte(s), &m), "%q", s)
		if !keep(m) {
			continue
		}
		if m["event"] != "left-out" {
			written++
		}
		if n, ok := m["left_out"].(float64); ok {
			left += int(n)
		}
	}
	return written, left
}

func every(map[string]any) bool { return true }

// TestFloodOfOneSource: the lines are limited, every event is counted, and other sources are
// still recorded.
func TestFloodOfOneSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p page
		l := audit.New(audit.Config{Lines: &p})
		const many = 100_000
		for range many {
			l.Record(audit.Event{Kind: audit.Refused, From: from(1)})
		}
		l.Record(audit.Event{Kind: audit.Refused, From: from(2)})
		for range 300 {
			l.Record(audit.Event{Kind: audit.RunBegin, Key: "ci", From: from(1)})
		}
		l.Record(audit.Event{Kind: audit.Change, From: from(1), Knob: "tcp.sack"})
		<-time.After(time.Minute + time.Second)
		l.Record(audit.Event{Kind: audit.Refused, From: from(1)})
		must.Do(t, l.Close())
		written, left := count(t, p.lines(), func(m map[string]any) bool {
			return m["address"] == from(1).String() && m["key"] == nil && m["knob"] == nil
		})
		must.True(t, written <= 40 && written+left == many+1, "%d written and %d left out of %d", written, left, many+1)
		n, _ := count(t, p.lines(), func(m map[string]any) bool { return m["address"] == from(2).String() })
		must.True(t, n == 1, "another source: %d", n)
		n, _ = count(t, p.lines(), func(m map[string]any) bool { return m["key"] == "ci" })
		must.True(t, n == 300, "a key from the same source: %d of 300", n)
		n, _ = count(t, p.lines(), func(m map[string]any) bool { return m["knob"] != nil })
		must.True(t, n == 1, "a change: %d", n)
	})
}

// TestFloodOfManySources: lines and memory are limited in total.
func TestFloodOfManySources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p page
		l := audit.New(audit.Config{Lines: &p})
		const many = 50_000
		for i := range many {
			l.Record(audit.Event{Kind: audit.Refused, From: from(i)})
		}
		must.Do(t, l.Close())
		written, left := count(t, p.lines(), every)
		must.True(t, written <= 250 && len(p.lines()) <= 300 && written+left == many, "%d written and %d left out of %d, %d lines", written, left, many, len(p.lines()))
	})
}

// TestChangesAreNeverLeftOut records more events than the queue holds.
func TestChangesAreNeverLeftOut(t *testing.T) {
	var p page
	l := audit.New(audit.Config{Lines: &p})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				l.Record(audit.Event{Kind: audit.Change, Knob: "tcp.sack", From: from(1)})
			}
		})
	}
	all.Wait()
	must.Do(t, l.Close())
	written, left := count(t, p.lines(), every)
	must.True(t, written == 4000 && left == 0, "%d written, %d left out", written, left)
}

// stuck is a disk that does not answer.
type stuck struct{ until chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	<-s.until
	return len(b), nil
}

// TestStuckDisk: a stuck disk blocks no caller, and the loss is counted.
func TestStuckDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		l := audit.New(audit.Config{Lines: stuck{until}})
		began := time.Now()
		for i := range 5000 {
			l.Record(audit.Event{Kind: audit.RunBegin, Key: fmt.Sprint("k", i%200), From: from(i)})
		}
		took := time.Since(began)
		must.True(t, took <= 0, "sessions waited %v", took)
		l.Record(audit.Event{Kind: audit.Change, Knob: "tcp.sack"})
		took = time.Since(began)
		must.True(t, took <= 3*time.Second, "a change waited %v", took)
		close(until)
		must.Do(t, l.Close())
	})
}

// TestFile: the log follows a rotation, is private, and survives errors.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	var told []string
	f := must.Get(audit.Open(path, func(s string) { told = append(told, s) }))(t)
	write := func(s string) {
		t.Helper()
		must.OK(t, must.Err(f.Write([]byte(s+"\n"))))
	}
	write("one")
	if runtime.GOOS != "windows" { // which cannot rename open files
		info, err := os.Stat(path)
		must.True(t, err == nil && info.Mode().Perm() == 0o600, "mode %v, %v", info.Mode(), err)
		must.Do(t, os.Rename(path, path+".1"))
		f.Reopen()
		write("two")
		old := must.Get(os.ReadFile(path + ".1"))(t)
		must.True(t, string(old) == "one\n", "the old file holds %q", old)
		b := must.Get(os.ReadFile(path))(t)
		must.True(t, string(b) == "two\n", "the new file holds %q", b)
	}
	must.Do(t, f.Close())
	must.OK(t, f.Close())
	must.Fail(t, must.Err(f.Write([]byte("x"))), "a closed file takes lines")
	if again, err := audit.Open(path, nil); err != nil { // and append to it
		t.Error(err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
	must.Fail(t, must.Err(audit.Open(filepath.Dir(path), nil)), "a directory is a log")
	must.Len(t, told, 0, "told")
}

// TestFullDisk: a full disk loses lines, reports that once, and logging goes on.
func TestFullDisk(t *testing.T) {
	must.SkipIf(t, must.Err(os.Stat("/dev/full")) != nil, "needs /dev/full")
	var told []string
	f := must.Get(audit.Open("/dev/full", func(s string) { told = append(told, s) }))(t)
	l := audit.New(audit.Config{Lines: f})
	for range 10 {
		l.Record(audit.Event{Kind: audit.Change, Knob: "tcp.sack"})
	}
	must.OK(t, l.Close())
	must.OK(t, f.Close())
	must.True(t, len(told) == 1 && strings.Contains(told[0], "no space left"), "told %q", told)
}

// FuzzEvent: the result is one line of clean text, whatever an anonymous client sends.
func FuzzEvent(f *testing.F) {
	f.Add("key", "reason\n\x1b]0;x\x07", "old\u2028", "\xff\xfe")
	f.Add("\u202e", strings.Repeat("é", 1000), "", "\x00")
	f.Fuzz(func(t *testing.T, key, reason, old, place string) {
		var p page
		var talk string
		l := audit.New(audit.Config{Lines: &p, Talk: func(e audit.Event) { talk = e.String() }})
		l.Record(audit.Event{Kind: audit.Change, Key: key, Reason: reason, Knob: "k", Old: old, Place: place, From: from(1)})
		must.Do(t, l.Close())
		lines := p.lines()
		must.Need(t, len(lines) == 1 && json.Valid([]byte(lines[0])) && len(lines[0]) <= 4000, "%q", lines)
		for _, s := range []string{lines[0], talk} {
			must.True(t, !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0x2028 }), "%q", s)
		}
	})
}

// TestDropped: the first dropped connection gets a line, the following ones are counted, and
// they take no lines from other events.
func TestDropped(t *testing.T) {
	var p page
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var talk []string
	l := audit.New(audit.Config{Lines: &p, Now: func() time.Time { return now }, Talk: func(e audit.Event) { talk = append(talk, e.String()) }})
	drop := func(n int, reason string) { l.Record(audit.Event{Kind: audit.Dropped, From: from(n), Reason: reason}) }
	drop(1, "silent")
	for i := range 10_000 {
		drop(i%5000, "silent")
		drop(7, "web")
	}
	for i := range 15 {
		l.Record(audit.Event{Kind: audit.Refused, From: from(1), Outcome: audit.Denied, Reason: "wrong secret " + string(rune('a'+i))})
	}
	now = now.Add(10 * time.Second)
	drop(3, "silent")
	for i := range 40 {
		drop(i, "reason "+string(rune('A'+i)))
	}
	must.Do(t, l.Close())
	lines := p.lines()
	for _, want := range []string{
		`"event":"dropped","address":"` + from(1).String() + `","outcome":"denied","reason":"silent","count":1,"sources":1`,
		`"event":"dropped","outcome":"denied","reason":"silent","count":10001,"sources":1024`,
		`"reason":"web","count":1,"sources":1`, `"reason":"web","count":9999,"sources":1`,
		`"reason":"other reasons"`, `"reason":"wrong secret o"`,
	} {
		must.True(t, slices.ContainsFunc(lines, func(s string) bool { return strings.Contains(s, want) }), "no line has %s", want)
	}
	must.True(t, len(lines) <= 40, "%d lines", len(lines))
	must.Contain(t, talk[0], "dropped 1 connection of 1 source, of ")
}
