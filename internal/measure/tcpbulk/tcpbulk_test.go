package tcpbulk

import (
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// measured is long enough for several intervals, short enough for many cases.
const measured = 200 * time.Millisecond

func timed(d model.Direction, streams int) model.Flow {
	return model.Flow{Engine: Name, Direction: d, Streams: streams, Duration: measured, Interval: measured / 4}
}

func TestDuration(t *testing.T) {
	for name, e := range everyPlane() {
		for _, d := range []model.Direction{model.To, model.From, model.Both} {
			for _, n := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, d, n), func(t *testing.T) { timedRun(t, e, timed(d, n)) })
			}
		}
	}
}

func TestManyStreams(t *testing.T) {
	for _, n := range []int{20, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f := timed(model.To, n)
			f.Block = 16 << 10
			timedRun(t, New(), f)
		})
	}
}

// timedRun runs f and checks both ends' reports. TestWindows checks how well they keep the
// time.
func timedRun(t testing.TB, e *Engine, f model.Flow) (near, far *enginetest.End) {
	t.Helper()
	near, far = enginetest.Prepare(t, e, enginetest.NewWire(t), f)
	enginetest.Succeed(t, near, far, f.Direction)
	checkEnds(t, f.Direction, f.Streams, near, far)
	return near, far
}

// checkEnds compares both ends' reports of a timed run without omitted time.
func checkEnds(t testing.TB, d model.Direction, streams int, near, far *enginetest.End) {
	t.Helper()
	ends := map[model.Host]*enginetest.End{model.Near: near, model.Far: far}
	for _, part := range d.Parts() {
		receiver, sender := ends[part.Receiver()], ends[part.Sender()]
		got, sent := receiver.Flow(t, part), sender.Flow(t, part)
		must.True(t, got.Role == model.Receiver && sent.Role == model.Sender, "roles %s, %s", got.Role, sent.Role)
		must.True(t, got.Bytes <= sent.Bytes, "%s: received %d of %d bytes", part, got.Bytes, sent.Bytes)
		must.True(t, got.Window >= measured, "%s: window of %v, want at least %v", part, got.Window, measured)
		for _, f := range []model.FlowReport{got, sent} {
			must.True(t, len(f.Streams) == streams, "%s %s: %d streams, want %d", part, f.Role, len(f.Streams), streams)
			must.Equal(t, total64(f.Streams), f.Bytes, "%s %s: streams sum to", part, f.Role)
		}
		checkSamples(t, receiver.Samples(), part, model.Goodput, got)
		checkSummary(t, sent)
	}
	for h, e := range ends {
		must.True(t, e.Report.Host == h && e.Report.CPUWindow > 0 && e.Report.CPUUser+e.Report.CPUSystem > 0 && e.Report.Waiting != "", "report of end %s: %+v", h, e.Report)
	}
}

func total64(v []units.Bytes) (sum units.Bytes) {
	for _, n := range v {
		sum += n
	}
	return sum
}

// checkSamples fails the test unless the samples of m cover the window of r without a gap and
// add up to its bytes. At the window's edges a short piece may lack a sample, if the sampler
// woke up late.
func checkSamples(t testing.TB, samples []model.Sample, d model.Direction, m model.Metric, r model.FlowReport) {
	t.Helper()
	const shortest = measured / 4 / 10 // of the interval of timed
	var bits float64
	var length, next time.Duration
	for _, s := range samples {
		if s.Direction != d || s.Metric != m {
			continue
		}
		gap, edge := s.Start-next, s.Omitted != (length == 0)
		must.True(t, gap >= 0 && gap < shortest && (gap <= 0 || edge), "%s: sample begins at %v, the one before ended at %v", m, s.Start, next)
		next = s.Start + s.Length
		if s.Omitted {
			bits, length = 0, 0 // also where the window began anew with the first byte
			continue
		}
		bits += s.Value * s.Length.Seconds()
		length += s.Length
	}
	missing := r.Window - length
	must.True(t, missing >= 0 && missing < 2*shortest && (missing != 0 || !(math.Abs(bits/8-float64(r.Bytes)) > 1)), "%s: samples are %.0f bytes in %v, report is %d in %v", m, bits/8, length, r.Bytes, r.Window)
}

// TestCPUOfTheWindowOnly: CPU time excludes the omitted part.
func TestCPUOfTheWindowOnly(t *testing.T) {
	f := timed(model.To, 1)
	f.Omit = 5 * measured
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
	enginetest.Succeed(t, near, far, model.To)
	for _, e := range []*enginetest.End{near, far} {
		window := e.Flow(t, model.To).Window
		got := e.Report.CPUWindow
		must.True(t, got < window+f.Omit, "CPU over %v, the window is %v after %v omitted", got, window, f.Omit)
	}
}

func TestOmit(t *testing.T) {
	f := timed(model.To, 1)
	f.Omit = measured / 2
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
	enginetest.Succeed(t, near, far, model.To)
	got := far.Flow(t, model.To)
	samples := far.Samples()
	var omitted time.Duration
	for _, s := range samples {
		if s.Metric == model.Goodput && s.Omitted {
			omitted += s.Length
		}
	}
	must.True(t, omitted >= f.Omit, "omitted %v of %v", omitted, f.Omit)
	// The window is the rest after the omitted samples.
	must.True(t, got.Window >= measured, "window of %v, want at least %v", got.Window, measured)
	checkSamples(t, samples, model.To, model.Goodput, got)
}

// heedless is an engine whose sender ignores the rate of a flow.
type heedless struct{ *Engine }

// Prepare implements engine.Engine.
func (h heedless) Prepare(ctx context.Context, env engine.Env, f model.Flow) (engine.Test, error) {
	f.Params = ""
	return h.Engine.Prepare(ctx, env, f)
}

// TestReceiverKeepsTheRate: a sender that ignores the rate delivers no more than it allows.
func TestReceiverKeepsTheRate(t *testing.T) {
	f, _ := bulk.Paced(timed(model.To, 2), 40e6)
	f.Omit = 3 * paceAhead / 2
	near, far := enginetest.PrepareEnds(t, heedless{New()}, New(), enginetest.NewWire(t), f)
	enginetest.Succeed(t, near, far, model.To)
	var bits, end float64
	for _, s := range far.Samples() {
		if s.Metric == model.Goodput {
			bits, end = bits+s.Value*s.Length.Seconds(), (s.Start + s.Length).Seconds()
		}
	}
	// A stream may be ahead by paceAhead and a read.
	must.True(t, bits > 0 && bits < 40e6*(end+paceAhead.Seconds())+2*8<<20, "received %.0f bits in %g s, of 40 Mbit/s", bits, end)
}

func TestBytes(t *testing.T) {
	for name, e := range everyPlane() {
		for _, d := range []model.Direction{model.To, model.From, model.Both} {
			t.Run(fmt.Sprintf("%s/%s", name, d), func(t *testing.T) {
				// A multiple of neither streams nor blocks.
				const amount = 10_000_003
				f := model.Flow{Direction: d, Streams: 3, Bytes: amount}
				near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
				near.Start(t.Context())
				far.Start(t.Context())
				must.Wait(t, "near end", near.Done)
				must.Wait(t, "far end", far.Done)
				for h, e := range map[model.Host]*enginetest.End{model.Near: near, model.Far: far} {
					must.Dof(t, e.Err, "end %s", h)
					must.Equal(t, len(e.Report.Warnings), 0, "end %s warns %q", h, e.Report.Warnings)
					for _, r := range e.Report.Flows {
						must.True(t, r.Bytes == amount && r.Window > 0, "%s %s: %d bytes in %v", r.Direction, r.Role, r.Bytes, r.Window)
						low, high := amount/3, amount/3+1
						must.True(t, int(r.Streams[0]) == high && int(r.Streams[2]) == low, "%s %s: shares %v", r.Direction, r.Role, r.Streams)
					}
				}
			})
		}
	}
}

func TestBlock(t *testing.T) {
	for _, c := range []struct {
		name string
		rate fact.Of[units.BitRate]
		want units.Bytes
	}{
		{"unknown", fact.Unknown[units.BitRate]("virtual"), 512 << 10},
		{"gigabit", fact.Known(units.BitRate(1e9), "sysfs"), 128 << 10},
		{"ten gigabit", fact.Known(units.BitRate(10e9), "sysfs"), 512 << 10},
	} {
		t.Run(c.name, func(t *testing.T) { must.Equal(t, Block(engine.Env{LinkRate: c.rate}), c.want, "Block") })
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	must.OK(t, New().Validate(model.Flow{Direction: model.Both, Streams: 8, Duration: time.Second, MSS: 1448, Window: 1 << 20}), "a good flow")
	bad := model.Flow{
		Engine: "udp", Direction: "up", Streams: -1, Duration: -1, Omit: -1, Bytes: -1,
		Interval: time.Millisecond, Block: 1 << 40, Window: -1, MSS: 10,
	}
	err := New().Validate(bad)
	must.Need(t, err != nil, "a bad flow is valid")
	for _, want := range []string{"engine", "direction", "streams", "duration", "omit", "bytes", "interval", "block", "window", "segment"} {
		must.True(t, strings.Contains(err.Error(), want), "error does not name the %s:\n%v", want, err)
	}
	for _, f := range []model.Flow{
		{Direction: model.To},
		{Direction: model.To, Duration: 1, Bytes: 1},
		{Direction: model.To, Omit: 1, Bytes: 1},
		{Direction: model.To, Streams: 2, Bytes: 1},
	} {
		must.Fail(t, New().Validate(f), "valid: %+v", f)
	}
}

func TestPrepareClosesWhatItGot(t *testing.T) {
	w := enginetest.NewWire(t)
	env := w.Env(model.Near)
	open := env.Open
	var got []*net.TCPConn
	env.Open = func(ctx context.Context, n int, o engine.SocketOptions) (engine.Opened, error) {
		if len(got) > 0 {
			return engine.Opened{}, context.DeadlineExceeded
		}
		opened, err := open(ctx, n, o)
		got = opened.Conns
		return opened, err
	}
	accepted := make(chan *net.TCPConn, 1)
	go func() {
		c, _ := w.Accept(t.Context(), engine.SocketOptions{})
		accepted <- c
	}()
	must.Say(t, must.Err(New().Prepare(t.Context(), env, timed(model.Both, 1))), "open 1 connection from", "error")
	c := <-accepted
	defer c.Close()
	// A leaked connection would leave the peer waiting.
	must.Do(t, c.SetDeadline(time.Now().Add(enginetest.Soon)))
	_, err := c.Read(make([]byte, 1))
	must.True(t, err != nil && !strings.Contains(err.Error(), "timeout"), "the first set of connections is still open: %v", err)
}

// TestLosses: one of two streams ended at some time of a window that was planned from 1 s to 11
// s and lasted until 12 s.
func TestLosses(t *testing.T) {
	for _, c := range []struct {
		name string
		role model.Role
		at   time.Duration
		warn bool
	}{
		{"receiver, early", model.Receiver, 5 * time.Second, true},
		{"receiver, at the end", model.Receiver, 11900 * time.Millisecond, true},
		{"sender, early", model.Sender, 5 * time.Second, true},
		// The receiver was complete, and closed its connections one by one.
		{"sender, after the receiver", model.Sender, 11 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlow(model.To, c.role, model.Flow{Duration: 10 * time.Second})
			f.Open.At, f.Shut.At = time.Second, 12*time.Second
			ended, going := &stream{reason: syscall.ECONNRESET}, &stream{}
			ended.last.Store(int64(c.at))
			going.last.Store(int64(f.Shut.At))
			f.streams = []*stream{ended, going}
			f.losses()
			must.Equal(t, len(f.Warnings) > 0, c.warn, "warnings %q, want any: %v", f.Warnings, c.warn)
		})
	}
}

// TestPacerSpreadsWrites checks a pacer's rate exactly, on a clock that only it moves.
func TestPacerSpreadsWrites(t *testing.T) {
	for name, rate := range map[string]float64{"14 Mbit/s": 14e6 / 8, "1 Gbit/s": 1e9 / 8, "100 kbit/s": 100e3 / 8, "1 kbit/s": 1e3 / 8} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, p, sent, longest := time.Now(), pacer{rate: rate}, 0, 0
				for time.Since(start) < 100*time.Second {
					asked := time.Now()
					n := p.wait(128<<10, time.Since(start))
					took := time.Since(asked)
					must.Need(t, took <= paceNap, "slept for %v", took)
					sent, longest = sent+n, max(longest, n)
				}
				got := float64(sent) / time.Since(start).Seconds()
				must.True(t, got >= 0.99*rate && got <= 1.01*rate+paceLeast/100, "%.0f bytes a second, want %.0f", got, rate)
				most := max(paceLeast, int(rate*paceStep.Seconds()))
				must.True(t, longest <= most, "a write of %d bytes, want at most %d", longest, most)
			})
		})
	}
}

// TestPacerForgetsWhatThePathHeldUp: a stream does not send in a burst what it could not send
// before.
func TestPacerForgetsWhatThePathHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 1e6
		start, p := time.Now(), pacer{rate: rate}
		p.wait(1000, 0)
		time.Sleep(time.Second) // the path accepts nothing
		at, burst := time.Since(start), 0
		for {
			n := p.wait(128<<10, time.Since(start))
			if time.Since(start) > at {
				break
			}
			burst += n
		}
		most := int(rate*paceDebt.Seconds()) + 2*paceLeast
		must.True(t, burst <= most, "%d bytes at once, want at most %d", burst, most)
	})
}
