package cli

import (
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
)

// Issue 10, item 7: the line that a grid's report ends with keeps what the report
// names, as it stands there.
func TestGridEndsWithALineThatKeepsIt(t *testing.T) {
	w := newWorld(t)
	all := reporttest.Cases()
	s := all[slices.IndexFunc(all, func(c reporttest.Case) bool { return c.Name == "grid" })].Session
	for i := range s.Plan.Settings {
		for j := range s.Plan.Settings[i].Assignments {
			a := &s.Plan.Settings[i].Assignments[j]
			if a.Host = model.Near; a.Knob == "link.mtu" {
				a.Knob, a.Value = "tcp.send_buffer_max", map[string]string{"1500": "1048576", "9000": "4194304"}[a.Value]
			}
		}
	}
	st := must.Get(openStoreAt(t.Context(), w.vars["LINERATE_DB"]))(t)
	must.Do(t, st.CreateSession(t.Context(), s))
	must.Do(t, st.UpdateSession(t.Context(), s))
	_ = st.Close()
	step := report.Build(s, report.Options{}).Next[0]
	must.Need(t, step.What == "keep recv_buffer_max=1MiB mtu=9000", "%+v", step)
	words := append(strings.Fields(strings.TrimPrefix(step.Command, "linerate ")), "--dry-run", "--for", "linux-sysctl", "--state", t.TempDir())
	code := w.main(t, words...)
	must.True(t, code == exitOK, "%q: exit code %d\n%s", words, code, w.err.String())
	for _, want := range []string{"recv_buffer_max=1MiB mtu=9000", "1048576", "4194304"} {
		must.Contain(t, w.out.String()+w.err.String(), want, "%q", words)
	}
}
