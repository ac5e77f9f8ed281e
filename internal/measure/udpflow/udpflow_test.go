package udpflow

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// everyWay returns the engine with each socket implementation.
func everyWay() map[string]*Engine {
	portable := New()
	portable.portable = true
	return map[string]*Engine{"native": New(), "portable": portable}
}

// timed returns a short flow at a rate that any machine carries.
func timed(d model.Direction) model.Flow {
	return model.Flow{
		Direction: d, Duration: 200 * time.Millisecond, Omit: 50 * time.Millisecond, Interval: 50 * time.Millisecond,
		Params: traffic.Write(udp.Params{Rate: 20e6}),
	}
}

// checkBooks checks what must be true of any complete run: each datagram of the sender's window
// is received or lost.
func checkBooks(t *testing.T, send, receive model.FlowReport) {
	t.Helper()
	s, r := send.UDP, receive.UDP
	must.True(t, s.Sent != 0 && s.Sent == r.Received+r.Lost, "sent %d, received %d, lost %d", s.Sent, r.Received, r.Lost)
	if r.Received == 0 && r.Variation == nil {
		return // a receiver that got no CPU lost them all, and reports it
	}
	got := int64(r.Variation.Count())
	must.True(t, got <= r.Received && (got != 0 || r.Received <= 0), "%d delays of %d datagrams", got, r.Received)
}

func ends(d model.Direction, near, far *enginetest.End) (sender, receiver *enginetest.End) {
	if d == model.To {
		return near, far
	}
	return far, near
}

func TestDirections(t *testing.T) {
	for name, e := range everyWay() {
		for _, d := range []model.Direction{model.To, model.From, model.Both} {
			t.Run(name+"/"+string(d), func(t *testing.T) {
				f := timed(d)
				f.Streams, f.Params = 3, traffic.Write(udp.Params{Rate: 20e6, Back: 10e6})
				near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
				enginetest.Succeed(t, near, far, d)
				for _, part := range d.Parts() {
					s, r := ends(part, near, far)
					send, receive := s.Flow(t, part), r.Flow(t, part)
					checkBooks(t, send, receive)
					checkFigures(t, map[model.Direction]float64{model.To: 20e6, model.From: 10e6}[part], send, receive, notSent(s.Report))
				}
				for _, w := range append(near.Report.Warnings, far.Report.Warnings...) {
					must.True(t, strings.Contains(w, "could not keep up") || strings.Contains(w, "were not sent in time") || strings.Contains(w, " sender: stopped after "), "warning %q", w) // the receiver has its window if the sender began late
				}
			})
		}
	}
}

// notSent returns how many datagrams a sender reports as not sent because it was delayed for
// too long.
func notSent(r model.EndReport) (n int64) {
	for _, w := range r.Warnings {
		_, text, _ := strings.Cut(w, ": ")
		if strings.Contains(text, "were not sent") {
			_, _ = fmt.Sscanf(text, "%d", &n)
		}
	}
	return n
}

// checkFigures checks the reports of timed with three streams, whose sender has dropped some
// datagrams.
func checkFigures(t *testing.T, rate float64, send, receive model.FlowReport, missed int64) {
	t.Helper()
	// For 0.2 s in datagrams of 1472 bytes.
	want := rate * 0.2 / 8 / 1472
	// It makes up for a delay of at most 0.1 s, into the window or out of it. It reports the
	// rest of a longer delay.
	n := float64(send.UDP.Sent)
	must.True(t, n <= want*3/2+3 && n+float64(missed) >= want/2-3, "%v datagrams sent and %d given up, want %v", n, missed, want)
	must.True(t, send.Bytes == units.Bytes(send.UDP.Sent*1472) && len(send.Streams) == 3, "%d bytes in %d streams for %d datagrams", send.Bytes, len(send.Streams), send.UDP.Sent)
	must.True(t, receive.Bytes != 0 && receive.Bytes%1472 == 0 && receive.Window >= 200*time.Millisecond, "received %d bytes in %v", receive.Bytes, receive.Window)
	must.True(t, send.UDP.Pacing == "clock" && !send.UDP.Segmented && send.UDP.Gaps.Count() != 0, "paced by %q, segmented %t, %d gaps", send.UDP.Pacing, send.UDP.Segmented, send.UDP.Gaps.Count())
	must.True(t, receive.UDP.Jitter.IsKnown() && !send.UDP.Jitter.IsKnown(), "jitter %v at the receiver, %v at the sender", receive.UDP.Jitter, send.UDP.Jitter)
}

func TestSamples(t *testing.T) {
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), timed(model.To))
	enginetest.Succeed(t, near, far, model.To)
	sum := map[model.Metric]float64{}
	for _, s := range append(near.Samples(), far.Samples()...) {
		must.True(t, s.Length > 0 && s.Omitted == (s.Start < 50*time.Millisecond), "%+v", s)
		if s.Metric == model.Datagrams && s.Host == s.Direction.Sender() {
			sum["sent#"] += s.Value
			continue
		}
		if !s.Omitted {
			sum[s.Metric] += s.Value * s.Length.Seconds()
			sum[s.Metric+"#"] += s.Value
		}
	}
	r := far.Flow(t, model.To)
	got := sum[model.Goodput] / 8
	must.True(t, !(math.Abs(got-float64(r.Bytes)) > 1), "samples of goodput hold %v bytes, the report %d", got, r.Bytes)
	got = sum["datagrams#"] * 1472
	must.True(t, !(math.Abs(got-float64(r.Bytes)) > 1), "samples of datagrams hold %v bytes, the report %d", got, r.Bytes)
	got, least := sum["sent#"]*1472, float64(near.Flow(t, model.To).Bytes)
	must.True(t, !(got < least), "samples of datagrams at the sender hold %v bytes, the report %v", got, least)
	for _, m := range []model.Metric{model.Sent, model.Jitter, model.CPU} {
		must.True(t, sum[m] > 0, "%s adds up to %v", m, sum[m])
	}
	must.True(t, far.Report.Values[0].Metric == model.LossRatio && (near.Report.SystemBusy.IsKnown() || near.Report.SystemBusy.Reason() != ""), "values %+v, busy %+v", far.Report.Values, near.Report.SystemBusy)
}

func TestBytes(t *testing.T) {
	for name, e := range everyWay() {
		t.Run(name, func(t *testing.T) {
			f := model.Flow{
				Direction: model.From, Streams: 2, Bytes: 300_000, Interval: 10 * time.Millisecond,
				Params: traffic.Write(udp.Params{Rate: 5e6}),
			}
			near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
			enginetest.Succeed(t, near, far, model.From)
			send, receive := far.Flow(t, model.From), near.Flow(t, model.From)
			checkBooks(t, send, receive)
			// As many datagrams as needed: 204 of 1472 bytes.
			must.True(t, send.UDP.Sent == 204 && receive.UDP.Received == 204 && receive.Bytes == 204*1472, "sent %d, received %d in %d bytes", send.UDP.Sent, receive.UDP.Received, receive.Bytes)
			// The last leaves 203 gaps of half the streams' 4.7 ms after the first, 478 ms; a
			// first one that is late makes up for at most 0.1 s of it.
			w := receive.Window
			must.True(t, w >= 370*time.Millisecond && w <= enginetest.Soon, "window %v", w)
		})
	}
}

func TestSizes(t *testing.T) {
	for name, e := range everyWay() {
		for _, size := range []units.Bytes{16, 1473, 65507} {
			for _, plain := range []bool{true, false} {
				t.Run(name+"/"+size.String(), func(t *testing.T) {
					f := timed(model.To)
					f.Block, f.Params = size, traffic.Write(udp.Params{Plain: plain, Rate: units.BitRate(size) * 8 * 2000})
					near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
					enginetest.Succeed(t, near, far, model.To)
					send, receive := near.Flow(t, model.To), far.Flow(t, model.To)
					checkBooks(t, send, receive)
					must.True(t, receive.Bytes%size == 0 && receive.Bytes != 0, "%d bytes received", receive.Bytes)
				})
			}
		}
	}
}

// TestFast sends as fast as possible, so the number of arrivals is unpredictable.
func TestFast(t *testing.T) {
	for name, e := range everyWay() {
		for _, plain := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				// A receiver that gets no CPU still reads what waits for it later.
				f := model.Flow{Direction: model.To, Bytes: 16 << 20, Interval: 50 * time.Millisecond, Params: traffic.Write(udp.Params{Plain: plain})}
				near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
				enginetest.Succeed(t, near, far, model.To)
				send, receive := near.Flow(t, model.To), far.Flow(t, model.To)
				checkBooks(t, send, receive)
				must.True(t, receive.UDP.Received != 0, "nothing arrived")
				must.True(t, send.UDP.Segmented == receive.UDP.Coalesced && (!plain || !send.UDP.Segmented), "segmented %t, coalesced %t", send.UDP.Segmented, receive.UDP.Coalesced)
				must.True(t, send.UDP.Pacing == "none" && send.UDP.Gaps == nil, "pacing %q with gaps %v", send.UDP.Pacing, send.UDP.Gaps)
				t.Logf("%s: sent %d, lost %d, segmented %t", name, send.UDP.Sent, receive.UDP.Lost, send.UDP.Segmented)
			})
		}
	}
}

func TestIPv6(t *testing.T) {
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire6(t), timed(model.To))
	enginetest.Succeed(t, near, far, model.To)
	checkBooks(t, near.Flow(t, model.To), far.Flow(t, model.To))
	got := near.Flow(t, model.To)
	must.True(t, got.Bytes == units.Bytes(1452*got.UDP.Sent), "%d bytes in %d datagrams", got.Bytes, got.UDP.Sent)
}

func TestValidate(t *testing.T) {
	good := timed(model.Both)
	must.Do(t, New().Validate(good))
	nan := math.NaN()
	for name, change := range map[string]func(*model.Flow){
		"engine":     func(f *model.Flow) { f.Engine = "tcpbulk" },
		"direction":  func(f *model.Flow) { f.Direction = "up" },
		"streams":    func(f *model.Flow) { f.Streams = 129 },
		"negative":   func(f *model.Flow) { f.Duration = -1 },
		"too long":   func(f *model.Flow) { f.Duration = 100 * time.Hour },
		"omit":       func(f *model.Flow) { f.Omit = -1 },
		"no end":     func(f *model.Flow) { f.Duration = 0 },
		"two ends":   func(f *model.Flow) { f.Bytes = 1 },
		"all bytes":  func(f *model.Flow) { f.Duration, f.Bytes = 0, 1 },
		"interval":   func(f *model.Flow) { f.Interval = time.Millisecond },
		"small":      func(f *model.Flow) { f.Block = 15 },
		"large":      func(f *model.Flow) { f.Block = 65508 },
		"window":     func(f *model.Flow) { f.Window = -1 },
		"mss":        func(f *model.Flow) { f.MSS = 1000 },
		"nagle":      func(f *model.Flow) { f.Nagle = true },
		"congestion": func(f *model.Flow) { f.Congestion = "cubic" },
		"rate":       func(f *model.Flow) { f.Params = traffic.Write(udp.Params{Rate: -1}) },
		"rate nan":   func(f *model.Flow) { f.Params = traffic.Write(udp.Params{Rate: units.BitRate(nan)}) },
		"slow":       func(f *model.Flow) { f.Params = traffic.Write(udp.Params{Rate: 1}) },
		"pacing":     func(f *model.Flow) { f.Params = traffic.Write(udp.Params{Pacing: "hope"}) },
	} {
		t.Run(name, func(t *testing.T) {
			f := good
			change(&f)
			must.Fail(t, New().Validate(f), "no fault found")
			must.Fail(t, must.Err(New().Prepare(t.Context(), engine.Env{}, f)), "prepared")
		})
	}
}

func TestNoUDP(t *testing.T) {
	must.Is(t, must.Err(New().Prepare(t.Context(), engine.Env{Host: model.Near}, timed(model.To))), errors.ErrUnsupported, "error")
}
