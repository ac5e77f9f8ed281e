package lab

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/lab/wire"
	"linerate/internal/must"
)

func TestSwing(t *testing.T) {
	t.Parallel()
	minute := wire.Swing{Share: 10, Period: time.Minute}
	for text, want := range map[string][2]wire.Swing{
		"rate=50mbit,swing=10%/60s":                              {minute, minute},
		"rate=50mbit,to.swing=10%/60s":                           {minute, {}},
		"lan,swing=10%/60s,from.swing=2.5%/100ms/99ms":           {minute, {Share: 2.5, Period: 100 * time.Millisecond, Lead: 99 * time.Millisecond}},
		"rate=50mbit,duplex=half,swing=90%/24h/1h":               {{Share: 90, Period: 24 * time.Hour, Lead: time.Hour}, {Share: 90, Period: 24 * time.Hour, Lead: time.Hour}},
		"to.rate=50mbit,from.rate=1mbit,from.swing=10%/1m0s/0s":  {{}, minute},
		"rate=50mbit,to.stage=20mbit,rtt=10ms,from.swing=10%/1m": {{}, minute},
	} {
		spec, err := ParseSpec(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		must.Equal(t, [2]wire.Swing{spec.To.Swing, spec.From.Swing}, want, "%s", text)
		if again, err := ParseSpec(spec.String()); err != nil || !cmp.Equal(again, spec) {
			t.Errorf("%s is not %s: %v, %s", text, spec, err, cmp.Diff(spec, again))
		}
	}
}

func TestSwingMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"lan,swing=10%":                            "swing=10%: use a share up to 90% and a period from 100ms to 24h, for example 10%/60s",
		"lan,swing=0%/60s":                         "use a share up to 90%",
		"lan,swing=91%/60s":                        "use a share up to 90%",
		"lan,swing=NaN%/60s":                       "use a share up to 90%",
		"lan,swing=10%/99ms":                       "a period from 100ms",
		"lan,swing=10%/25h":                        "to 24h",
		"lan,to.swing=10%/60":                      "to.swing=10%/60: use a share",
		"lan,swing=10%/60s/60s":                    "use a time from 0s to less than 60s",
		"lan,swing=10%/60s/-1s":                    "use a time from 0s to less than 60s",
		"lan,swing=10%/60s/1s/1s":                  "use a share up to 90%",
		"rtt=1ms,swing=10%/60s":                    "swing in direction to has no effect without a rate: give rate= as well",
		"lan,to.stage=20mbit,swing=10%/60s":        "swing in direction to is of rate= alone: leave out stage=",
		"lan,from.police=20mbit,from.swing=9%/60s": "swing in direction from is of rate= alone: leave out police=",
		"lan,bus=20mbit,to.swing=10%/60s":          "swing in direction to is of rate= alone: leave out bus=",
		"lan,duplex=half,to.swing=10%/60s":         "one medium has one swing",
		"lan,swin=10%/60s":                         "swin: unknown key: use rate, rtt, delay, jitter, loss, reorder, dup, queue, swing",
	} {
		must.Say(t, must.Err(ParseSpec(text)), want, "%s", text)
	}
}

// TestRates: what a host is told of a rate that swings is the mean, and that it is one.
func TestRates(t *testing.T) {
	t.Parallel()
	spec := must.Get(ParseSpec("to.rate=50mbit,to.swing=10%/60s/15s"))(t)
	rates := spec.Rates()
	if r, known := rates[0].Get(); !known || r != 50e6 || rates[0].Source() != "the lab's wire, the mean of a rate that swings by 10%/1m0s/15s" {
		t.Errorf("%v from %q", r, rates[0].Source())
	}
	must.True(t, !rates[1].IsKnown() && rates[1].Reason() == "the lab's wire has no rate limit", "a wire without a limit: %+v", rates[1])
	spec.To.Swing = wire.Swing{}
	must.Equal(t, spec.Rates()[0].Source(), "the lab's wire", "a steady rate is of")
}
