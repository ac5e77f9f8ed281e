package report_test

import (
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
)

// TestRemedies: a finding
// says which host and which setting, and what helps where no setting does.
func TestRemedies(t *testing.T) {
	var said []string
	for _, c := range reporttest.Cases() {
		if c.Name != "test" {
			continue
		}
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		for _, f := range d.Findings {
			said = append(said, f.Remedies()...)
		}
		if lead, ok := d.Lead(); !ok || !strings.HasPrefix(lead.Command, "linerate run ") {
			t.Errorf("lead %+v", lead)
		}
		d.Next = d.Next[len(d.Next)-1:]
		if lead, ok := d.Lead(); ok {
			t.Errorf("%+v leads on", lead)
		}
	}
	for _, want := range []string{"could help: tcp.recv_buffer_max on desk", "what helps: the queue is in a device on the way: shape a little below its rate"} {
		if !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("%q is not in %q", want, said)
		}
	}
	soft := report.Finding{NoKnob: "a faster link", Knobs: []model.KnobID{"window"}, Host: "nas"}
	if got := soft.Remedies(); len(got) != 2 || got[1] != "settings that may soften it: window on nas" {
		t.Errorf("%q", got)
	}
}
