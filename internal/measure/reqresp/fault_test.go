package reqresp

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/measure/plane"
	"linerate/internal/must"
)

// long is a flow that ends only when something makes it.
func long(streams int) model.Flow {
	f := brief(model.To, streams)
	f.Omit, f.Duration, f.Interval = 0, time.Hour, engine.MinInterval
	return f
}

// answered says that requests were answered.
func answered(s model.Sample) bool {
	return (s.Metric == model.RequestRate || s.Metric == model.ConnectRate) && s.Value > 0
}

// variants are the flows that fail in ways of their own.
func variants() map[string]model.Flow {
	rate, connect := long(3), long(3)
	rate.Params = traffic.Write(requests.Params{Rate: 1000})
	connect.Params = traffic.Write(requests.Params{Connect: true})
	return map[string]model.Flow{"closed": long(3), "rate": rate, "connect": connect}
}

func TestPeerVanishes(t *testing.T) {
	for name, f := range variants() {
		for _, who := range []string{"asking", "answering"} {
			t.Run(name+"/"+who, func(t *testing.T) {
				near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
				far.Start(t.Context())
				near.Start(t.Context())
				near.AwaitSample(t, answered)
				victim, other := near, far
				if who == "answering" {
					victim, other = far, near
				}
				must.Do(t, victim.Close())
				enginetest.Await(t, other.Done, "the end that is left")
				enginetest.Await(t, other.Measured(), "measured")
				must.True(t, other.Err == nil && len(other.Report.Warnings) != 0,
					"error %v, warnings %q; want a warning", other.Err, other.Report.Warnings)
				must.True(t, other.Flow(t, model.To).Bytes != 0, "what had been done is not reported")
			})
		}
	}
}

func TestPeerVanishesBeforeTheRun(t *testing.T) {
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), long(1))
	must.Do(t, far.Close())
	near.Start(t.Context())
	enginetest.Await(t, near.Done, "asking end")
	must.Say(t, near.Err, "wait for the answering end")
	near, far = enginetest.Prepare(t, New(), enginetest.NewWire(t), long(1))
	must.Do(t, near.Close())
	far.Start(t.Context())
	enginetest.Await(t, far.Done, "answering end")
	must.Fail(t, far.Err, "an answering end without a question reports success")
}

// TestPeerIsSilent is about a peer that holds its connections and says nothing.
func TestPeerIsSilent(t *testing.T) {
	f := brief(model.To, 1)
	f.Omit, f.Duration = 0, 50*time.Millisecond
	prepared := func() (near, far *enginetest.End) {
		e := New()
		near, far = enginetest.Prepare(t, e, enginetest.NewWire(t), f)
		e.grace, e.patience = 50*time.Millisecond, 10*time.Millisecond
		return near, far
	}
	near, _ := prepared()
	near.Start(t.Context())
	enginetest.Await(t, near.Done, "asking end")
	must.Say(t, near.Err, "i/o timeout", "asking end: error")
	_, far := prepared()
	far.Start(t.Context())
	enginetest.Await(t, far.Done, "answering end")
	must.Say(t, far.Err, "no word of the asking end", "answering end: error")
}

func TestEndsAtAnyTime(t *testing.T) {
	cause := errors.New("user pressed ^C")
	for name, f := range variants() {
		for _, how := range []string{"stop", "close", "cancel", "stop before"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if how == "stop before" {
					near.Stop()
					near.Stop()
				}
				far.Start(ctx)
				near.Start(ctx)
				if how != "stop before" {
					near.AwaitSample(t, answered)
				}
				for _, e := range []*enginetest.End{near, far} {
					switch how {
					case "stop":
						e.Stop()
						enginetest.Await(t, e.Done, "stopped end")
					case "close":
						must.OK(t, e.Close())
					}
				}
				if how == "cancel" {
					cancel(cause)
				}
				enginetest.Await(t, near.Done, "asking end")
				enginetest.Await(t, far.Done, "answering end")
				said := strings.Join(near.Report.Warnings, "\n")
				if near.Err != nil {
					said += near.Err.Error()
				}
				must.True(t, said != "", "nothing says that the run was cut short")
				must.True(t, how != "cancel" || strings.Contains(said, cause.Error()), "%q does not name the cause", said)
				for _, l := range near.Report.Latencies {
					// Otherwise the far end may be the first to go.
					must.True(t, how != "stop" || l.Lost == 0, "%d of %d count as lost, though the run stopped before their time was up", l.Lost, l.Sent)
				}
			})
		}
	}
}

func TestRunOnce(t *testing.T) {
	f := brief(model.To, 1)
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
	enginetest.Succeed(t, near, far, f.Direction)
	must.Fail(t, must.Err(near.Run(t.Context(), near.Emit)), "a test ran twice")
}

func TestNothingLeaks(t *testing.T) {
	for _, connect := range []bool{false, true} {
		w := enginetest.NewWire(t)
		check := enginetest.Untouched(t)
		f := brief(model.Both, 4)
		f.Params = traffic.Write(requests.Params{Connect: connect})
		near, far := enginetest.Prepare(t, New(), w, f)
		enginetest.Succeed(t, near, far, f.Direction)
		idle, other := enginetest.Prepare(t, New(), w, f) // and never run
		for _, e := range []*enginetest.End{near, far, idle, other} {
			must.OK(t, e.Close())
		}
		check()
	}
}

// TestAnonymousAreNotAnswered knocks at the port for fresh connections.
func TestAnonymousAreNotAnswered(t *testing.T) {
	f := long(1)
	f.Params = traffic.Write(requests.Params{Connect: true})
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
	far.Start(t.Context())
	near.Start(t.Context())
	near.AwaitSample(t, answered)
	target := near.Test.(*test).asking.fresh.target
	for name, says := range map[string][]byte{
		"wrong cookie": append(make([]byte, cookieSize), windowByte),
		"random":       plane.Payload(cookieSize + 1 + rand.IntN(100)),
	} {
		c := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", target))(t)
		must.Get(c.Write(says))(t)
		must.Do(t, c.SetReadDeadline(time.Now().Add(enginetest.Soon)))
		got, err := io.ReadAll(c)
		must.True(t, len(got) == 0 && !errors.Is(err, os.ErrDeadlineExceeded), "%s: answered with %d bytes, %v", name, len(got), err)
		c.Close()
	}
	near.Stop()
	enginetest.Await(t, near.Done, "asking end")
	enginetest.Await(t, far.Done, "answering end")
	// What was on its way when the run was stopped may have arrived.
	asked, answered := near.Flow(t, model.To).Bytes, far.Flow(t, model.To).Bytes
	must.True(t, answered >= asked && answered <= asked+1, "%d requests, %d answered", asked, answered)
}

// TestFirewall closes the port for fresh connections before it is tried.
func TestFirewall(t *testing.T) {
	w := enginetest.NewWire(t)
	f := brief(model.To, 1)
	f.Params = traffic.Write(requests.Params{Connect: true})
	go func() {
		c, err := w.Accept(t.Context(), engine.SocketOptions{})
		if err != nil {
			return
		}
		// A port that nobody listens on any more.
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err == nil {
			l.Close()
			_, _ = c.Write(hello{port: uint16(l.Addr().(*net.TCPAddr).Port)}.encode())
		}
	}()
	_, err := New().Prepare(t.Context(), w.Env(model.Near), f)
	must.True(t, err != nil && strings.Contains(err.Error(), "firewall") && strings.Contains(err.Error(), "refused"), "error %v", err)
}
