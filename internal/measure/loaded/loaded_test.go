package loaded

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/measure/tcpbulk"
	"linerate/internal/must"
)

// brief returns a short flow with a time without load. Its window is longer than a machine may
// stall.
func brief(d model.Direction) model.Flow {
	return model.Flow{
		Engine: Name, Direction: d, Omit: 50 * time.Millisecond, Duration: 1500 * time.Millisecond,
		Interval: 100 * time.Millisecond, Window: 64 << 10, Lead: 300 * time.Millisecond,
	}
}

func bulk() *Engine { return New(tcpbulk.New()) }

// latency returns the near end's distribution with that name, in any direction.
func latency(t testing.TB, near *enginetest.End, name string) model.Latency {
	t.Helper()
	for _, l := range near.Report.Latencies {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("no latency %q: %+v", name, near.Report.Values)
	return model.Latency{}
}

// seconds returns the near end's value of m in direction d as a time.
func seconds(t testing.TB, near *enginetest.End, d model.Direction, m model.Metric) time.Duration {
	t.Helper()
	return time.Duration(near.Value(t, d, m) * float64(time.Second))
}

func TestUnderLoad(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From, model.Both} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			f := brief(d)
			near, far := enginetest.Prepare(t, bulk(), enginetest.NewWire(t), f)
			enginetest.Succeed(t, near, far, d)
			of := d
			if d == model.Both {
				of = ""
			}
			for _, name := range []string{"idle udp", "idle tcp", "loaded udp", "loaded tcp"} {
				l := latency(t, near, name)
				got := int64(l.Times.Count())
				must.True(t, got == l.Sent-l.Lost && got != 0, "%s: %d answered of %d with %d lost", name, got, l.Sent, l.Lost)
				must.Equal(t, l.Direction, d, "%s: direction", name)
			}
			for _, m := range []model.Metric{model.LatencyP50, model.LatencyP99, model.IdleP50, model.IdleP99} {
				v := seconds(t, near, of, m)
				must.True(t, v > 0, "%s is %v", m, v)
			}
			for _, part := range d.Parts() {
				for _, e := range []struct {
					*enginetest.End
					host model.Host
				}{{near, model.Near}, {far, model.Far}} {
					checkFlow(t, e.End, e.host, part)
				}
			}
			must.True(t, len(near.Report.Latencies) == 4 && len(far.Report.Latencies) == 0, "%d and %d latencies", len(near.Report.Latencies), len(far.Report.Latencies))
			if len(near.Report.Warnings)+len(far.Report.Warnings) > 0 {
				t.Logf("warnings %q %q", near.Report.Warnings, far.Report.Warnings)
			}
		})
	}
}

// checkFlow checks the load's report of direction d.
func checkFlow(t *testing.T, e *enginetest.End, h model.Host, d model.Direction) {
	t.Helper()
	role := model.Sender
	if d.Receiver() == h {
		role = model.Receiver
	}
	for _, f := range e.Report.Flows {
		if f.Direction == d && f.Role == role {
			must.True(t, f.Bytes != 0 && f.Window > 0, "%s %s: %d bytes in %v", d, role, f.Bytes, f.Window)
			must.True(t, role != model.Receiver || f.Window >= 1500*time.Millisecond, "%s: measured %v", d, f.Window)
			return
		}
	}
	t.Errorf("%s reports no %s of %s", h, role, d)
}

func TestSamples(t *testing.T) {
	f := brief(model.From)
	near, far := enginetest.Prepare(t, bulk(), enginetest.NewWire(t), f)
	enginetest.Succeed(t, near, far, f.Direction)
	seen := map[model.Metric]int{}
	for _, s := range near.Samples() {
		loaded := s.Metric == model.LatencyP50 || s.Metric == model.Goodput
		before := s.Start < f.Lead
		must.True(t, loaded != before || s.Metric == model.CPU, "%s at %v, the load begins at %v", s.Metric, s.Start, f.Lead)
		if !s.Omitted {
			seen[s.Metric]++
		}
	}
	for _, m := range []model.Metric{model.IdleP50, model.LatencyP50, model.Goodput, model.CPU} {
		must.True(t, seen[m] != 0, "no sample of %s: %v", m, seen)
	}
	must.True(t, seen[model.IdleP99]+seen[model.LatencyP99] == 0, "a 99th percentile of 5 answers: %v", seen)
}

func TestBytesAndNoIdle(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From} {
		f := brief(d)
		f.Lead, f.Omit, f.Duration = 0, 0, 0
		f.Bytes = 256 << 20
		near, far := enginetest.Prepare(t, bulk(), enginetest.NewWire(t), f)
		enginetest.Succeed(t, near, far, d)
		for _, l := range near.Report.Latencies {
			must.True(t, !strings.HasPrefix(l.Name, "idle"), "%d probes without load, which nobody asked for", l.Sent)
		}
		must.True(t, latency(t, near, "loaded udp").Times.Count() != 0, "%s: nothing was probed", d)
	}
}

func TestWithoutUDP(t *testing.T) {
	for name, open := range map[string]func(context.Context, int) ([]*net.UDPConn, error){
		"no UDP":      nil,
		"cannot open": func(context.Context, int) ([]*net.UDPConn, error) { return nil, net.ErrClosed },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.NewWire(t)
			w.Change = func(h model.Host, e *engine.Env) {
				if h == model.Far {
					e.OpenUDP = open
					return
				}
				// The near end's socket gets no greeting.
				e.OpenUDP = func(ctx context.Context, _ int) ([]*net.UDPConn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
			}
			e := bulk()
			e.grace = 2 * time.Second // the near end waits that long, and the far end longer
			f := brief(model.To)
			near, far := enginetest.PrepareEnds(t, e, bulk(), w, f)
			enginetest.Succeed(t, near, far, f.Direction)
			must.True(t, len(near.Report.Latencies) == 2 && latency(t, near, "loaded tcp").Times.Count() != 0, "latencies %+v", near.Report.Latencies)
			for _, e := range []*enginetest.End{near, far} {
				all := strings.Join(e.Report.Warnings, "\n")
				must.True(t, strings.Contains(all, "probed by TCP alone") || strings.Contains(all, "TCP alone"), "warnings %q", e.Report.Warnings)
			}
			v := seconds(t, near, model.To, model.LatencyP50)
			must.True(t, v > 0, "p50 %v", v)
		})
	}
}

// TestUDPThatIsSwallowed closes the far end's socket unnoticed.
func TestUDPThatIsSwallowed(t *testing.T) {
	f := brief(model.To)
	near, far := enginetest.Prepare(t, bulk(), enginetest.NewWire(t), f)
	far.Test.(*test).udp.Close()
	enginetest.Succeed(t, near, far, f.Direction)
	l := latency(t, near, "loaded udp")
	must.True(t, l.Lost == l.Sent && l.Sent != 0, "%d lost of %d", l.Lost, l.Sent)
	v := seconds(t, near, model.To, model.LatencyP50)
	must.True(t, v > 0, "p50 %v", v)
	must.Contain(t, strings.Join(near.Report.Warnings, "\n"), "most UDP probes were not answered", "warnings %q", near.Report.Warnings)
}

func TestPace(t *testing.T) {
	for rate, want := range map[units.BitRate]time.Duration{0: leastPace, 1e9: leastPace, 10e6: 21680 * time.Microsecond, 100e3: 2168 * time.Millisecond, 1e-300: never} {
		must.Equal(t, pace(rate, udpBits+tcpBits), want, "at %v a probe each", rate)
	}
	p := newProber(newTest(bulk(), engine.Env{Host: model.Near}, model.Flow{Duration: 10 * time.Second}))
	for _, c := range []struct {
		carried units.BitRate
		want    time.Duration
	}{{0, leastPace}, {100e3, 2168 * time.Millisecond}, {1e3, 10 * time.Second / 3}, {1e9, leastPace}} {
		p.slow(c.carried)
		must.Equal(t, p.plan.Load().gap, c.want, "once %v were carried", c.carried)
	}
}

// TestShare: the probes take at most 1 % of a loaded path's rate, even if the first intervals
// showed far more, and some are sent in every window.
func TestShare(t *testing.T) {
	for name, c := range map[string]struct {
		rate     units.BitRate
		told     []units.BitRate // of the first intervals
		omit     time.Duration
		unusable bool // datagrams get no answer
		udp, tcp [2]int64
	}{
		"100 kbit/s":                      {100e3, nil, time.Second, false, [2]int64{6, 6}, [2]int64{0, 0}},
		"100 kbit/s, at first 200 kbit/s": {100e3, []units.BitRate{200e3, 0, 120e3}, time.Second, false, [2]int64{6, 6}, [2]int64{0, 0}},
		"100 kbit/s, no warm-up":          {100e3, nil, 0, false, [2]int64{5, 6}, [2]int64{0, 0}},
		"100 kbit/s, no UDP":              {100e3, nil, time.Second, true, [2]int64{0, 0}, [2]int64{3, 4}},
		"1 kbit/s, which cannot keep it":  {1e3, nil, time.Second, false, [2]int64{2, 3}, [2]int64{0, 0}},
		"1 Gbit/s":                        {1e9, nil, time.Second, false, [2]int64{245, 251}, [2]int64{245, 251}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProber(newTest(bulk(), engine.Env{Host: model.Near}, model.Flow{Duration: 5 * time.Second}))
				p.start = time.Now()
				kind := func(own *tracker, answered bool) func() error {
					return func() error {
						if seq := own.send(p.now()); answered {
							own.answer(seq, p.now())
						}
						return nil
					}
				}
				go p.send(0, &p.udps, kind(&p.udps, !c.unusable))
				go p.send(leastPace/2, &p.tcps, kind(&p.tcps, true))
				time.Sleep(time.Second - time.Millisecond) // the next probes are due
				p.hold()
				p.enter(aside)
				for at := time.Duration(0); at < c.omit+5*time.Second; at += time.Second {
					if at == c.omit {
						p.enter(loading)
						p.open()
					}
					time.Sleep(time.Second)
					told := c.rate
					if n := int(at / time.Second); n < len(c.told) {
						told = c.told[n]
					}
					if told > 0 {
						p.slow(told)
					}
				}
				p.silence()
				udp, tcp := p.udps.sent(loading), p.tcps.sent(loading)
				must.True(t, udp >= c.udp[0] && udp <= c.udp[1] && tcp >= c.tcp[0] && tcp <= c.tcp[1], "%d datagrams and %d bytes were sent", udp, tcp)
				took := float64((udp+p.udps.sent(aside))*udpBits + (tcp+p.tcps.sent(aside))*tcpBits)
				carried := float64(c.rate) * (c.omit + 5*time.Second).Seconds()
				must.True(t, c.rate < 20e3 || took <= share*carried*1.01, "the probes took %.1f %%", 100*took/carried)
			})
		})
	}
}

func TestValidate(t *testing.T) {
	e := bulk()
	must.OK(t, e.Validate(brief(model.Both)))
	bad := brief("up")
	bad.Engine, bad.Interval, bad.Lead = "x", 1, time.Hour
	err := e.Validate(bad)
	for _, want := range []string{"engine", "direction", "interval", "idle"} {
		must.Say(t, err, want, "%q is not in", want)
	}
	bad = brief(model.To)
	bad.Params = traffic.Write(probes.Params{Engine: "loaded"})
	must.Say(t, e.Validate(bad), "tcpbulk", "an unknown load")
}

// TestEndsAtAnyTime ends a run in each of its phases in each way, at one end or at both; what
// is left must end too.
func TestEndsAtAnyTime(t *testing.T) {
	cause := errors.New("user pressed ^C")
	for _, d := range []model.Direction{model.To, model.From, model.Both} {
		for phase, metric := range map[string]model.Metric{"idle": model.IdleP50, "loaded": model.LatencyP50, "before": ""} {
			for _, how := range []string{"stop both", "close near", "close far", "cancel"} {
				t.Run(string(d)+"/"+phase+"/"+how, func(t *testing.T) {
					f := brief(d)
					f.Omit, f.Duration = 0, time.Hour
					f.Interval = 20 * time.Millisecond
					f.Lead = 40 * time.Millisecond
					if phase == "idle" {
						f.Lead = maxIdle
					}
					near, far := enginetest.Prepare(t, bulk(), enginetest.NewWire(t), f)
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					if phase != "before" {
						far.Start(ctx)
						near.Start(ctx)
						near.AwaitSample(t, func(s model.Sample) bool { return s.Metric == metric && s.Value > 0 })
					}
					switch how {
					case "stop both":
						near.Stop()
						far.Stop()
					case "close near":
						near.Close()
					case "close far":
						far.Close()
					case "cancel":
						cancel(cause)
					}
					if phase == "before" {
						far.Start(ctx)
						near.Start(ctx)
					}
					must.Wait(t, "near end", near.Done)
					must.Wait(t, "far end", far.Done)
					said := strings.Join(near.Report.Warnings, "\n")
					if near.Err != nil {
						said += near.Err.Error()
					}
					must.True(t, said != "", "nothing says that the run was cut short")
					must.True(t, how != "cancel" || strings.Contains(said, cause.Error()), "%q does not name the cause", said)
				})
			}
		}
	}
}

// TestPeerIsSilent has a peer that holds its connections and sends nothing.
func TestPeerIsSilent(t *testing.T) {
	e := bulk()
	f := brief(model.To)
	f.Lead = 0
	near, _ := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
	e.grace = 50 * time.Millisecond
	near.Start(t.Context())
	must.Wait(t, "near end", near.Done)
	must.Say(t, near.Err, "i/o timeout", "near end: error")
	_, far := enginetest.Prepare(t, bulk(), enginetest.NewWire(t), f)
	far.Test.(*test).engine = e
	far.Start(t.Context())
	must.Wait(t, "far end", far.Done)
	must.Say(t, far.Err, "no word of the near end", "far end: error")
}

func TestSilenceIsBlamedOnTheRightEnd(t *testing.T) {
	must.Contain(t, kind{loaded: series{sent: 3}}.silence(), "far end", "three probes without an answer")
	must.Contain(t, kind{}.silence(), "this end", "no probe sent")
}

func TestNothingLeaks(t *testing.T) {
	w := enginetest.NewWire(t)
	check := enginetest.Untouched(t)
	f := brief(model.Both)
	near, far := enginetest.Prepare(t, bulk(), w, f)
	enginetest.Succeed(t, near, far, f.Direction)
	must.Fail(t, must.Err(near.Run(t.Context(), near.Emit)), "a test ran twice")
	idle, other := enginetest.Prepare(t, bulk(), w, f) // never run
	for _, e := range []*enginetest.End{near, far, idle, other} {
		must.OK(t, e.Close())
	}
	check()
}
