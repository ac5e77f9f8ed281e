package pingpong

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/measure/enginetest"
	"linerate/internal/measure/plane"
	"linerate/internal/must"
)

// conduct runs both ends until they return by themselves.
func conduct(t *testing.T, near, far *enginetest.End) {
	t.Helper()
	for _, e := range []*enginetest.End{near, far} {
		e.Start(t.Context())
	}
	for _, e := range []*enginetest.End{near, far} {
		must.Wait(t, "an end", e.Done)
		must.Wait(t, "its measured", e.Measured())
		must.Do(t, e.Err)
	}
}

// sweepOf returns a flow over sizes with short trials.
func sweepOf(d model.Direction, s sizes.Params, list ...units.Bytes) model.Flow {
	s.Sizes = list
	return sizes.With(model.Flow{Engine: Name, Direction: d}, s)
}

func sizesOf(f model.Flow) []units.Bytes {
	p, _ := sizes.Of(f)
	return p.Sizes
}

// patient returns an engine with timeouts for the busiest machine.
func patient() *Engine {
	e := New(nil)
	e.bounds = bounds{
		leader: enginetest.Soon, follower: 3 * enginetest.Soon, batch: enginetest.Soon, connect: enginetest.Soon, grace: enginetest.Soon,
	}
	return e
}

func TestSweep(t *testing.T) {
	list := []units.Bytes{4096, 1, 1 << 20, 4096, 3}
	for _, d := range []model.Direction{model.To, model.From, model.Both} {
		for _, m := range []string{"", sizes.Both, sizes.Stream} {
			for _, spin := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%t", d, m, spin), func(t *testing.T) {
					w := enginetest.NewWire(t)
					e := New(nil)
					e.share = 20 * time.Millisecond
					near, far := enginetest.Prepare(t, e, w, sweepOf(d, sizes.Params{Mode: m, Spin: spin}, list...))
					conduct(t, near, far)
					leader, follower := near, far
					if d == model.From {
						leader, follower = far, near
					}
					checkPoints(t, leader.Report, list)
					checkSamples(t, leader, d)
					must.True(t, len(follower.Report.Points) == 0 && len(follower.Samples()) == 0, "the follower reports %+v", follower.Report.Points)
					for _, e := range []*enginetest.End{near, far} {
						must.True(t, len(e.Report.Warnings) == 0 && e.Report.CPUWindow > 0 && e.Report.CPUUser+e.Report.CPUSystem > 0 && e.Report.Waiting != "", "report %+v", e.Report)
					}
					must.Equal(t, w.Opened(), 1, "connections")
				})
			}
		}
	}
}

// checkPoints fails the test unless each size has a complete point.
func checkPoints(t *testing.T, r model.EndReport, list []units.Bytes) {
	t.Helper()
	var got []units.Bytes
	for _, p := range r.Points {
		got = append(got, p.Size)
		must.True(t, p.Rounds >= 1 && len(p.Trials) != 0 && len(p.Trials) <= trials && !p.Stalled && p.Log == nil, "point %+v", p)
		for _, trial := range p.Trials {
			must.True(t, trial > 0 && trial <= enginetest.Soon, "%v: a message took %v", p.Size, trial)
		}
	}
	must.True(t, slices.Equal(got, list), "sizes %v, want %v", got, list)
}

// checkSamples fails the test unless each point has a sample, one after the other.
func checkSamples(t *testing.T, e *enginetest.End, d model.Direction) {
	t.Helper()
	if d == model.Both {
		d = model.To
	}
	samples, next := e.Samples(), time.Duration(0)
	must.Need(t, len(samples) == len(e.Report.Points), "%d samples of %d points", len(samples), len(e.Report.Points))
	for i, s := range samples {
		must.True(t, s.Metric == model.LatencyP50 && s.Direction == d && s.Start >= next && s.Length > 0 &&
			s.Value == middle(e.Report.Points[i].Trials).Seconds(), "sample %+v", s)
		next = s.Start + s.Length
	}
}

func TestFreshConnectionForEachSize(t *testing.T) {
	list := []units.Bytes{1, 100, 1, 5000}
	w := enginetest.NewWire(t)
	f := sweepOf(model.To, sizes.Params{Fresh: true}, list...)
	e := New(nil)
	e.share = 20 * time.Millisecond
	near, far := enginetest.Prepare(t, e, w, f)
	conduct(t, near, far)
	checkPoints(t, near.Report, list)
	must.True(t, w.Opened() == len(list) && len(near.Report.Warnings)+len(far.Report.Warnings) == 0, "%d connections of %d sizes, warnings %q %q", w.Opened(), len(list), near.Report.Warnings, far.Report.Warnings)
}

// TestLargeMessagesBothWays sends more than any buffer holds, in both directions at once.
func TestLargeMessagesBothWays(t *testing.T) {
	for _, window := range []units.Bytes{0, 64 << 10} {
		f := sweepOf(model.To, sizes.Params{Mode: sizes.Both}, 8<<20)
		f.Window = window
		near, far := enginetest.Prepare(t, New(nil), enginetest.NewWire(t), f)
		conduct(t, near, far)
		checkPoints(t, near.Report, sizesOf(f))
	}
}

// TestLargerTakesLonger compares the times of sizes a factor 1000 apart, in every mode.
func TestLargerTakesLonger(t *testing.T) {
	for _, m := range []string{sizes.PingPong, sizes.Both, sizes.Stream} {
		f := sweepOf(model.To, sizes.Params{Mode: m}, 4<<20, 4<<10)
		near, far := enginetest.Prepare(t, New(nil), enginetest.NewWire(t), f)
		conduct(t, near, far)
		checkPoints(t, near.Report, sizesOf(f))
		large, small := middle(near.Report.Points[0].Trials), slices.Min(near.Report.Points[1].Trials)
		must.True(t, large >= 4*small, "%s: 4 MiB took %v, 4 KiB took %v", m, large, small) // 1024 times the bytes
	}
}

// TestTimeIsUp: the duration bounds the pass, whatever is left.
func TestTimeIsUp(t *testing.T) {
	list := slices.Repeat([]units.Bytes{1}, 1000)
	f := sweepOf(model.To, sizes.Params{}, list...)
	f.Duration = 100 * time.Millisecond
	near, far := enginetest.Prepare(t, New(nil), enginetest.NewWire(t), f)
	conduct(t, near, far)
	n := len(near.Report.Points)
	must.True(t, n != 0 && n != len(list) && strings.Contains(strings.Join(near.Report.Warnings, "\n"), "the time is over"), "%d points, warnings %q", n, near.Report.Warnings)
	for _, s := range near.Samples()[:n-1] {
		must.True(t, s.Start+s.Length < f.Duration, "another size after %v", s.Start+s.Length)
	}
}

// TestPoller runs every mode with the wire of systems other than Linux.
func TestPoller(t *testing.T) {
	e := New(nil)
	e.share = 20 * time.Millisecond
	e.open = func(c *net.TCPConn, _ bool) (*plane.Link, error) { return plane.NewPoller(c), nil }
	for _, m := range []string{sizes.PingPong, sizes.Both, sizes.Stream} {
		f := sweepOf(model.To, sizes.Params{Mode: m, Spin: true}, 1, 2<<20, 100)
		near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
		conduct(t, near, far)
		checkPoints(t, near.Report, sizesOf(f))
		w := near.Report.Warnings
		must.True(t, near.Report.Waiting == "poller" && len(w) == 1 && strings.Contains(w[0], "polling is not possible"), "waiting %q, warnings %q", near.Report.Waiting, w)
	}
}

// kernelLog is a log with a line for each call but the first.
type kernelLog struct{ calls int }

func (l *kernelLog) Lines() ([]string, error) {
	l.calls++
	if l.calls == 1 {
		return nil, nil
	}
	return []string{fmt.Sprintf("eth0: TX underrun %d", l.calls)}, nil
}

func (*kernelLog) Close() error { return nil }

func TestKernelLogGoesToItsSize(t *testing.T) {
	e := New(func() (LogReader, error) { return &kernelLog{}, nil })
	e.share = 20 * time.Millisecond
	near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), sweepOf(model.To, sizes.Params{}, 1, 2, 3))
	conduct(t, near, far)
	checkLogs(t, near.Report.Points, "1:0 2:1 3:1")
	// The follower has only points with a log. It reads the log for the first time before the
	// first size.
	checkLogs(t, far.Report.Points, "1:1 2:1 3:1")
	for _, p := range far.Report.Points {
		must.True(t, p.Rounds == 0 && p.Trials == nil, "follower's point %+v", p)
	}
}

func checkLogs(t *testing.T, points []model.Point, want string) {
	t.Helper()
	must.Equal(t, strings.Join(lists.Each(points, func(p model.Point) string { return fmt.Sprintf("%d:%d", p.Size, len(p.Log)) }), " "), want, "lines of sizes")
}

func TestKernelLogThatCannotBeRead(t *testing.T) {
	e := New(func() (LogReader, error) { return nil, fmt.Errorf("open log: not allowed") })
	near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), sweepOf(model.To, sizes.Params{}, 1))
	conduct(t, near, far)
	for _, s := range []*enginetest.End{near, far} {
		must.True(t, len(s.Report.Warnings) == 1 && strings.Contains(s.Report.Warnings[0], "not allowed"), "warnings %q", s.Report.Warnings)
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	good := sweepOf(model.Both, sizes.Params{Mode: sizes.Stream, Fresh: true, Spin: true}, 1, maxSize)
	good.Streams, good.Window, good.MSS = 1, 1<<20, 1448
	must.OK(t, New(nil).Validate(good), "a good flow")
	bad := model.Flow{
		Engine: "udp", Direction: "up", Streams: 2, Duration: -1, Omit: 1, Bytes: 1, Block: 1, Window: -1, MSS: 1,
		Points: 1, Lead: 1,
		Params: traffic.Write(sizes.Params{Mode: "x", Fresh: true, Sizes: slices.Repeat([]units.Bytes{0}, 5000)}),
	}
	err := New(nil).Validate(bad)
	must.Need(t, err != nil, "a bad flow is valid")
	for _, want := range []string{"engine", "direction", "streams", "duration", "omit", "bytes:", "block", "window", "segment", "mode", "5000 sizes: not", "new connection", "0 bytes"} {
		must.Contain(t, err.Error(), want)
	}
	for _, f := range []model.Flow{{Direction: model.To}, sweepOf(model.To, sizes.Params{}), sweepOf(model.To, sizes.Params{}, maxSize+1)} {
		must.Fail(t, New(nil).Validate(f), "valid: %+v", f)
	}
}

func TestLimitFollowsTheSizesBefore(t *testing.T) {
	s := sweep{course: &course{test: &test{engine: New(nil)}}}
	must.Equal(t, s.limit(1<<20, 1), 30*time.Second, "without a size before")
	s.points = []model.Point{
		{Size: 1, Trials: []time.Duration{10 * time.Millisecond}},
		{Size: 1000, Trials: []time.Duration{2 * time.Second, time.Second, 3 * time.Second}},
		{Size: 2000, Stalled: true},
	}
	// 1000 bytes in 2 s cost less per byte than 1 byte in 10 ms.
	must.Equal(t, s.limit(4000, 1), 10*2*4*2*time.Second, "4000 bytes")
	must.Equal(t, s.limit(1<<30, maxRounds), maxBatch, "1 GiB")
}

// The layout of docs/wire/pingpong.md, byte by byte.
func TestFrameOnTheWire(t *testing.T) {
	for _, c := range []struct {
		f    frame
		want string
	}{
		{frame{kind: batch, mode: turns, size: 1, rounds: 1000}, "6c72707001010100 0000000000000001 00000000000003e8 0000000000000000"},
		{frame{kind: ready, mode: both, size: 1 << 30, rounds: 1 << 20}, "6c72707001020200 0000000040000000 0000000000100000 0000000000000000"},
		{frame{kind: done, mode: stream, size: 3, rounds: 2, elapsed: 258}, "6c72707001030300 0000000000000003 0000000000000002 0000000000000102"},
		{frame{kind: renew}, "6c72707001040000 0000000000000000 0000000000000000 0000000000000000"},
		{frame{kind: end}, "6c72707001050000 0000000000000000 0000000000000000 0000000000000000"},
	} {
		want := must.Get(hex.DecodeString(strings.ReplaceAll(c.want, " ", "")))(t)
		b := c.f.append(nil)
		must.True(t, bytes.Equal(b, want), "%+v is %x, want %x", c.f, b, want)
		must.Equal(t, must.Get(decode(b))(t), c.f, "%x", b)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := func() []byte { return frame{kind: batch, mode: stream, size: 8, rounds: 2}.append(nil) }
	for name, change := range map[string]func(b []byte) []byte{
		"short":           func(b []byte) []byte { return b[:31] },
		"magic":           func(b []byte) []byte { b[0] = 'L'; return b },
		"version":         func(b []byte) []byte { b[4] = 2; return b },
		"no kind":         func(b []byte) []byte { b[5] = 0; return b },
		"unknown kind":    func(b []byte) []byte { b[5] = 6; return b },
		"no mode":         func(b []byte) []byte { b[6] = 0; return b },
		"unknown mode":    func(b []byte) []byte { b[6] = 4; return b },
		"reserved":        func(b []byte) []byte { b[7] = 1; return b },
		"no size":         func(b []byte) []byte { b[15] = 0; return b },
		"large size":      func(b []byte) []byte { b[11] = 1; return b },
		"no rounds":       func(b []byte) []byte { b[23] = 0; return b },
		"one of both":     func(b []byte) []byte { b[6], b[23] = byte(both), 1; return b },
		"one of a stream": func(b []byte) []byte { b[23] = 1; return b },
		"many rounds":     func(b []byte) []byte { b[20] = 1; return b },
		"time of a batch": func(b []byte) []byte { b[31] = 1; return b },
		"no time of done": func(b []byte) []byte { b[5] = byte(done); return b },
		"negative time":   func(b []byte) []byte { b[5], b[24] = byte(done), 0x80; return b },
		"done of turns":   func(b []byte) []byte { b[5], b[6], b[31] = byte(done), byte(turns), 1; return b },
		"end with size":   func(b []byte) []byte { b[5] = byte(end); return b },
	} {
		f, err := decode(change(good()))
		must.True(t, errors.Is(err, errFrame) && f == (frame{}), "%s: %+v, %v", name, f, err)
	}
}

func TestFramesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := frame{
			kind: rapid.SampledFrom([]kind{batch, ready, done}).Draw(t, "kind"),
			mode: rapid.SampledFrom([]mode{turns, both, stream}).Draw(t, "mode"),
			size: rapid.IntRange(1, maxSize).Draw(t, "size"), rounds: rapid.IntRange(2, maxRounds).Draw(t, "rounds"),
		}
		if f.kind == done {
			f.mode, f.elapsed = stream, rapid.Int64Min(1).Draw(t, "elapsed")
		}
		got, err := decode(f.append(nil))
		must.Need(t, got == f && err == nil, "%+v became %+v, %v", f, got, err)
	})
}

func FuzzDecode(f *testing.F) {
	for _, fr := range []frame{
		{kind: batch, mode: turns, size: 1, rounds: 1}, {kind: done, mode: stream, size: 1, rounds: 2, elapsed: 1}, {kind: end},
	} {
		f.Add(fr.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decode(b)
		if err != nil {
			must.True(t, errors.Is(err, errFrame) && got == (frame{}), "%+v beside %v", got, err)
			return
		}
		must.True(t, got.valid() && bytes.Equal(got.append(nil), b), "%x is %+v", b, got)
	})
}

// TestBothEndsCountWhatTheySend: however they wait, both ends count as much as the other end
// receives.
func TestBothEndsCountWhatTheySend(t *testing.T) {
	for name, open := range map[string]func(*net.TCPConn, bool) (*plane.Link, error){
		"chosen": plane.New,
		"poller": func(c *net.TCPConn, _ bool) (*plane.Link, error) { return plane.NewPoller(c), nil },
	} {
		for _, mode := range []string{"", sizes.Both, sizes.Stream} {
			w := enginetest.NewWire(t)
			sent := w.Counters()
			e := New(nil)
			e.share = 20 * time.Millisecond
			var mu sync.Mutex // both ends prepare at once
			var links []*plane.Link
			e.open = func(c *net.TCPConn, spin bool) (*plane.Link, error) {
				l, err := open(c, spin)
				mu.Lock()
				defer mu.Unlock()
				links = append(links, l)
				return l, err
			}
			near, far := enginetest.Prepare(t, e, w, sweepOf(model.To, sizes.Params{Mode: mode}, 1, 70_000))
			conduct(t, near, far)
			must.Need(t, len(links) == 2 && sent(model.Near) != nil && sent(model.Far) != nil, "%s: %d links, or an end without counters", name, len(links))
			var sum, got int64
			for _, l := range links {
				got += l.Received()
			}
			for _, h := range []model.Host{model.Near, model.Far} {
				sum += sent(h)()
			}
			must.True(t, sum == got && sum >= 70_000, "%s %s: both ends sent %d bytes and received %d", name, mode, sum, got)
		}
	}
}
