package reqresp

import (
	"math"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// brief is a short flow.
func brief(d model.Direction, streams int) model.Flow {
	return model.Flow{
		Engine: Name, Direction: d, Streams: streams,
		Omit: 50 * time.Millisecond, Duration: 300 * time.Millisecond, Interval: 100 * time.Millisecond,
	}
}

// everyPlane returns an engine for each way of waiting.
func everyPlane() map[string]*Engine {
	all := map[string]*Engine{"chosen": New(), "poller": New()}
	all["poller"].waiters = func(int, bool) (waiter, string) { return poller{}, "" }
	return all
}

// at returns the quantile q, which must be known.
func at(t testing.TB, h *hist.Histogram, q float64) time.Duration {
	t.Helper()
	v, known := h.Quantile(q).Get()
	must.Need(t, known, "quantile %v: %s", q, h.Quantile(q).Reason())
	return v
}

// roles returns the two ends by their role in direction d.
func roles(near, far *enginetest.End, d model.Direction) (asking, answering *enginetest.End) {
	if d == model.From {
		return far, near
	}
	return near, far
}

// check compares the reports of both ends of direction d.
func check(t testing.TB, near, far *enginetest.End, f model.Flow, d model.Direction) {
	t.Helper()
	asking, answering := roles(near, far, d)
	l := asking.Latency(t, d, "request")
	if got := int64(l.Times.Count()); got == 0 || got != l.Sent-l.Lost || l.Lost != 0 {
		t.Errorf("%s: %d latencies of %d sent and %d lost", d, got, l.Sent, l.Lost)
	}
	sent, got := asking.Flow(t, d), answering.Flow(t, d)
	must.True(t, sent.Role == model.Sender && got.Role == model.Receiver, "%s: roles %s and %s", d, sent.Role, got.Role)
	must.True(t, sent.Bytes == got.Bytes && int64(sent.Bytes) == l.Sent*int64(max(1, f.Block)), "%s: %d bytes asked, %d answered, %d requests of %d bytes", d, sent.Bytes, got.Bytes, l.Sent, max(1, f.Block))
	must.True(t, sent.Window == f.Duration && got.Window == f.Duration, "%s: windows %v and %v, want %v", d, sent.Window, got.Window, f.Duration)
	p50, p99 := asking.Value(t, d, model.LatencyP50), asking.Value(t, d, model.LatencyP99)
	must.True(t, !(p50 <= 0) && !(p99 < p50) && p50 == at(t, l.Times, 0.5).Seconds(), "%s: p50 %v s, p99 %v s; histogram %v", d, p50, p99, at(t, l.Times, 0.5))
}

func TestOneAfterTheOther(t *testing.T) {
	for name, e := range everyPlane() {
		for _, d := range []model.Direction{model.To, model.From, model.Both} {
			t.Run(name+"/"+string(d), func(t *testing.T) {
				f := brief(d, 2)
				near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
				enginetest.Succeed(t, near, far, d)
				for _, part := range d.Parts() {
					check(t, near, far, f, part)
					asking, _ := roles(near, far, part)
					answered := asking.Value(t, part, model.RequestRate) * f.Duration.Seconds()
					sent := float64(asking.Latency(t, part, "request").Sent)
					// One of each stream is answered after the window, and one was sent before
					// it.
					must.True(t, math.Abs(answered-sent) <= float64(f.Streams)+0.5, "%v requests answered in the window, %v were sent", answered, sent)
				}
				must.True(t, len(near.Report.Warnings)+len(far.Report.Warnings) == 0, "warnings %q %q", near.Report.Warnings, far.Report.Warnings)
			})
		}
	}
}

// TestLateWorkerAsksOnce: a machine that was busy for all of the window has a result.
func TestLateWorkerAsksOnce(t *testing.T) {
	near, far := enginetest.Prepare(t, everyPlane()["poller"], enginetest.NewWire(t), brief(model.To, 1))
	far.Start(t.Context())
	a := near.Test.(*test).asking
	a.start = time.Now().Add(-time.Hour)
	must.OK(t, a.workers[0].ask())
	got := a.count()
	must.True(t, got.issued == 1 && got.answered == 1 && got.completed == 0, "%+v", got)
}

func TestSchedule(t *testing.T) {
	for name, e := range everyPlane() {
		t.Run(name, func(t *testing.T) {
			f := brief(model.To, 3)
			f.Block, e.patience = 100, time.Minute
			f.Params = traffic.Write(requests.Params{Rate: 500, Reply: 3000})
			near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
			enginetest.Succeed(t, near, far, f.Direction)
			check(t, near, far, f, f.Direction)
			// Requests 25 to 174 are due from 50 to 350 ms.
			must.Equal(t, near.Latency(t, model.To, "request").Sent, 150, "requests, the schedule has 150")
			must.Equal(t, near.Latency(t, model.To, "request (service)").Times.Count(), 150, "service times")
		})
	}
}

func TestSamples(t *testing.T) {
	f := brief(model.To, 1)
	f.Duration = time.Hour
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
	far.Start(t.Context())
	near.Start(t.Context())
	for _, m := range []model.Metric{model.RequestRate, model.LatencyP50, model.LatencyP99, model.CPU} {
		near.AwaitSample(t, func(s model.Sample) bool { return s.Metric == m && s.Start > f.Omit+f.Interval })
	}
	near.Stop()
	must.Wait(t, "asking end", near.Done)
	must.Wait(t, "answering end", far.Done)
	var requests, omitted float64
	for _, s := range near.Samples() {
		must.True(t, s.Host == model.Near && s.Length > 0 && s.Start >= 0, "sample %+v", s)
		must.Equal(t, s.Start < f.Omit, s.Omitted, "sample at %v: omitted is %t", s.Start, s.Omitted)
		switch n := s.Value * s.Length.Seconds(); {
		case s.Metric == model.RequestRate && s.Omitted:
			omitted += n
		case s.Metric == model.RequestRate:
			requests += n
		}
	}
	sent := float64(near.Latency(t, model.To, "request").Sent)
	// An interval that ends late includes requests of the window.
	must.True(t, requests <= sent+1.5 && requests+omitted >= sent-1.5, "the samples tell of %v requests and %v omitted, the report of %v", requests, omitted, sent)
}

// TestStallIsSeen checks for coordinated omission. A path that stalls for 300 ms in 2 s makes
// 15 % of the scheduled requests wait, every tenth 100 ms or more; only one of them was in
// flight.
func TestStallIsSeen(t *testing.T) {
	const stall = 300 * time.Millisecond
	for name, e := range everyPlane() {
		t.Run(name, func(t *testing.T) {
			f := brief(model.To, 1)
			f.Omit, f.Duration, e.patience = 0, 2*time.Second, time.Minute
			f.Params = traffic.Write(requests.Params{Rate: 200})
			w := enginetest.NewWire(t)
			// Each exchange passes the relay in two pieces, the hello and the marks in one or
			// two.
			(&relay{stall: stall, n: 300}).start(t, w)
			near, far := enginetest.Prepare(t, e, w, f)
			enginetest.Succeed(t, near, far, f.Direction)
			due := near.Latency(t, model.To, "request")
			p99, service := at(t, due.Times, 0.99), near.Latency(t, model.To, "request (service)").Times
			must.True(t, due.Sent == 400 && due.Lost == 0, "%d sent and %d lost of 400", due.Sent, due.Lost)
			must.True(t, p99 >= stall/2, "p99 is %v after a stall of %v", p99, stall)
			// The 60 that were due meanwhile waited 9 s in total before they were sent.
			waited := 400 * (due.Times.Mean().Or(0) - service.Mean().Or(0))
			must.True(t, waited >= 8*time.Second, "the service leaves %v of waiting out: the stall hit one request only", waited)
			most := due.Times.Max().Or(0)
			must.True(t, most >= stall, "the slowest took %v", most)
		})
	}
}

// TestDelayIsSeen: no request is faster than the path. TestMedianOfADelay checks the rest.
func TestDelayIsSeen(t *testing.T) { delayed(t, 10*time.Millisecond) }

// delayed returns the median latency on a path with that delay in each direction.
func delayed(t testing.TB, delay time.Duration) time.Duration {
	t.Helper()
	f := brief(model.From, 2)
	w := enginetest.NewWire(t)
	(&relay{delay: delay}).start(t, w)
	near, far := enginetest.Prepare(t, New(), w, f)
	enginetest.Succeed(t, near, far, f.Direction)
	h := far.Latency(t, model.From, "request").Times
	least := h.Min().Or(0)
	must.True(t, least >= 2*delay, "least latency %v on a path of %v", least, 2*delay)
	return at(t, h, 0.5)
}

func TestMoreThanCanBeAnswered(t *testing.T) {
	f := brief(model.To, 1)
	f.Omit, f.Duration = 0, 600*time.Millisecond
	f.Params = traffic.Write(requests.Params{Rate: 200})
	w := enginetest.NewWire(t)
	(&relay{delay: 10 * time.Millisecond}).start(t, w) // 20 ms each, which no machine can reduce
	e := New()
	e.patience = 20 * time.Millisecond
	near, far := enginetest.Prepare(t, e, w, f)
	enginetest.Succeed(t, near, far, f.Direction)
	l := near.Latency(t, model.To, "request")
	answered := int64(l.Times.Count())
	must.True(t, l.Sent == 120 && answered != 0 && answered <= 31 && answered == l.Sent-l.Lost,
		"%d sent, %d lost, %d answered; 120 were due, at most 31 can be answered", l.Sent, l.Lost, answered)
	all := strings.Join(near.Report.Warnings, "\n")
	for _, want := range []string{"schedule was not kept", "were not answered", "no 99th percentile of latency"} {
		must.Contain(t, all, want, "warnings")
	}
	rate := near.Value(t, model.To, model.RequestRate)
	must.True(t, rate <= 52, "%v requests per second", rate)
}

func TestConnect(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From} {
		t.Run(string(d), func(t *testing.T) {
			f := brief(d, 2)
			f.Block = 10
			f.Params = traffic.Write(requests.Params{Connect: true, Spin: true})
			near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
			enginetest.Succeed(t, near, far, d)
			check(t, near, far, f, d)
			asking, answering := roles(near, far, d)
			rate := asking.Value(t, d, model.ConnectRate)
			must.True(t, rate > 0, "%v connections per second", rate)
			w := asking.Report.Warnings
			must.True(t, len(w) == 1 && strings.Contains(w[0], "polling"), "warnings %q", w)
			must.True(t, asking.Report.Waiting == "poller" && len(answering.Flow(t, d).Streams) == 1, "waiting %q, streams %v", asking.Report.Waiting, answering.Flow(t, d).Streams)
		})
	}
}

func TestValidate(t *testing.T) {
	must.OK(t, New().Validate(brief(model.Both, 0)))
	bad := model.Flow{
		Engine: "x", Direction: "up", Streams: maxStreams + 1, Omit: -1, Bytes: 1, Interval: 1, Block: maxBlock + 1,
		Window: -1, MSS: 1, Params: traffic.Write(requests.Params{Rate: -1, Reply: -1}),
	}
	err := New().Validate(bad)
	for _, want := range []string{"engine", "direction", "streams", "duration", "omit", "bytes", "interval", "request of", "window", "segment", "arrivals", "answer"} {
		must.Say(t, err, want, "%q is not in", want)
	}
}

// TestBothEndsCountWhatTheySend: however they wait, and even over connections that the session
// does not see.
func TestBothEndsCountWhatTheySend(t *testing.T) {
	for name, e := range everyPlane() {
		for _, connect := range []bool{false, true} {
			w := enginetest.NewWire(t)
			sent := w.Counters()
			f := brief(model.To, 2)
			f.Block = 100
			f.Params = traffic.Write(requests.Params{Connect: connect, Reply: 5000})
			near, far := enginetest.Prepare(t, e, w, f)
			enginetest.Succeed(t, near, far, model.To)
			must.Need(t, sent(model.Near) != nil && sent(model.Far) != nil, "%s, connect %v: an end without counters", name, connect)
			asked, answered := sent(model.Near)(), sent(model.Far)()
			window := near.Latency(t, model.To, "request").Sent // the others are warm-up
			must.True(t, asked >= window*100 && answered >= window*5000 && answered <= 51*asked,
				"%s, connect %v: %d requests in the window, %d bytes asked, %d answered", name, connect, window, asked, answered)
		}
	}
}
