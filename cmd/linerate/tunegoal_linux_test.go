package main

import (
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/tune"
)

// TestTuneForLatency: a sender that fills a deep queue makes everybody wait. With the
// goal of latency the queue is named, and what proves better is told in latency, while
// the rate is kept by its guard.
func TestTuneForLatency(t *testing.T) {
	t.Parallel()
	needLab(t)
	args := []string{"tune", "lab:rate=20mbit,rtt=20ms,queue=256KiB,near.tcp.congestion_control=reno", "--goal", "latency", "--only", "tcp.congestion_control", "--quick", "--json", "--db", ":memory:",
		"-t", "1s", "--omit", "1s", "--settle", "0s", "--direction", "to", "--seed", "5"}
	r := succeed(t, args...)
	got := decode[tuned](t, r.out)
	if !got.Proven || len(got.Gains) != 1 || !strings.Contains(got.Gains[0], " ms -> ") || !strings.Contains(got.Gains[0], "lower") && !strings.Contains(got.Gains[0], "times") {
		t.Errorf("%+v\n%s", got.Tuned, r.err)
	}
	if rec := got.Record; rec.Options.Objective != model.LatencyP50 || len(rec.Inputs) == 0 || rec.Inputs[0].Look == nil ||
		!strings.Contains(rec.Inputs[0].Look.Limits[model.To], "wait in a queue on the way") {
		t.Errorf("what limits it: %+v", rec.Inputs[0].Look.Limits)
	}
	if w := got.Record.Winner.Assignments; len(w) == 0 || w[0].Knob == "link.mtu" {
		t.Errorf("winner %+v", w)
	}
}

// TestTuneForCPU: packets of 1500 bytes cost the receiver more than those of 9000, which
// the path takes. What can cut the connection is tried because it was allowed, and that
// each Gbit costs less is proven in fresh blocks while the rate stays.
func TestTuneForCPU(t *testing.T) {
	t.Parallel()
	needLab(t)
	got := decode[tuned](t, succeed(t, "tune", "lab:rate=200mbit,rtt=2ms,mtu=9000,near.link.mtu=1500,far.link.mtu=1500", "--goal", "cpu", "--only", "link.mtu", "--quick", "--allow", "risky", "--json", "--db", ":memory:",
		"-t", "1s", "--omit", "0.5s", "--settle", "0s", "--direction", "to", "--seed", "5", "--guard", "none", "--guard", "goodput<10%").out)
	if look := got.Record.Inputs[0].Look; look == nil || !strings.Contains(look.Limits[model.To], "each Gbit costs the far host ") {
		t.Errorf("%+v", look)
	}
	for _, a := range got.Record.Winner.Assignments {
		if a.Knob != "link.mtu" || a.Value != "9000" {
			t.Errorf("winner %+v", got.Record.Winner)
		}
	}
	if !got.Proven || len(got.Gains) != 1 || !strings.Contains(got.Gains[0], "of CPU for each Gbit -> ") || !strings.Contains(got.Gains[0], " % lower, at least ") {
		t.Errorf("%+v\n%+v", got.Tuned, got.Record.Ideas)
	}
}

// TestTuneLatencyTrap: far more window would fill the deep queue of this path. It is
// refused for the round trip, and a milder value is taken.
func TestTuneLatencyTrap(t *testing.T) {
	t.Parallel()
	needLab(t)
	args := []string{"tune", "lab:rate=20mbit,rtt=20ms,queue=2MiB,far.tcp.recv_buffer_max=48KiB,near.tcp.congestion_control=reno", "--quick", "--json", "--db", ":memory:",
		"-t", "1s", "--omit", "0.5s", "--settle", "0s", "--direction", "to", "--seed", "5", "--guard", "rtt<100%"}
	got := decode[tuned](t, succeed(t, args...).out)
	refused := false
	for _, f := range got.Record.Ideas {
		refused = refused || f.State == tune.Guarded && f.Levels == "far.tcp.recv_buffer_max" && f.Detail == string(model.RTT)
	}
	if !refused {
		t.Errorf("no window was refused for the round trip: %+v", got.Record.Ideas)
	}
	for _, a := range got.Record.Winner.Assignments {
		if a.Knob == "tcp.recv_buffer_max" && a.Value != "131072" {
			t.Errorf("winner %+v", got.Record.Winner)
		}
	}
}

// TestTuneDeadDirection: where nothing arrives, there is nothing to tune, and the reason
// is said.
func TestTuneDeadDirection(t *testing.T) {
	t.Parallel()
	needLab(t)
	r := run(t, command(t, append([]string{"tune", "lab:rate=50mbit,rtt=5ms,to.blackhole=200", "--quick", "--db", ":memory:"}, brisk()...)...))
	if r.code == 0 || !strings.Contains(r.out+r.err, "nothing arrive") {
		t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
	}
}
