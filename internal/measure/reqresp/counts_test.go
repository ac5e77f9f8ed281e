package reqresp

import (
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// TestBothEndsCountWhatTheySend, whichever way they wait, and over connections that
// the session does not see.
func TestBothEndsCountWhatTheySend(t *testing.T) {
	for name, e := range everyPlane() {
		for _, connect := range []bool{false, true} {
			w := enginetest.NewWire(t)
			sent := map[model.Host]func() int64{}
			w.Change = func(h model.Host, e *engine.Env) {
				e.Counts = func(f func() int64) { sent[h] = f }
			}
			f := brief(model.To, 2)
			f.Block = 100
			f.Params = traffic.Write(requests.Params{Connect: connect, Reply: 5000})
			near, far := enginetest.Prepare(t, e, w, f)
			enginetest.Succeed(t, near, far, model.To)
			must.Need(t, sent[model.Near] != nil && sent[model.Far] != nil, "%s, connect %v: nobody counts", name, connect)
			asked, answered := sent[model.Near](), sent[model.Far]()
			window := near.Latency(t, model.To, "request").Sent // the others are warm-up
			if asked < window*100 || answered < window*5000 || answered > 51*asked {
				t.Errorf("%s, connect %v: %d requests in the window, %d bytes asked, %d answered", name, connect, window, asked, answered)
			}
		}
	}
}
