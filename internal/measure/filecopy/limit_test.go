package filecopy

import (
	"io"
	"net"
	"testing"
	"time"

	"linerate/internal/core/bottleneck"
	"linerate/internal/core/model"
)

// slowNetwork is what the relay of TestPlantedNetwork passes on, bit/s.
const slowNetwork = 80e6

// throttle passes one connection on to address, the dialer's bytes at a fixed
// rate.
func throttle(t *testing.T, address string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return
		}
		defer out.Close()
		go func() { _, _ = io.Copy(in, out) }()
		buf := make([]byte, 8<<10)
		due := time.Now()
		for {
			n, err := in.Read(buf)
			// Being late by a timer's slack is made up for, a pause is not.
			if earliest := time.Now().Add(-20 * time.Millisecond); due.Before(earliest) {
				due = earliest
			}
			due = due.Add(time.Duration(float64(n) * 8 / slowNetwork * 1e9))
			<-time.After(time.Until(due))
			if _, failed := out.Write(buf[:n]); err != nil || failed != nil {
				return
			}
		}
	}()
	return l.Addr().String()
}

// TestPlantedNetwork copies over a network that is much slower than the disk
// and the memory. Nothing else may ever be named as what limits, also where
// other work on the machine makes the runs vary; and on the way to three tries
// the network is named.
func TestPlantedNetwork(t *testing.T) {
	for range 3 {
		got := bottleneck.Limits(measured(t))
		named := 0
		for _, l := range got {
			switch {
			case l.Parts[0].Name != bottleneck.Network:
				t.Errorf("blamed %s: %+v", l.Parts[0].Name, l)
			case l.Verdict == bottleneck.OnePart, l.Verdict == bottleneck.SeveralOf:
				named++
			case l.Verdict != bottleneck.CannotTell:
				t.Logf("%s: %+v", l.Verdict, l)
			}
		}
		if len(got) == 4 && named > 0 {
			return
		}
	}
	t.Error("the network was never named")
}

// measured runs all settings of a copy session in blocks.
func measured(t *testing.T) bottleneck.Input {
	t.Helper()
	h := newHome(t)
	p, err := bottleneck.Plan(bottleneck.PlanOptions{
		Source: h.folder, Sink: h.folder,
		Flow: model.Flow{Engine: Name, Direction: model.To, Bytes: 1 << 20, Interval: minInterval},
	})
	if err != nil {
		t.Fatal(err)
	}
	in := bottleneck.Input{Rates: map[string]bottleneck.Rates{}}
	for b, order := range p.Order {
		for _, name := range order {
			set, _ := p.Setting(name)
			c := &model.Copy{Mode: set.Assignments[0].Value, Source: set.Assignments[1].Value, Sink: set.Assignments[2].Value}
			f := p.Flow
			f.Copy = c
			w := newWire(t)
			w.to = throttle(t, w.to)
			near, far := prepare(t, h.Engine, h.Engine, w, f)
			conduct(t, near, far, model.To)
			if near.err != nil || far.err != nil {
				t.Fatalf("%s: %v, %v", name, near.err, far.err)
			}
			for _, e := range []*end{near, far} {
				for _, r := range e.report.Flows {
					if r.Role != model.Receiver {
						continue
					}
					if in.Rates[name] == nil {
						in.Rates[name] = bottleneck.Rates{}
					}
					in.Rates[name][b] = float64(r.Bytes) * 8 / r.Window.Seconds()
				}
			}
		}
	}
	return in
}
