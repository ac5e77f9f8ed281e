package loaded

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

func TestUnderLoad(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From, model.Both} {
		t.Run(string(d), func(t *testing.T) {
			f := brief(d)
			near, far := prepare(t, bulk(), newWire(t), f)
			session(t, near, far, d)
			of := d
			if d == model.Both {
				of = ""
			}
			// 300 ms without load and 400 ms under it, every 20 ms.
			for name, want := range map[string]int64{"idle udp": 15, "idle tcp": 15, "loaded udp": 20, "loaded tcp": 20} {
				l := near.latency(t, name)
				if l.Sent < want/3 || l.Sent > 3*want {
					t.Errorf("%s: %d probes, want about %d", name, l.Sent, want)
				}
				if got := int64(l.Times.Count()); got != l.Sent-l.Lost || got == 0 {
					t.Errorf("%s: %d answered of %d with %d lost", name, got, l.Sent, l.Lost)
				}
				if l.Direction != d {
					t.Errorf("%s: direction %q", name, l.Direction)
				}
			}
			for _, m := range []model.Metric{model.LatencyP50, model.LatencyP99, model.IdleP50, model.IdleP99} {
				if v := near.value(t, of, m); v <= 0 || v > time.Second {
					t.Errorf("%s is %v on the loopback", m, v)
				}
			}
			for _, part := range d.Parts() {
				for _, e := range []struct {
					*end
					host model.Host
				}{{near, model.Near}, {far, model.Far}} {
					checkFlow(t, e.end, e.host, part)
				}
			}
			if len(near.report.Latencies) != 4 || len(far.report.Latencies) != 0 {
				t.Errorf("%d and %d latencies", len(near.report.Latencies), len(far.report.Latencies))
			}
			if len(near.report.Warnings)+len(far.report.Warnings) > 0 {
				t.Logf("warnings %q %q", near.report.Warnings, far.report.Warnings)
			}
		})
	}
}

// checkFlow holds what the load reports of direction d.
func checkFlow(t *testing.T, e *end, h model.Host, d model.Direction) {
	t.Helper()
	role := model.Sender
	if d.Receiver() == h {
		role = model.Receiver
	}
	for _, f := range e.report.Flows {
		if f.Direction == d && f.Role == role {
			if f.Bytes == 0 || f.Window <= 0 {
				t.Errorf("%s %s: %d bytes in %v", d, role, f.Bytes, f.Window)
			}
			if role == model.Receiver && f.Window < 400*time.Millisecond {
				t.Errorf("%s: measured %v", d, f.Window)
			}
			return
		}
	}
	t.Errorf("%s reports no %s of %s", h, role, d)
}

func TestSamples(t *testing.T) {
	f := brief(model.From)
	near, far := prepare(t, bulk(), newWire(t), f)
	session(t, near, far, f.Direction)
	seen := map[model.Metric]int{}
	for _, s := range near.taken() {
		loaded := s.Metric == model.LatencyP50 || s.Metric == model.Goodput
		if before := s.Start < f.Loaded.Idle; loaded == before && s.Metric != model.CPU && s.Metric != model.LatencyP99 && s.Metric != model.IdleP99 {
			t.Errorf("%s at %v, the load begins at %v", s.Metric, s.Start, f.Loaded.Idle)
		}
		if !s.Omitted {
			seen[s.Metric]++
		}
	}
	for _, m := range []model.Metric{model.IdleP50, model.IdleP99, model.LatencyP50, model.LatencyP99, model.Goodput, model.CPU} {
		if seen[m] == 0 {
			t.Errorf("no sample of %s: %v", m, seen)
		}
	}
}

func TestBytesAndNoIdle(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From} {
		f := brief(d)
		f.Loaded, f.Omit, f.Duration = nil, 0, 0
		f.Bytes = 256 << 20
		near, far := prepare(t, bulk(), newWire(t), f)
		session(t, near, far, d)
		for _, l := range near.report.Latencies {
			if strings.HasPrefix(l.Name, "idle") {
				t.Errorf("%d probes without load, which nobody asked for", l.Sent)
			}
		}
		if near.latency(t, "loaded udp").Times.Count() == 0 {
			t.Errorf("%s: nothing was probed", d)
		}
	}
}

func TestWithoutUDP(t *testing.T) {
	for name, set := range map[string]func(*wire){
		"no UDP":       func(w *wire) { w.noUDP = true },
		"cannot open ": func(w *wire) { w.halfUDP = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			set(w)
			e := bulk()
			e.grace = time.Second
			f := brief(model.To)
			near, far := prepare(t, e, w, f)
			session(t, near, far, f.Direction)
			if len(near.report.Latencies) != 2 || near.latency(t, "loaded tcp").Times.Count() == 0 {
				t.Errorf("latencies %+v", near.report.Latencies)
			}
			for _, e := range []*end{near, far} {
				if all := strings.Join(e.report.Warnings, "\n"); !strings.Contains(all, "probed by TCP alone") && !strings.Contains(all, "TCP alone") {
					t.Errorf("warnings %q", e.report.Warnings)
				}
			}
			if v := near.value(t, model.To, model.LatencyP50); v <= 0 {
				t.Errorf("p50 %v", v)
			}
		})
	}
}

// TestUDPThatIsSwallowed closes the far end's socket behind its back.
func TestUDPThatIsSwallowed(t *testing.T) {
	f := brief(model.To)
	near, far := prepare(t, bulk(), newWire(t), f)
	far.Test.(*test).udp.Close()
	session(t, near, far, f.Direction)
	l := near.latency(t, "loaded udp")
	if l.Lost != l.Sent || l.Sent == 0 {
		t.Errorf("%d lost of %d", l.Lost, l.Sent)
	}
	if v := near.value(t, model.To, model.LatencyP50); v <= 0 {
		t.Errorf("p50 %v", v)
	}
	if all := strings.Join(near.report.Warnings, "\n"); !strings.Contains(all, "most UDP probes were not answered") {
		t.Errorf("warnings %q", near.report.Warnings)
	}
}

func TestPace(t *testing.T) {
	for _, c := range []struct {
		link fact.Of[units.BitRate]
		want time.Duration
	}{
		{fact.Unknown[units.BitRate]("virtual"), leastPace},
		{linkOf(1e9), leastPace},
		{linkOf(10e6), 24880 * time.Microsecond},
		{linkOf(64e3), mostPace},
	} {
		if got := pace(c.link); got != c.want {
			t.Errorf("link %v: a probe each %v, want %v", c.link, got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	e := bulk()
	if err := e.Validate(brief(model.Both)); err != nil {
		t.Error(err)
	}
	bad := brief("up")
	bad.Engine, bad.Interval, bad.Loaded = "x", 1, &model.Loaded{Idle: time.Hour}
	err := e.Validate(bad)
	for _, want := range []string{"engine", "direction", "interval", "idle"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	bad = brief(model.To)
	bad.Loaded = &model.Loaded{Engine: "loaded"}
	if err := e.Validate(bad); err == nil || !strings.Contains(err.Error(), "tcpbulk") {
		t.Errorf("an unknown load: %v", err)
	}
}

// awaitMetric returns when e has emitted a sample of m.
func awaitMetric(t *testing.T, e *end, m model.Metric) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	limit := time.After(soon)
	for {
		for _, s := range e.taken() {
			if s.Metric == m && s.Value > 0 {
				return
			}
		}
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("no sample of %s within %v", m, soon)
		}
	}
}

// TestEndsAtAnyTime ends a run in each of its phases in each way, at one end or
// at both; what is left must end too.
func TestEndsAtAnyTime(t *testing.T) {
	cause := errors.New("user pressed ^C")
	for _, d := range []model.Direction{model.To, model.From, model.Both} {
		for phase, metric := range map[string]model.Metric{"idle": model.IdleP50, "loaded": model.LatencyP50, "before": ""} {
			for _, how := range []string{"stop both", "close near", "close far", "cancel"} {
				t.Run(string(d)+"/"+phase+"/"+how, func(t *testing.T) {
					f := brief(d)
					f.Omit, f.Duration = 0, time.Hour
					f.Interval = 20 * time.Millisecond
					f.Loaded = &model.Loaded{Idle: 40 * time.Millisecond}
					if phase == "idle" {
						f.Loaded.Idle = maxIdle
					}
					near, far := prepare(t, bulk(), newWire(t), f)
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					if phase != "before" {
						far.run(ctx)
						near.run(ctx)
						awaitMetric(t, near, metric)
					}
					begun := time.Now()
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
						far.run(ctx)
						near.run(ctx)
					}
					await(t, near.done, "near end")
					await(t, far.done, "far end")
					if d := time.Since(begun); d > 4*time.Second {
						t.Errorf("took %v to end", d)
					}
					said := strings.Join(near.report.Warnings, "\n")
					if near.err != nil {
						said += near.err.Error()
					}
					if said == "" {
						t.Error("nothing says that the run was cut short")
					}
					if how == "cancel" && !strings.Contains(said, cause.Error()) {
						t.Errorf("%q does not name the cause", said)
					}
				})
			}
		}
	}
}

// TestPeerIsSilent is about a peer that holds its connections and says nothing.
func TestPeerIsSilent(t *testing.T) {
	e := bulk()
	f := brief(model.To)
	f.Loaded = nil
	near, _ := prepare(t, e, newWire(t), f)
	e.grace = 50 * time.Millisecond
	near.run(t.Context())
	await(t, near.done, "near end")
	if near.err == nil || !strings.Contains(near.err.Error(), "i/o timeout") {
		t.Errorf("near end: error %v", near.err)
	}
	_, far := prepare(t, bulk(), newWire(t), f)
	far.Test.(*test).engine = e
	far.run(t.Context())
	await(t, far.done, "far end")
	if far.err == nil || !strings.Contains(far.err.Error(), "no word of the near end") {
		t.Errorf("far end: error %v", far.err)
	}
}

// openFiles returns how many descriptors this process has; 0 where that is not
// to be known.
func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestNothingLeaks(t *testing.T) {
	w := newWire(t)
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	f := brief(model.Both)
	near, far := prepare(t, bulk(), w, f)
	session(t, near, far, f.Direction)
	if _, err := near.Run(t.Context(), near.emit); err == nil {
		t.Error("a test ran twice")
	}
	idle, other := prepare(t, bulk(), w, f) // and never run
	for _, e := range []*end{near, far, idle, other} {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for limit := time.After(soon); runtime.NumGoroutine() > goroutines || openFiles(t) > files; {
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("%d goroutines and %d files, %d and %d before", runtime.NumGoroutine(), openFiles(t), goroutines, files)
		}
	}
}
