package filecopy

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
)

// TestStopAnyTime stops and closes runs at random moments: they end soon, and
// leave nothing behind.
func TestStopAnyTime(t *testing.T) {
	copies := []model.Copy{
		{Sink: "FOLDER"}, {Source: "FOLDER", Sync: true, Sink: "FOLDER"}, {Mode: model.CopyNetwork},
		{Mode: model.CopyRead, Source: "FOLDER"}, {Mode: model.CopyWrite, Sink: "FOLDER"}, {Mode: model.CopyMemory},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 24 {
		h := newHome(t)
		c := copies[i%len(copies)]
		c.Source, c.Sink = h.path(c.Source), h.path(c.Sink)
		f := flow(c)
		f.Bytes = 16 << 20
		a, b := prepare(t, h.Engine, h.Engine, newWire(t), f)
		ctx, cancel := context.WithCancel(t.Context())
		a.run(ctx)
		b.run(ctx)
		act := []func(){a.Stop, b.Stop, cancel, func() { _ = a.Close() }, func() { _ = b.Close() }}[rng.IntN(5)]
		timer := time.AfterFunc(time.Duration(rng.IntN(60))*time.Millisecond, act)
		await(t, a.done, "near")
		await(t, b.done, "far")
		timer.Stop()
		cancel()
		h.checkEmpty(t)
	}
}

// TestStopInTheMiddle: what had come is reported, with a warning.
func TestStopInTheMiddle(t *testing.T) {
	h := newHome(t)
	p := script(t, h.Engine, flow(model.Copy{Sink: h.folder}))
	p.begin(t, int64(odd))
	if _, err := p.Write(make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	for p.moved() < 2<<20 {
		select {
		case <-p.done:
			t.Fatal(p.err)
		case <-time.After(time.Millisecond):
		}
	}
	p.Stop()
	m, err := readMessage(p.TCPConn, kindDone)
	if err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("the sender is told %+v, %v", m, err)
	}
	p.TCPConn.Close()
	await(t, p.done, "receiver")
	if p.err != nil || len(p.report.Flows) != 1 || p.report.Flows[0].Bytes < 2<<20 || len(p.report.Warnings) == 0 {
		t.Errorf("%+v, %v", p.report, p.err)
	}
	h.checkEmpty(t)
}

// moved is how much the samples say that has come.
func (e *end) moved() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	var n float64
	for _, s := range e.samples {
		if s.Metric == model.Goodput {
			n += s.Value * s.Length.Seconds() / 8
		}
	}
	return n + 1 // rounding
}

func TestCloseBeforeRun(t *testing.T) {
	h := newHome(t)
	a, b := prepare(t, h.Engine, h.Engine, newWire(t), flow(model.Copy{}))
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Run(t.Context(), nil); err == nil {
		t.Error("a closed test ran")
	}
	b.run(t.Context())
	await(t, b.done, "far")
	if b.err == nil {
		t.Error("no error without a peer")
	}
	await(t, b.Measured(), "measured")
}

// TestStopIsNoError: the end that waits is stopped as soon as the other one has
// reported, often before it has heard so itself.
func TestStopIsNoError(t *testing.T) {
	for range 50 {
		h := newHome(t)
		f := flow(model.Copy{Mode: model.CopyWrite, Sink: h.folder})
		f.Bytes = 5000
		a, b := prepare(t, h.Engine, h.Engine, newWire(t), f)
		conduct(t, a, b, model.To)
		if a.err != nil || b.err != nil || len(a.report.Warnings) > 0 {
			t.Fatalf("near %v %q, far %v", a.err, a.report.Warnings, b.err)
		}
	}
}
