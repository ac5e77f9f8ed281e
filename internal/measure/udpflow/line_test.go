package udpflow

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// puppet is a receiver without an engine, which the test controls.
type puppet struct {
	line *net.TCPConn
	udp  *net.UDPConn
	key  key // the sender's

	spoke time.Time     // time of its last message, before that the start
	rest  time.Duration // the longest time without a message, since it may have been delayed
}

// againstPuppet prepares a sender of f at the near end, whose peer is a puppet.
func againstPuppet(t *testing.T, e *Engine, f model.Flow) (*enginetest.End, *puppet) {
	t.Helper()
	w := enginetest.NewWire(t)
	p := &puppet{}
	there := make(chan error, 1)
	go func() {
		var err error
		if p.line, err = w.Accept(t.Context(), engine.SocketOptions{}); err != nil {
			there <- err
			return
		}
		b := make([]byte, len(lineMagic)+keyLen)
		if _, err = p.line.Write(append([]byte(lineMagic), make([]byte, keyLen)...)); err == nil {
			_, err = io.ReadFull(p.line, b)
		}
		copy(p.key[:], b[len(lineMagic):])
		there <- err
	}()
	test := must.Get(e.Prepare(t.Context(), w.Env(model.Near), f))(t)
	must.Do(t, <-there)
	t.Cleanup(func() { _ = p.line.Close() })
	p.udp = must.Get(w.Env(model.Far).OpenUDP(t.Context(), 1))(t)[0]
	return enginetest.NewEnd(t, test), p
}

// repeatedly calls say until the end has ended.
func (p *puppet) repeatedly(end *enginetest.End, say func()) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		at := time.Now()
		say()
		p.rest = max(p.rest, time.Since(p.spoke))
		p.spoke = at
		select {
		case <-tick.C:
		case <-end.Done:
			p.rest = max(p.rest, time.Since(p.spoke))
			return
		}
	}
}

// byUDP returns a report as a datagram.
func byUDP(k key) []byte {
	var b [reportLen]byte
	header{kind: report}.put(b[:])
	copy(b[headerLen:], k[:])
	return b[:]
}

// A sender goes on as long as its receiver reports, and no longer: over the line, even if
// nothing arrives, or over UDP with the key of the line.
func TestReportsStop(t *testing.T) {
	for name, e := range everyWay() {
		for what, c := range map[string]struct {
			say  func(p *puppet, end *enginetest.End)
			want string // "" is to go on to the end
		}{
			"silence": {func(*puppet, *enginetest.End) {}, "did not report for 600ms"},
			"hung up": {func(p *puppet, _ *enginetest.End) { _ = p.line.Close() }, "hung up"},
			"nothing received": {func(p *puppet, end *enginetest.End) {
				p.repeatedly(end, func() { _, _ = p.line.Write(make([]byte, lineReport)) })
			}, ""},
			"by UDP": {func(p *puppet, end *enginetest.End) {
				p.repeatedly(end, func() { _, _ = p.udp.Write(byUDP(p.key)) })
			}, ""},
			"forged": {func(p *puppet, end *enginetest.End) {
				p.repeatedly(end, func() { _, _ = p.udp.Write(byUDP(key{1})) })
			}, "did not report for 600ms"},
			"no socket any more": {func(p *puppet, end *enginetest.End) {
				_ = p.udp.Close()
				p.repeatedly(end, func() { _, _ = p.line.Write(make([]byte, lineReport)) })
			}, "there is no listener"},
			"another socket": {func(p *puppet, end *enginetest.End) {
				b := byUDP(p.key)
				b[3] = 1
				p.repeatedly(end, func() { _, _ = p.udp.Write(b) })
			}, "did not report for 600ms"},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				mine := *e
				mine.bounds.reports, mine.bounds.tail, mine.bounds.grace = 600*time.Millisecond, 0, time.Millisecond
				if c.want != "" && !strings.Contains(c.want, "report") {
					mine.bounds.reports = enginetest.Soon
				}
				f := model.Flow{Direction: model.To, Duration: time.Hour, Interval: time.Second, Params: traffic.Write(udp.Params{Rate: 1e6})}
				if c.want == "" {
					f.Duration = 1500 * time.Millisecond
				}
				near, p := againstPuppet(t, &mine, f)
				began := time.Now()
				p.spoke = began
				near.Start(t.Context())
				said := make(chan struct{})
				go func() { defer close(said); c.say(p, near) }()
				must.Wait(t, "sender", near.Done)
				must.Wait(t, "receiver", said)
				if c.want == "" {
					if early := warned(near, "did not report"); near.Err != nil || early && p.rest <= mine.bounds.reports || !early && (near.Flow(t, model.To).UDP.Sent == 0 || time.Since(began) < f.Duration) {
						t.Errorf("error %v, warnings %q after %v, %v without a word", near.Err, near.Report.Warnings, time.Since(began), p.rest)
					}
					return
				}
				must.True(t, near.Err == nil && warned(near, c.want), "error %v, warnings %q, want %q", near.Err, near.Report.Warnings, c.want)
			})
		}
	}
}

// TestHeaderBytes checks the bytes of docs/wire/udpflow.md.
func TestHeaderBytes(t *testing.T) {
	var b [endLen]byte
	header{kind: ending, stream: 0x0102, seq: 0x030405060708, sent: 0x090a0b0c0d0e}.put(b[:])
	counts{first: 0x11, behind: 0x22, early: true}.put(b[:])
	must.Equal(t, hex.EncodeToString(b[:]), "4c120102030405060708090a0b0c0d0e"+"0000000000000011"+"0000000000000022"+"00000001")
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := header{
			kind: kind(rapid.IntRange(0, int(kinds)-1).Draw(t, "kind")), stream: rapid.Uint16().Draw(t, "stream"),
			seq:  rapid.Int64Range(0, maxSequence).Draw(t, "seq"),
			sent: time.Duration(rapid.Int64Range(0, maxSequence).Draw(t, "sent")),
		}
		c := counts{
			first: rapid.Int64Range(0, h.seq).Draw(t, "first"), early: rapid.Bool().Draw(t, "early"),
		}
		c.behind = rapid.Int64Range(c.first, h.seq).Draw(t, "behind")
		var b [endLen]byte
		h.put(b[:])
		c.put(b[:])
		got, ok := parseHeader(b[:])
		must.Need(t, ok && got == h, "got %+v, %t, want %+v", got, ok, h)
		must.Equal(t, must.Get(parseEnd(h, b[:]))(t), c)
	})
}

func FuzzParse(f *testing.F) {
	var b [endLen]byte
	for k := range kinds {
		header{kind: k, stream: 1, seq: 1000, sent: time.Second}.put(b[:])
		counts{first: 10, behind: 1000}.put(b[:])
		f.Add(b[:])
		f.Add(b[:headerLen])
	}
	f.Add(b[:headerLen-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		h, ok := parseHeader(in)
		if !ok {
			return
		}
		var out [endLen]byte
		h.put(out[:])
		must.Need(t, bytes.Equal(out[:headerLen], in[:headerLen]), "% x becomes % x", in[:headerLen], out[:headerLen])
		c, err := parseEnd(h, in)
		if err != nil {
			return
		}
		must.Need(t, c.first >= 0 && c.first <= c.behind && c.behind <= h.seq, "%+v with %+v", c, h)
	})
}

func warned(e *enginetest.End, what string) bool {
	return strings.Contains(strings.Join(e.Report.Warnings, "\n"), what)
}

// long returns a flow that does not end by itself.
func long() model.Flow {
	return model.Flow{
		Direction: model.To, Streams: 2, Duration: time.Hour, Interval: engine.MinInterval,
		Params: traffic.Write(udp.Params{Rate: 20e6}),
	}
}

func TestReceiverVanishes(t *testing.T) {
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), long())
	near.Start(t.Context())
	far.Start(t.Context())
	far.AwaitTraffic(t)
	must.Do(t, far.Close())
	must.Wait(t, "sender", near.Done)
	must.True(t, near.Err == nil && (warned(near, "there is no listener") || warned(near, "hung up")), "error %v, warnings %q", near.Err, near.Report.Warnings)
	must.True(t, near.Flow(t, model.To).UDP.Sent != 0, "what had been sent is not reported")
}

func TestSenderEndsEarly(t *testing.T) {
	for name, e := range everyWay() {
		t.Run(name, func(t *testing.T) {
			near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), long())
			near.Start(t.Context())
			far.Start(t.Context())
			far.AwaitTraffic(t)
			must.Do(t, near.Close())
			must.Wait(t, "receiver", far.Done)
			must.Wait(t, "measured", far.Measured())
			must.Wait(t, "sender", near.Done)
			must.True(t, far.Err == nil && warned(far, "the peer ended it"), "error %v, warnings %q", far.Err, far.Report.Warnings)
			checkBooks(t, near.Flow(t, model.To), far.Flow(t, model.To))
		})
	}
}

func TestSenderVanishes(t *testing.T) {
	under := make(chan struct{})
	r := &relay{mute: true, fate: func(i int) (int, int) {
		if i == 1 {
			close(under)
		}
		if i < 200 {
			return 1, 0
		}
		return 0, 0
	}}
	w := enginetest.NewWire(t)
	w.RelayUDP = r.between(t)
	e := New()
	e.bounds.silence = 200 * time.Millisecond
	near, far := enginetest.Prepare(t, e, w, long())
	near.Start(t.Context())
	must.Wait(t, "datagram under way", under)
	far.Start(t.Context())
	must.Wait(t, "receiver", far.Done)
	must.True(t, far.Err == nil && warned(far, "nothing came for 200ms"), "error %v, warnings %q", far.Err, far.Report.Warnings)
	must.True(t, far.Flow(t, model.To).UDP.Received != 0, "what had been received is not reported")
}

// TestNothingComes has a path that carries nothing at all.
func TestNothingComes(t *testing.T) {
	r := &relay{mute: true, fate: func(int) (int, int) { return 0, 0 }}
	w := enginetest.NewWire(t)
	w.RelayUDP = r.between(t)
	e := New()
	e.bounds.linger, e.bounds.grace = 50*time.Millisecond, 500*time.Millisecond
	near, far := enginetest.Prepare(t, e, w, timed(model.To))
	near.Start(t.Context())
	far.Start(t.Context())
	must.Wait(t, "receiver", far.Done)
	must.Say(t, far.Err, "no datagram came")
	must.Wait(t, "sender", near.Done) // it is not stopped
	must.True(t, near.Err == nil && warned(near, "neither answered nor stopped"), "error %v, warnings %q", near.Err, near.Report.Warnings)
}

func TestBytesCutShort(t *testing.T) {
	f := long()
	f.Duration, f.Bytes = 0, 1<<50
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
	near.Start(t.Context())
	far.Start(t.Context())
	far.AwaitTraffic(t)
	near.Stop()
	must.Wait(t, "sender", near.Done)
	must.Wait(t, "receiver", far.Done)
	for _, e := range []*enginetest.End{near, far} {
		must.True(t, e.Err == nil && warned(e, "of 1125899906842624 bytes"), "error %v, warnings %q", e.Err, e.Report.Warnings)
	}
	checkBooks(t, near.Flow(t, model.To), far.Flow(t, model.To))
}

// TestCancel cancels one end before the other has started.
func TestCancel(t *testing.T) {
	cause := errors.New("user pressed ^C")
	for name, e := range everyWay() {
		for _, d := range []model.Direction{model.To, model.From} {
			t.Run(name+"/"+string(d), func(t *testing.T) {
				f := long()
				f.Direction = d
				near, _ := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
				ctx, cancel := context.WithCancelCause(t.Context())
				near.Start(ctx)
				if d == model.To {
					near.AwaitTraffic(t)
				}
				cancel(cause)
				must.Wait(t, "run", near.Done)
				must.True(t, d != model.To || warned(near, cause.Error()), "warnings %q", near.Report.Warnings)
				must.True(t, d != model.From || near.Err != nil && strings.Contains(near.Err.Error(), cause.Error()), "error %v", near.Err)
			})
		}
	}
}

// TestAnyMoment stops and closes at random moments of short runs: everything ends, and nothing
// is left.
func TestAnyMoment(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	w := enginetest.NewWire(t)
	check := enginetest.Untouched(t)
	engines := everyWay()
	for i := range 24 {
		e := engines["native"]
		if i%4 == 0 {
			e = engines["portable"]
		}
		f := timed([]model.Direction{model.To, model.From, model.Both}[i%3])
		f.Duration, f.Omit = 30*time.Millisecond, 10*time.Millisecond
		near, far := enginetest.Prepare(t, e, w, f)
		acts := []func(){near.Stop, far.Stop, func() { near.Close() }, func() { far.Close() }}
		timers := make([]*time.Timer, 2)
		for k := range timers {
			timers[k] = time.AfterFunc(time.Duration(rng.IntN(60))*time.Millisecond, acts[rng.IntN(len(acts))])
		}
		near.Start(t.Context())
		far.Start(t.Context())
		for _, e := range []*enginetest.End{near, far} {
			select {
			case <-e.Measured():
			case <-e.Done: // closed before it ran
			case <-time.After(enginetest.Soon):
				t.Fatalf("still waiting after %v", enginetest.Soon)
			}
		}
		near.Stop()
		far.Stop()
		must.Wait(t, "near", near.Done)
		must.Wait(t, "far", far.Done)
		for _, timer := range timers {
			timer.Stop()
		}
		must.OK(t, errors.Join(near.Close(), far.Close()))
	}
	check()
}

func TestCloseBeforeRun(t *testing.T) {
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), long())
	for range 2 {
		must.Do(t, errors.Join(near.Close(), far.Close()))
	}
	must.Fail(t, must.Err(near.Run(t.Context(), near.Emit)), "ran after close")
}
