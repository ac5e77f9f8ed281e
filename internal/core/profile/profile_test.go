package profile_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/core/fact"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/model"
	"linerate/internal/core/profile"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func session() model.Session {
	ended := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	return model.Session{
		ID: "20261121T130000-abcd", Title: "  tall\nbuffers \x1b[31m", Created: ended.Add(-time.Hour), Ended: ended,
		Hosts: []model.HostFacts{
			{Host: model.Near, OS: "linux", Kernel: fact.Known("6.18", "uname"), LinkRate: fact.Known(units.BitRate(1e9), "x"), MTU: fact.Known(1500, "x")},
			{Host: model.Far, OS: "linux", Kernel: fact.Known("6.1", "uname"), LinkRate: fact.Unknown[units.BitRate]("no"), MTU: fact.Unknown[int]("no")},
		},
		Plan: model.Plan{
			Baseline: "current", Directions: []model.Direction{model.To},
			Settings: []model.Setting{
				{Name: "current"},
				{Name: "tall", Assignments: []model.Assignment{
					{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: "4194304"}, {Knob: "window", Value: "0"},
					{Host: model.Near, Knob: "tcp.send_buffer_max", Value: "4194304"},
				}},
				{Name: "same", Assignments: []model.Assignment{{Host: model.Far, Knob: "tcp.sack", Value: "1"}, {Host: model.Near, Knob: "tcp.sack", Value: "1"}}},
				{Name: "flow", Assignments: []model.Assignment{{Knob: "window", Value: "65536"}}},
			},
		},
		Changes: []model.Change{
			{Host: model.Far, Knob: "tcp.recv_buffer_max", Native: "net.ipv4.tcp_rmem", Old: "4096\t131072\t33554432", New: "4096 131072 4194304"},
			{Host: model.Far, Knob: "tcp.recv_buffer_max", Native: "net.ipv4.tcp_rmem", Old: "1 2 3"},
			{Host: model.Near, Knob: "link.mtu", Native: "mtu of eth0", Old: "1500"},
		},
		Verdicts: []model.Verdict{
			{Setting: "tall", Outcome: model.Better, Direction: model.To, Metric: model.Goodput, Estimate: 0.2,
				Interval: model.Interval{Low: 0.1, High: model.Bound(math.Inf(1)), Confidence: 0.95}, Blocks: 6},
			{Setting: "same", Outcome: model.Better}, {Setting: "same", Outcome: model.Worse},
			{Setting: "flow", Outcome: model.Better},
		},
	}
}

func TestFromSession(t *testing.T) {
	p, flow, err := profile.FromSession(session(), "tall")
	must.Do(t, err)
	must.True(t, len(flow) == 1 && flow[0].Knob == "window", "settings of the flow: %v", flow)
	want := profile.Profile{
		Title: "tall buffers ?[31m",
		Hosts: []profile.Host{
			{Role: profile.Sender, System: "linux", Kernel: "6.18", LinkRate: 1e9, MTU: 1500,
				Settings: []profile.Setting{{Knob: "tcp.send_buffer_max", Value: "4194304"}}, Before: map[string]string{"mtu": "1500"}},
			{Role: profile.Receiver, System: "linux", Kernel: "6.1",
				Settings: []profile.Setting{{Knob: "tcp.recv_buffer_max", Value: "4194304"}}, Before: map[string]string{"net.ipv4.tcp_rmem": "4096 131072 33554432"}},
		},
		Evidence: &profile.Evidence{
			Session: "20261121T130000-abcd", Setting: "tall", Baseline: "current", Date: time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC),
			Verdicts: []profile.Verdict{{Direction: model.To, Metric: model.Goodput, Outcome: model.Better, Blocks: 6, Estimate: 0.2, Low: 0.1, High: model.Bound(math.Inf(1)), Confidence: 0.95}},
			Print:    fingerprint.Print{"far.kernel": "6.1", "far.system": "linux", "near.kernel": "6.18", "near.mtu": "1500", "near.system": "linux"},
		},
	}
	must.NoDiff(t, cmp.Diff(want, p))
	got, refused := profile.Candidates(session())
	must.True(t, len(got) == 1 && got[0] == "tall" && len(refused) == 0, "Candidates = %q, refused %q: one is worse elsewhere, one changes no host", got, refused)
}

func TestFromSessionRoles(t *testing.T) {
	s := session()
	p, _, err := profile.FromSession(s, "same")
	must.True(t, err == nil && len(p.Hosts) == 1 && p.Hosts[0].Role == profile.Both, "the same at both ends: %+v, %v", p.Hosts, err)
	s.Plan.Directions = []model.Direction{model.To, model.From}
	p, _, err = profile.FromSession(s, "tall")
	must.True(t, err == nil && len(p.Hosts) == 2 && p.Hosts[0].Role == profile.Near && p.Hosts[1].Role == profile.Far, "both directions: %+v, %v", p.Hosts, err)
	s.Plan.Directions = []model.Direction{model.From}
	p, _, err = profile.FromSession(s, "tall")
	must.True(t, err == nil && p.Hosts[0].Role == profile.Receiver && p.Hosts[1].Role == profile.Sender, "from: %+v, %v", p.Hosts, err)
	for name, want := range map[string]string{"flow": "changes no host", "nothing": "no setting"} {
		_, _, err := profile.FromSession(s, name)
		must.True(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", name, err)
	}
}

func TestHostJoinsRoles(t *testing.T) {
	p := profile.Profile{Hosts: []profile.Host{
		{Role: profile.Receiver, System: "linux", Settings: []profile.Setting{{"tcp.sack", "0"}, {"link.mtu", "9000"}}, Before: map[string]string{"mtu": "1500"}},
		{Role: profile.Both, Settings: []profile.Setting{{"tcp.sack", "1"}, {"tcp.dsack", "1"}}},
	}}
	h, ok := p.Host(profile.Receiver)
	diff := cmp.Diff([]profile.Setting{{"tcp.sack", "0"}, {"tcp.dsack", "1"}, {"link.mtu", "9000"}}, h.Settings)
	must.True(t, ok && diff == "" && h.System == "linux" && h.Before["mtu"] == "1500", "%v %+v\n%s", ok, h, diff)
	h, ok = p.Host(profile.Sender)
	must.True(t, ok && len(h.Settings) == 2, "a role with nothing of its own gets what is for either: %+v", h)
	h, ok = p.Host(profile.Both)
	must.True(t, ok && len(h.Settings) == 2, "either: %+v", h)
	_, ok = (profile.Profile{Hosts: p.Hosts[:1]}).Host(profile.Sender)
	must.True(t, !ok, "a role that is not there was found")
}

func TestValidateReportsAll(t *testing.T) {
	p := profile.Profile{
		Title: "two\nlines",
		Hosts: []profile.Host{
			{Role: profile.Near, Settings: []profile.Setting{{"a b", ""}, {"tcp.sack", "1\n0"}, {"tcp.sack", "1"}}, Before: map[string]string{"": "x"}},
			{Role: profile.Near}, {Role: "boss", MTU: -1}, {Role: profile.Sender},
		},
		Evidence: &profile.Evidence{Session: "\x00", Verdicts: []profile.Verdict{{Outcome: "great", Low: model.Bound(math.NaN())}, {Outcome: model.Better, Low: 1, High: 0}, {Outcome: model.Better, Estimate: math.Inf(1)}}},
	}
	err := p.Validate()
	must.Need(t, errors.Is(err, profile.ErrInvalid), "%v", err)
	for _, want := range []string{"title", `knob "a b"`, "value of a b", "value of tcp.sack", "tcp.sack of the near is there twice", "native text",
		`role "near"`, `role "boss"`, "below zero", "do not mix", "session", `outcome "great"`, "0 settings of the sender"} {
		must.True(t, strings.Contains(err.Error(), want), "%q is not reported:\n%v", want, err)
	}
	n := strings.Count(err.Error(), "verdict on")
	must.True(t, n == 3, "%d verdicts are reported:\n%v", n, err)
	must.Fail(t, (profile.Profile{}).Validate(), "a profile without hosts is valid")
}

func TestDiffAndDoubts(t *testing.T) {
	h := profile.Host{System: "freebsd", Kernel: "9.0", LinkRate: 1e9, MTU: 1500, Settings: []profile.Setting{{"tcp.sack", "1"}, {"tcp.dsack", "1"}, {"link.mtu", "9000"}}}
	got := h.Diff(map[model.KnobID]fact.Of[string]{"tcp.sack": fact.Known("1", "x"), "link.mtu": fact.Known("1500", "mtu of eth0")})
	must.True(t, len(got) == 3 && got[0].Same && !got[1].Same && !got[1].Now.IsKnown() && !got[2].Same && got[2].Now.Or("") == "1500", "%+v", got)
	facts := model.HostFacts{OS: "linux", Kernel: fact.Known("6.18", "x"), LinkRate: fact.Known(units.BitRate(1e8), "x"), MTU: fact.Known(9000, "x")}
	must.Len(t, h.Doubts(facts), 4)
	facts = model.HostFacts{OS: "freebsd", Kernel: fact.Known("9.0", "x"), LinkRate: fact.Known(units.BitRate(0.95e9), "x"), MTU: fact.Unknown[int]("x")}
	must.Len(t, h.Doubts(facts), 0)
	must.Len(t, (profile.Host{}).Doubts(facts), 0)
}
