package filecopy

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/files"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// TestStopAnyTime stops and closes runs at random moments: they end soon, and leave nothing
// behind.
func TestStopAnyTime(t *testing.T) {
	copies := []files.Params{
		{Sink: "FOLDER"}, {Source: "FOLDER", Sync: true, Sink: "FOLDER"}, {Mode: files.Network},
		{Mode: files.Read, Source: "FOLDER"}, {Mode: files.Write, Sink: "FOLDER"}, {Mode: files.Memory},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 24 {
		h := newHome(t)
		c := copies[i%len(copies)]
		c.Source, c.Sink = h.path(c.Source), h.path(c.Sink)
		f := flow(c)
		f.Bytes = 16 << 20
		a, b := enginetest.Prepare(t, h.Engine, enginetest.NewWire(t), f)
		ctx, cancel := context.WithCancel(t.Context())
		a.Start(ctx)
		b.Start(ctx)
		act := []func(){a.Stop, b.Stop, cancel, func() { _ = a.Close() }, func() { _ = b.Close() }}[rng.IntN(5)]
		timer := time.AfterFunc(time.Duration(rng.IntN(60))*time.Millisecond, act)
		must.Wait(t, "near", a.Done)
		must.Wait(t, "far", b.Done)
		timer.Stop()
		cancel()
		h.checkEmpty(t)
	}
}

// TestStopInTheMiddle: the part that arrived is reported, with a warning.
func TestStopInTheMiddle(t *testing.T) {
	h := newHome(t)
	p := script(t, h.Engine, flow(files.Params{Sink: h.folder}))
	p.begin(t, int64(odd))
	must.Get(p.Write(make([]byte, 2<<20)))(t)
	for p.moved() < 2<<20 {
		select {
		case <-p.Done:
			t.Fatal(p.Err)
		case <-time.After(time.Millisecond):
		}
	}
	p.Stop()
	m, err := readMessage(p.TCPConn, kindDone)
	must.Say(t, err, "stopped", "the sender is told %+v", m)
	p.TCPConn.Close()
	must.Wait(t, "receiver", p.Done)
	must.True(t, p.Err == nil && len(p.Report.Flows) == 1 && p.Report.Flows[0].Bytes >= 2<<20 && len(p.Report.Warnings) != 0, "%+v, %v", p.Report, p.Err)
	h.checkEmpty(t)
}

// TestStoppedAfterTheOtherFailed: a sender is stopped while it creates its source, before it
// has read the receiver's refusal. It reports the refusal, not "stopped".
func TestStoppedAfterTheOtherFailed(t *testing.T) {
	h := newHome(t)
	f := flow(files.Params{Mode: files.Network})
	f.Direction, f.Bytes = model.From, 512<<20
	p := script(t, h.Engine, f)
	p.hear(t, kindOffer)
	p.say(t, message{Kind: kindFail, Text: "no room for that"})
	p.Stop()
	p.TCPConn.Close()
	must.Wait(t, "sender", p.Done)
	must.Say(t, p.Err, "the other end: no room for that")
	h.checkEmpty(t)
}

// moved returns how many bytes the samples show.
func (p peer) moved() float64 {
	var n float64
	for _, s := range p.Samples() {
		if s.Metric == model.Goodput {
			n += s.Value * s.Length.Seconds() / 8
		}
	}
	return n + 1 // rounding
}

func TestCloseBeforeRun(t *testing.T) {
	a, b := enginetest.Prepare(t, newHome(t).Engine, enginetest.NewWire(t), flow(files.Params{}))
	for range 2 {
		must.Do(t, a.Close())
	}
	must.Fail(t, must.Err(a.Run(t.Context(), nil)), "a closed test ran")
	b.Start(t.Context())
	must.Wait(t, "far", b.Done)
	must.Fail(t, b.Err, "no error without a peer")
	must.Wait(t, "measured", b.Measured())
}

// TestStopIsNoError: the waiting end is stopped as soon as the other one has reported, often
// before it has heard so itself.
func TestStopIsNoError(t *testing.T) {
	for range 50 {
		h := newHome(t)
		f := flow(files.Params{Mode: files.Write, Sink: h.folder})
		f.Bytes = 5000
		a, b := enginetest.Prepare(t, h.Engine, enginetest.NewWire(t), f)
		_ = enginetest.Conduct(t, a, b, model.To)
		must.Need(t, a.Err == nil && b.Err == nil && len(a.Report.Warnings) == 0, "near %v %q, far %v", a.Err, a.Report.Warnings, b.Err)
	}
}

// relay calls change with the piece of the near end's data that holds byte number at.
func relay(t *testing.T, w *enginetest.Wire, at int, change func([]byte)) {
	t.Helper()
	w.Relay(t, func(near, far *net.TCPConn) {
		go func() { _, _ = io.Copy(near, far) }()
		buf := make([]byte, 16<<10)
		for seen := 0; ; {
			n, err := near.Read(buf)
			if seen <= at && at < seen+n {
				change(buf[at-seen : n])
			}
			seen += n
			if _, failed := far.Write(buf[:n]); err != nil || failed != nil {
				return
			}
		}
	})
}

func TestCorruptedInTransit(t *testing.T) {
	for name, c := range map[string]files.Params{"files": {}, "network": {Mode: files.Network}, "direct": {Sink: "disk", Direct: true}} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			w := enginetest.NewWire(t)
			relay(t, w, 1<<20, func(b []byte) { b[0] ^= 0x10 })
			a, b := enginetest.Prepare(t, h.Engine, w, flow(c))
			_ = enginetest.Conduct(t, a, b, model.To)
			must.Say(t, b.Err, "differs from what was sent", "far")
			must.Say(t, a.Err, "differs", "near")
			h.checkEmpty(t)
		})
	}
}

func TestSenderVanishes(t *testing.T) {
	h := newHome(t)
	p := script(t, h.Engine, flow(files.Params{Sink: h.folder}))
	p.begin(t, int64(odd))
	must.Get(p.Write(make([]byte, 1000)))(t)
	must.Do(t, p.CloseWrite())
	must.Wait(t, "receiver", p.Done)
	must.Say(t, p.Err, fmt.Sprintf("ended after 1000 of %d bytes", odd))
	h.checkEmpty(t)
}

func TestWrongOffer(t *testing.T) {
	h := newHome(t)
	for name, m := range map[string]message{
		"other size": {Kind: kindOffer, Bytes: 5}, "negative": {Kind: kindOffer, Bytes: -1}, "wrong kind": {Kind: kindDone},
	} {
		p := script(t, h.Engine, flow(files.Params{}))
		p.say(t, m)
		must.Do(t, p.CloseWrite())
		must.Wait(t, name, p.Done)
		must.Fail(t, p.Err, "%s: no error", name)
	}
}

// TestStall: the receiver gives up on a sender that sends nothing more.
func TestStall(t *testing.T) {
	h := newHome(t)
	h.stall = 2 * time.Second
	p := script(t, h.Engine, flow(files.Params{Sink: h.folder}))
	p.begin(t, int64(odd))
	must.Get(p.Write(make([]byte, 2<<20)))(t)
	must.Say(t, must.Err(readMessage(p.TCPConn, kindDone)), "no byte moved", "the sender is told")
	p.TCPConn.Close()
	must.Wait(t, "receiver", p.Done)
	must.True(t, p.Err == nil && len(p.Report.Flows) == 1 && strings.Contains(strings.Join(p.Report.Warnings, " "), "no byte moved"), "%+v, %v", p.Report, p.Err)
	h.checkEmpty(t)
}
