//go:build !linux && !freebsd

package tcpbulk

import (
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// everyPlane returns an engine for each way of waiting, by its name.
func everyPlane() map[string]*Engine { return map[string]*Engine{"poller": New()} }

// checkSummary checks that unknown values have a reason.
func checkSummary(t testing.TB, r model.FlowReport) {
	t.Helper()
	must.Need(t, r.TCP != nil, "no summary of the sender")
	f := r.TCP.PathMTU
	must.True(t, f.IsKnown() || f.Reason() != "", "path MTU is unknown without a reason")
}
