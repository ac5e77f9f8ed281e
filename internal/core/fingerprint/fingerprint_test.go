package fingerprint

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// host returns a host whose link is a card behind a tunnel.
func host(h model.Host) model.HostFacts {
	return model.HostFacts{
		Host: h, Name: "nas\n", OS: "linux", Kernel: fact.Known("6.19.3", "uname"), Interface: fact.Known("wg0", "route"),
		MTU: fact.Known(1420, "wg0"), Route: &model.Route{Gateway: fact.Known("", "route")},
		NICs: []model.NIC{
			{Name: "wg0", Driver: fact.Known("wireguard", "x"), Version: fact.Known("6.19.3", "x"), MTU: fact.Known(1420, "x")},
			{Name: "eth0", Driver: fact.Known("igb", "x"), Version: fact.Known("5.6", "x"), Firmware: fact.Known("3.25", "x"), MTU: fact.Known(1500, "x")},
		},
		Path:  []model.Hop{{Kind: model.HopWireGuard}, {Kind: model.HopDevice}, {Kind: model.HopNetwork}},
		Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known("65536", "x"), "link.mtu": fact.Known("1500", "x")},
	}
}

func TestTake(t *testing.T) {
	got := Take([]model.HostFacts{host(model.Near), {Host: model.Far, OS: "linux", Kernel: fact.Unknown[string]("x")}}, fact.Known(4123456*time.Nanosecond, "x"))
	want := Print{
		"near.host": "nas", "near.system": "linux", "near.kernel": "6.19.3", "near.driver": "wireguard", "near.interface": "wg0", "near.mtu": "1420",
		"near.gateway": "none", "near.way": "wireguard + device", "far.system": "linux", "round_trip": "4.123456ms",
	}
	must.True(t, got[RoundTrip] != "" && sameTrip(got[RoundTrip], want[RoundTrip]), "round trip %q", got[RoundTrip])
	must.NoDiff(t, cmp.Diff(want.Without(RoundTrip), got.Without(RoundTrip)))
	must.OK(t, got.Validate())
	was := Print{"near.interface": "eth0", "near.driver": "igb 5.5", "near.firmware": "3.25", "near.mtu": "9000", "near.gateway": "10.0.0.1"}
	must.Equal(t, Since(was.Changes(TakeAlone(host(model.Near), was))), "driver igb 5.5 -> igb 5.6 at the near end, MTU 9000 -> 1500 at the near end", "alone")
	was = Print{"near.interface": "eth9", "near.driver": "igb"}
	must.Equal(t, Since(was.Changes(TakeAlone(host(model.Near), was))), "interface eth9 -> not there at the near end", "without its interface")
}

func TestChanges(t *testing.T) {
	for name, c := range map[string]struct {
		was, now Print
		want     string
	}{
		"a new kernel":             {Print{"far.kernel": "6.19"}, Print{"far.kernel": "7.0"}, "kernel 6.19 -> 7.0 at the far end"},
		"nothing":                  {Print{"far.kernel": "6.19"}, Print{"far.kernel": "6.19"}, ""},
		"not known now":            {Print{"far.kernel": "6.19"}, Print{}, ""},
		"not known then":           {Print{}, Print{"far.kernel": "6.19"}, ""},
		"a little slower":          {Print{RoundTrip: "4ms"}, Print{RoundTrip: "11ms"}, ""},
		"another path":             {Print{RoundTrip: "4ms"}, Print{RoundTrip: "12ms"}, "round trip 4ms -> 12ms"},
		"both as short as can be":  {Print{RoundTrip: "20µs"}, Print{RoundTrip: "250µs"}, ""},
		"out of the local network": {Print{RoundTrip: "20µs"}, Print{RoundTrip: "2ms"}, "round trip 20µs -> 2ms"},
		"two": {Print{"near.mtu": "1500", "near.way": "device"}, Print{"near.mtu": "1420", "near.way": "wireguard + device"},
			"MTU 1500 -> 1420 at the near end, way device -> wireguard + device at the near end"},
	} {
		must.Equal(t, Since(c.was.Changes(c.now)), c.want, "%s", name)
		must.Len(t, c.now.Changes(c.was), len(c.was.Changes(c.now)), "%s: the other way round", name)
		got := c.was.Turned().Turned()
		must.True(t, cmp.Equal(got, c.was), "%s: turned twice it is %v", name, got)
	}
}

// proven returns a session that proved a larger buffer and MTU of the far host.
func proven() *model.Session {
	s := &model.Session{
		ID: "20261121T130000-abcd", Far: "root@nas", Created: time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC), Hosts: []model.HostFacts{host(model.Near), host(model.Far)},
		Plan: model.Plan{
			Baseline: "current", Directions: []model.Direction{model.To}, Flow: model.Flow{Engine: "tcpbulk", Duration: time.Second}, Margin: 3,
			Settings: []model.Setting{{Name: "current"}, {Name: "tall", Assignments: []model.Assignment{
				{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: "4194304"}, {Host: model.Far, Knob: "link.mtu", Value: "9000"},
			}}},
		},
	}
	for _, seconds := range []float64{0.004, 0.005, 0.9} {
		s.Runs = append(s.Runs, model.Run{State: model.RunValid, Values: []model.Value{{Metric: model.RTTMin, Value: seconds}}})
	}
	return s
}

func TestProof(t *testing.T) {
	p, err := Prove(proven(), "tall")
	must.Need(t, err == nil && p.Whole(), "%+v, %v", p, err)
	p.Side = model.Far
	want := []model.Assignment{{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: "65536"}, {Host: model.Far, Knob: "link.mtu", Value: "1500"}}
	must.True(t, slices.Equal(p.Before, want) && p.Print[RoundTrip] == "5ms" && p.Print["far.mtu"] == "" && p.Print["near.mtu"] == "1420", "%+v", p)
	must.True(t, p.Covers("link.mtu", "9000") && !p.Covers("link.mtu", "1500") && !p.Seen(model.Near).Covers("link.mtu", "1500"), "what it covers")
	got, ok, err := Read(must.Get(p.Text())(t))
	diff := cmp.Diff(p, got)
	must.True(t, err == nil && ok && diff == "", "%v %v\n%s", ok, err, diff)
	turned := p.Seen(model.Near)
	must.True(t, turned.Directions[0] == model.From && turned.Kept[0].Host == model.Near && p.Directions[0] == model.To && cmp.Equal(turned.Seen(model.Far), p), "%+v", turned)
	must.Fail(t, must.Err(Prove(proven(), "small")), "a setting that is not there")
	s := proven()
	s.Hosts = nil
	p, err = Prove(s, "tall")
	must.True(t, err == nil && !p.Whole(), "values before that nobody knows: %+v, %v", p, err)
}

func TestRead(t *testing.T) {
	for text, valid := range map[string]bool{
		"": true, `{"v":2,"side":"x"}`: true, "{": false, `{"v":1}`: false, `{"v":1,"side":"a","fingerprint":{"far.moon":"full"}}`: false,
		`{"v":1,"side":"a","fingerprint":{"far.host":"\u001b"}}`: false, strings.Repeat(" ", MaxProof+1): false,
	} {
		_, ok, err := Read(text)
		must.True(t, (!ok || valid) && (err == nil) == valid && (err == nil || errors.Is(err, ErrInvalid)), "%.60q: %v, %v", text, ok, err)
	}
}

func TestLook(t *testing.T) {
	p := Proof{Side: model.Far, Date: time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC), Print: Print{"far.kernel": "6.19"},
		Before: []model.Assignment{{Host: model.Far, Knob: "tcp.sack", Value: "1"}}}
	for name, c := range map[string]struct {
		kept Kept
		now  Print
		want string
	}{
		"as it was":         {Kept{Knob: "tcp.sack", Proof: p, Proven: true}, Print{"far.kernel": "6.19"}, "proven on 2026-11-21"},
		"a new kernel":      {Kept{Knob: "tcp.sack", Proof: p, Proven: true}, Print{"far.kernel": "7.0"}, "unproven since kernel 6.19 -> 7.0 at the far end"},
		"without a proof":   {Kept{Knob: "tcp.sack"}, Print{"far.kernel": "7.0"}, "unproven: not measured"},
		"without its print": {Kept{Knob: "tcp.sack", Proof: Proof{Session: "x"}, Proven: true}, Print{}, "unproven: the conditions of its measurement are not recorded"},
	} {
		got := c.kept.Look(c.now)
		must.True(t, got.String() == c.want && (c.kept.Proof.Side != model.Far || got.Before == "1"), "%s: %q, want %q; %+v", name, got, c.want, got)
	}
}

func TestJudge(t *testing.T) {
	verdict := func(d model.Direction, m model.Metric, o model.Outcome) model.Verdict {
		return model.Verdict{Setting: "kept", Direction: d, Metric: m, Outcome: o}
	}
	harm := verdict(model.To, model.RTT, model.Worse)
	harm.Guard = &model.GuardCheck{State: model.GuardViolated}
	for name, c := range map[string]struct {
		verdicts []model.Verdict
		want     State
	}{
		"better":                {[]model.Verdict{verdict(model.To, model.Goodput, model.Better)}, Still},
		"better in one":         {[]model.Verdict{verdict(model.To, model.Goodput, model.Better), verdict(model.From, model.Goodput, model.Undecided)}, Still},
		"worse in one":          {[]model.Verdict{verdict(model.To, model.Goodput, model.Better), verdict(model.From, model.Goodput, model.Worse)}, NoLonger},
		"no difference":         {[]model.Verdict{verdict(model.To, model.Goodput, model.Equivalent)}, NoLonger},
		"too little":            {[]model.Verdict{verdict(model.To, model.Goodput, model.Undecided)}, Undecided},
		"better, and it harms":  {[]model.Verdict{verdict(model.To, model.Goodput, model.Better), harm}, NoLonger},
		"of another metric":     {[]model.Verdict{verdict(model.To, model.RTT, model.Better), verdict(model.To, model.Goodput, model.Equivalent)}, NoLonger},
		"only of another thing": {[]model.Verdict{{Setting: "before (twin)", IsTwin: true, Metric: model.Goodput, Outcome: model.Better}}, NoLonger},
	} {
		must.Equal(t, Judge(model.Plan{}, c.verdicts, "kept"), c.want, "%s", name)
	}
}
