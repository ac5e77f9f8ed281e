package report

import (
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

func TestTries(t *testing.T) {
	tcp := model.TCPSummary{RTTMin: fact.Known(10*time.Millisecond, "test")}
	s := model.Session{
		ID: "x", Kind: model.KindTest, Near: "this machine", Far: "lab:rate=1gbit,rtt=10ms",
		WireRate: fact.Known(units.BitRate(1e9), "test"),
		Runs: []model.Run{{Number: 1, State: model.RunValid, Ends: []model.EndReport{{
			Host: model.Near, Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, TCP: &tcp}},
		}}}},
		Findings: []model.Finding{{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"tcp.recv_buffer_max"}}},
	}
	for _, h := range []model.Host{model.Near, model.Far} {
		s.Hosts = append(s.Hosts, model.HostFacts{
			Host: h, MTU: fact.Known(1500, "test"),
			Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known("65536", "test")},
		})
	}
	first := func() string { return Build(s, Options{}).Next[0].Command }
	// The path holds 1.18 MB; twice that and no more.
	if got, want := first(), "linerate run lab:rate=1gbit,rtt=10ms --factor b.tcp.recv_buffer_max=256KiB,1MiB,4MiB"; got != want {
		t.Errorf("suggested %q, want %q", got, want)
	}
	s.Far = "exec:10.0.0.2 ip netns exec b linerate agent"
	if got, want := first(), "linerate run 'exec:10.0.0.2 ip netns exec b linerate agent' --factor b.tcp.recv_buffer_max=256KiB,1MiB,4MiB"; got != want {
		t.Errorf("suggested %q, want %q", got, want)
	}
	s.Far = "linerate://nas:5299"
	if got, want := first(), "linerate show x"; got != want {
		t.Errorf("suggested %q for a host that measures only, want %q", got, want)
	}
	s.Findings[0].Host, s.Findings[0].Direction = model.Near, model.From
	if got, want := first(), "linerate run linerate://nas:5299 --direction from --factor a.tcp.recv_buffer_max=256KiB,1MiB,4MiB"; got != want {
		t.Errorf("suggested %q, want %q", got, want)
	}
	s.WireRate = fact.Unknown[units.BitRate]("virtual")
	if got, want := first(), "linerate show x"; got != want {
		t.Errorf("suggested %q without knowing the path, want %q", got, want)
	}
}
