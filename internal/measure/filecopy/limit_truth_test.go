//go:build truth

package filecopy

import (
	"io"
	"net"
	"testing"
	"time"

	"linerate/internal/core/bottleneck"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// slowNetwork is the rate of TestPlantedNetwork's relay, bit/s.
const slowNetwork = 40e6

// throttle forwards what the near end sends at a fixed rate.
func throttle(t testing.TB, w *enginetest.Wire) {
	t.Helper()
	w.Relay(t, func(near, far *net.TCPConn) {
		go func() { _, _ = io.Copy(near, far) }()
		buf := make([]byte, 8<<10)
		due := time.Now()
		for {
			asked := time.Now()
			n, err := near.Read(buf)
			// After an idle time the schedule restarts. Lateness of this goroutine is made up
			// for, as on a real line.
			if now := time.Now(); now.Sub(asked) > time.Millisecond && due.Before(now) {
				due = now
			}
			due = due.Add(time.Duration(float64(n) * 8 / slowNetwork * 1e9))
			<-time.After(time.Until(due))
			if _, failed := far.Write(buf[:n]); err != nil || failed != nil {
				return
			}
		}
	})
}

// TestPlantedNetwork copies over a network much slower than the disk and the memory: the report
// names the network, and nothing else, as the limit.
func TestPlantedNetwork(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		got := bottleneck.Limits(measured(try))
		named := 0
		for _, l := range got {
			if l.Parts[0].Name != bottleneck.Network {
				try.Errorf("blamed %s: %+v", l.Parts[0].Name, l)
			} else if l.Verdict == bottleneck.OnePart || l.Verdict == bottleneck.SeveralOf {
				named++
			}
		}
		must.True(try, len(got) == 4 && named != 0, "the network is named %d times: %+v", named, got)
	})
}

// measured runs all settings of a copy session in blocks.
func measured(t testing.TB) bottleneck.Input {
	t.Helper()
	h := newHome(t)
	p := must.Get(bottleneck.Plan(bottleneck.PlanOptions{
		Source: h.folder, Sink: h.folder,
		Flow: model.Flow{Engine: Name, Direction: model.To, Bytes: 1 << 20, Interval: engine.MinInterval},
	}))(t)
	in := bottleneck.Input{Rates: map[string]bottleneck.Rates{}}
	for b, order := range p.Order {
		for _, name := range order {
			set, _ := p.Setting(name)
			c := files.Params{Mode: set.Assignments[0].Value, Source: set.Assignments[1].Value, Sink: set.Assignments[2].Value}
			f := p.Flow
			f.Params = traffic.Write(c)
			w := enginetest.NewWire(t)
			throttle(t, w)
			near, far := enginetest.Prepare(t, h.Engine, w, f)
			_ = enginetest.Conduct(t, near, far, model.To)
			must.Need(t, near.Err == nil && far.Err == nil, "%s: %v, %v", name, near.Err, far.Err)
			for _, e := range []*enginetest.End{near, far} {
				for _, r := range e.Report.Flows {
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
