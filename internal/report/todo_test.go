package report_test

import (
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
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
		lead, ok := d.Lead()
		must.True(t, ok && strings.HasPrefix(lead.Command, "linerate run "), "lead %+v", lead)
		d.Next = d.Next[len(d.Next)-1:]
		if lead, ok := d.Lead(); ok {
			t.Errorf("%+v leads on", lead)
		}
	}
	for _, want := range []string{"could help: tcp.recv_buffer_max on desk", "what helps: the queue is in a device on the way: shape a little below its rate"} {
		must.True(t, strings.Contains(strings.Join(said, "\n"), want), "%q is not in %q", want, said)
	}
	soft := report.Finding{NoKnob: "a faster link", Knobs: []model.KnobID{"window"}, Host: "nas"}
	got := soft.Remedies()
	must.True(t, len(got) == 2 && got[1] == "settings that may soften it: window on nas", "%q", got)
}

// TestExtensionGivesDataToo: a command that adds blocks to a session with a budget of data
// gives it as much as they take, where the budget would not last.
func TestExtensionGivesDataToo(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name != "guarded" {
			continue
		}
		for i := range c.Session.Runs { // 27 runs in 9 blocks
			c.Session.Runs[i].Ends = []model.EndReport{{Host: model.Far, Flows: []model.FlowReport{{Direction: model.To, Bytes: 1e9}}}}
		}
		for data, want := range map[units.Bytes]string{0: "--max-blocks 20", 30e9: "--max-blocks 20 --data 66.1GB", 90e9: "--max-blocks 20"} {
			c.Session.Plan.Data = data
			d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
			got := d.Next[0].Command
			must.True(t, strings.HasSuffix(got, want), "budget %s: %q, want %q", data, got, want)
		}
	}
}

// TestShareAboveTheCeiling: a run of a second may read what had come before it; the text
// says no more than the measurement resolves, and the data keep the number.
func TestShareAboveTheCeiling(t *testing.T) {
	for share, want := range map[float64]string{0.993: "99.3 %", 0.9996: "100 %", 1: "100 %", 1.0004: "100 %", 1.009: "about 100 %", 1.029: "about 100 %"} {
		for _, write := range []func(float64) string{report.Percent, units.FormatShare} {
			must.Equal(t, report.OfCeiling(share, write), want, "%g", share)
		}
	}
	c := reporttest.Cases()[0]
	for i, v := range c.Session.Runs[0].Values {
		if v.Metric == model.Goodput {
			c.Session.Runs[0].Values[i].Value = 950e6 // of 941.5
		}
	}
	d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
	must.Equal(t, report.LineRows(d)[0].Ceiling, "about 100 % of 941.5 Mbit/s")
	share, _ := d.Lines[0].Share.Get()
	must.True(t, !(share < 1.008) && !(share > 1.01), "the share in the data is %v", share)
}

// TestRefutedCeilingIsSaidOnce: that more was measured than should be possible is a finding,
// or else a warning, and not both.
func TestRefutedCeilingIsSaidOnce(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name != "uneven" {
			continue
		}
		const said = "the rate of the link is not what it is said to be"
		build := func() report.Document {
			return report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		}
		warned := build().Warnings
		must.Need(t, len(warned) == 1 && strings.Contains(warned[0], said), "warnings %q", warned)
		_, evidence, _ := strings.Cut(warned[0], ": ")
		c.Session.Findings = []model.Finding{{Rule: "B32", Kind: model.FindingNotFound, Direction: model.To, Limit: "rate of the link", Evidence: evidence}}
		d := build()
		must.True(t, len(d.Warnings) == 0 && len(d.Findings) == 1 && strings.Contains(d.Findings[0].Text, said), "warnings %q, findings %+v", d.Warnings, d.Findings)
	}
}

// TestUnmeasuredDirectionIsTold: a report of one direction says why the other is not there.
func TestUnmeasuredDirectionIsTold(t *testing.T) {
	c := reporttest.Cases()[0]
	for i := range c.Session.Runs {
		if r := &c.Session.Runs[i]; r.Flow.Direction == model.From {
			r.State, r.Reason = model.RunInvalid, "contact lost"
		}
	}
	d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
	want := "from nas: never measured: contact lost"
	must.True(t, len(d.Lines) == 1 && len(d.Warnings) == 1 && d.Warnings[0] == want, "%d lines, warnings %q, want %q", len(d.Lines), d.Warnings, want)
}
