package live

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"linerate/internal/app"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

func nameOf(f model.Flow) string { return map[string]string{"tcpbulk": "TCP"}[f.Engine] }

// visit returns a new visit.
func visit(id uint64, protocol, key, from string) app.VisitBegan {
	return app.VisitBegan{Visit: app.Visit{ID: id, Protocol: protocol, Key: key, From: netip.MustParseAddr(from)}}
}

// seen returns a server's samples of an interval.
func seen(id uint64, m model.Metric, rate float64) app.VisitSampled {
	return app.VisitSampled{ID: id, Samples: []model.Sample{
		{Metric: m, Value: rate, Length: time.Second}, {Metric: model.CPU, Value: 7}, {Metric: m, Of: "1", Value: 1},
	}}
}

// serving returns a server that has just started.
func serving(c *clock) *Server {
	t := NewServer(c.now, nameOf)
	t.SetAbout(About{"[::]:5299", []string{"who has its join link may measure: l shows it", "answers iperf3 clients on [::]:5201"}})
	t.Gives([]Allowance{{Name: "sessions", Used: "0", Limit: "64", Source: "4"}})
	return t
}

// busy returns a server with visitors of each kind, and with refusals.
func busy(c *clock) *Server {
	t := serving(c)
	flow := model.Flow{Engine: "tcpbulk", Direction: model.To, Streams: 4}
	t.Observe(visit(1, "linerate", "ci", "192.0.2.7"))
	t.Observe(app.VisitRuns{ID: 1, Flow: flow})
	t.Observe(seen(1, model.Goodput, 1e6))
	c.passes(10 * time.Second)
	t.Observe(app.VisitRan{ID: 1, Received: 1177 * 1000 * 1000, Took: 10 * time.Second})
	t.Observe(visit(2, "iperf2", "", "2001:db8::77"))
	t.Observe(app.VisitRuns{ID: 2, Flow: model.Flow{Engine: "tcpbulk", Direction: model.Both}})
	t.Observe(app.VisitRan{ID: 2, Received: 5e6, Sent: 6e6, Took: 3 * time.Second, Err: errors.New("this server gives one address 2 h of runs in 24 h")})
	t.Observe(app.VisitEnded{ID: 2, Took: 3 * time.Second})
	t.Observe(app.VisitRuns{ID: 1, Flow: flow})
	for i := range 12 {
		t.Observe(seen(1, model.Goodput, 100e6*float64(i)))
		t.Observe(seen(1, model.Sent, 5e6))
	}
	t.Observe(visit(3, "iperf3", "", "198.51.100.4"))
	t.Observe(app.VisitRuns{ID: 3, Flow: model.Flow{Engine: "tcpbulk", Direction: model.From}})
	t.Observe(visit(4, "linerate", "", "198.51.100.9"))
	for range 3 {
		t.Observe(app.VisitRefused{Visit: app.Visit{Protocol: "linerate", From: netip.MustParseAddr("203.0.113.5")}, Err: errors.New("refused: no such key")})
	}
	t.Observe(app.VisitRefused{Visit: app.Visit{Protocol: "iperf3"}, Err: errors.New("this server has 64 sessions")})
	t.Gives([]Allowance{
		{"sessions", "3", "64", "4", 1}, {"memory", "64 MiB", "3.9 GiB", "128 MiB", 0}, {"UDP", "100 Mbit/s", "no limit", "400 Mbit/s", 0},
		{"sent in 24 h", "1.2 GiB", "no limit", "256 GiB", 0},
	})
	t.Say("iperf3: accepting fails: too many open files")
	c.passes(7 * time.Second)
	return t
}

// TestServerGolden: the screen of a server at known moments.
func TestServerGolden(t *testing.T) {
	own := func(c *clock) *Server { s := busy(c); s.ToggleOwn(); return s }
	for name, c := range map[string]struct {
		of   func(*clock) *Server
		size Size
	}{
		"serve-begin":  {serving, Size{80, 24}},
		"serve":        {busy, Size{80, 30}},
		"serve-low":    {busy, Size{80, 16}},
		"serve-least":  {busy, Size{20, 6}},
		"serve-narrow": {busy, Size{40, 40}},
		"serve-own":    {own, Size{80, 24}},
	} {
		t.Run(name, func(t *testing.T) {
			must.Golden(t, filepath.Join("testdata", name+".txt"), sgr.ReplaceAllString(c.of(newClock()).View(c.size), "")+"\n")
		})
	}
}

// TestServerFits: whatever the size and the number of visitors, there are no wider and no more
// rows, and the last one says how to stop.
func TestServerFits(t *testing.T) {
	s := busy(newClock())
	for i := range uint64(70) {
		s.Observe(visit(10+i, "linerate", strings.Repeat("k", int(i)), "2001:db8::ffff:ffff:ffff:ffff"))
		s.Observe(app.VisitRuns{ID: 10 + i, Flow: model.Flow{Engine: "tcpbulk"}})
		s.Observe(seen(10+i, model.Goodput, 1e9))
	}
	for columns := 20; columns < 130; columns += 7 {
		for rows := 6; rows < 60; rows += 3 {
			all := strings.Split(sgr.ReplaceAllString(s.View(Size{columns, rows}), ""), "\n")
			must.True(t, len(all) == rows && strings.Contains(all[len(all)-1], "q stops"), "%d rows in %dx%d, the last is %q", len(all), columns, rows, all[len(all)-1])
			for _, row := range all {
				n := utf8.RuneCountInString(row)
				must.True(t, n <= columns, "%d columns in %dx%d: %q", n, columns, rows, row)
			}
		}
	}
}

// TestServerBounded: crowds over months take only limited memory, and their texts cannot move the
// cursor.
func TestServerBounded(t *testing.T) {
	s := serving(newClock())
	bad := "a\x1b[2Jb\nc"
	for i := range uint64(3000) {
		v := visit(i, bad, bad, "192.0.2.1")
		s.Observe(v)
		s.Observe(app.VisitRuns{ID: i, Flow: model.Flow{Engine: "tcpbulk"}})
		s.Observe(seen(i, model.Goodput, 1e9))
		s.Observe(app.VisitRan{ID: i, Received: 1, Err: errors.New(bad)})
		s.Observe(app.VisitEnded{ID: i})
		s.Observe(app.VisitRefused{Visit: v.Visit, Err: fmt.Errorf("%s %d", bad, i)})
		s.Say(bad)
	}
	s.Observe(visit(9999, bad, bad, "192.0.2.1"))
	for range 1000 {
		s.Observe(seen(9999, model.Goodput, 1e9))
	}
	if len(s.here) != 1 || len(s.done) != keptVisits || len(s.refused) != keptReasons+1 || s.turnedAway() != 3000 || len(s.lines) != keptLines || len(s.here[0].receives) != keptRates {
		t.Errorf("%d here, %d done, %d reasons for %d, %d lines, %d rates", len(s.here), len(s.done), len(s.refused), s.turnedAway(), len(s.lines), len(s.here[0].receives))
	}
	got := sgr.ReplaceAllString(s.View(Size{80, 60}), "")
	must.True(t, !strings.ContainsAny(got, "\x1b\r") && strings.Count(got, "\n") == 59, "%q", got)
}

// TestServerCame: the screen appears with the first admitted visitor, and not with refused ones.
func TestServerCame(t *testing.T) {
	s := serving(newClock())
	came := func() bool {
		select {
		case <-s.Came():
			return true
		default:
			return false
		}
	}
	s.Observe(app.VisitRefused{Err: errors.New("no such key")})
	must.True(t, !came(), "comes with somebody who was turned away")
	for i := range uint64(2) {
		s.Observe(visit(i, "linerate", "", "192.0.2.1"))
		must.True(t, came(), "does not come")
	}
}

func BenchmarkServerView(b *testing.B) {
	s := busy(newClock())
	for b.Loop() {
		_ = s.View(Size{80, 24})
	}
}
