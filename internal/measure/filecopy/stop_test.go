package filecopy

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/files"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// TestStopAnyTime stops and closes runs at random moments: they end soon, and
// leave nothing behind.
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
		enginetest.Await(t, a.Done, "near")
		enginetest.Await(t, b.Done, "far")
		timer.Stop()
		cancel()
		h.checkEmpty(t)
	}
}

// TestStopInTheMiddle: what had come is reported, with a warning.
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
	enginetest.Await(t, p.Done, "receiver")
	must.True(t, p.Err == nil && len(p.Report.Flows) == 1 && p.Report.Flows[0].Bytes >= 2<<20 && len(p.Report.Warnings) != 0,
		"%+v, %v", p.Report, p.Err)
	h.checkEmpty(t)
}

// TestStoppedAfterTheOtherFailed: a sender that is stopped while it makes its source
// has not read yet that the receiver refused it. Why is told, and not "stopped".
func TestStoppedAfterTheOtherFailed(t *testing.T) {
	h := newHome(t)
	f := flow(files.Params{Mode: files.Network})
	f.Direction, f.Bytes = model.From, 512<<20
	p := script(t, h.Engine, f)
	p.hear(t, kindOffer)
	p.say(t, message{Kind: kindFail, Text: "no room for that"})
	p.Stop()
	p.TCPConn.Close()
	enginetest.Await(t, p.Done, "sender")
	must.Say(t, p.Err, "the other end: no room for that")
	h.checkEmpty(t)
}

// moved is how much the samples say that has come.
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
	h := newHome(t)
	a, b := enginetest.Prepare(t, h.Engine, enginetest.NewWire(t), flow(files.Params{}))
	for range 2 {
		must.Do(t, a.Close())
	}
	must.Fail(t, must.Err(a.Run(t.Context(), nil)), "a closed test ran")
	b.Start(t.Context())
	enginetest.Await(t, b.Done, "far")
	must.Fail(t, b.Err, "no error without a peer")
	enginetest.Await(t, b.Measured(), "measured")
}

// TestStopIsNoError: the end that waits is stopped as soon as the other one has
// reported, often before it has heard so itself.
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
