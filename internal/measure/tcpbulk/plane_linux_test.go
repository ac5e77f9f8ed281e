package tcpbulk

import (
	"runtime"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// everyPlane returns an engine for each way of waiting, by its name.
func everyPlane() map[string]*Engine {
	out := map[string]*Engine{}
	for name, p := range map[string]plane{"blocking": blocking{}, "epoll": epoll{}, "poller": poller{}} {
		e := New()
		e.planes = func(int) plane { return p }
		out[name] = e
	}
	return out
}

// checkSummary demands what every Linux since 5.4 tells.
func checkSummary(t testing.TB, r model.FlowReport) {
	t.Helper()
	s := r.TCP
	must.Need(t, s != nil, "no summary of the sender")
	for name, known := range map[string]bool{
		"congestion": s.Congestion.Or("") != "", "mss": s.MSS.Or(0) > 0, "mtu": s.PathMTU.Or(0) > 0,
		"segments": s.SegmentsOut.Or(0) > 0, "retransmits": s.Retransmits.IsKnown(), "busy": s.Busy.Or(0) > 0,
		"rwnd": s.RwndLimited.IsKnown(), "rtt": s.RTT.Or(0) > 0, "rtt min": s.RTTMin.Or(0) > 0,
		"cwnd": s.Cwnd.Or(0) > 0, "peer window": s.PeerWindow.IsKnown(), "send buffer": s.SendBuffer.Or(0) > 0,
	} {
		if !known {
			t.Errorf("summary lacks %s: %+v", name, *s)
		}
	}
}

// TestRuntimeStopsBlockedThreads collects garbage while threads wait in raw
// system calls, of which the runtime does not know: it must be able to stop
// them all the same.
func TestRuntimeStopsBlockedThreads(t *testing.T) {
	for _, name := range []string{"blocking", "epoll"} {
		t.Run(name, func(t *testing.T) {
			_, far := enginetest.Prepare(t, everyPlane()[name], enginetest.NewWire(t), long(4))
			far.Start(t.Context())
			far.AwaitSample(t, func(model.Sample) bool { return true })
			collected := make(chan struct{})
			go func() {
				defer close(collected)
				for range 10 {
					runtime.GC()
				}
			}()
			enginetest.Await(t, collected, "garbage collection")
		})
	}
}
