package tcpbulk

import (
	"runtime"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// everyPlane returns an engine for each way of waiting that this machine has cores for, by its
// name.
func everyPlane() map[string]*Engine {
	out, planes := map[string]*Engine{}, map[string]mover{"poller": poller{}}
	if runtime.NumCPU() > 1 {
		planes["blocking"] = blocking{}
	}
	for name, p := range planes {
		e := New()
		e.planes = func(int) mover { return p }
		out[name] = e
	}
	return out
}

// checkSummary checks the statistics that FreeBSD 12.1 and later report, and a reason for the
// rest.
func checkSummary(t testing.TB, r model.FlowReport) {
	t.Helper()
	s := r.TCP
	must.Need(t, s != nil, "no summary of the sender")
	must.True(t, s.Congestion.Or("") != "" && s.MSS.Or(0) > 0 && s.RTT.Or(0) > 0, "summary of the sender: %+v", s)
	f := s.PathMTU
	must.True(t, !f.IsKnown() && f.Reason() != "", "path MTU: %v", f)
}
