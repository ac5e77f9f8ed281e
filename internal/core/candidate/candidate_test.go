package candidate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func known[T any](v T) fact.Of[T] { return fact.Known(v, "test") }

// session is a test of a path of 1 Gbit/s and 10 ms, which holds 1.18 MB, with the settings of
// both hosts.
func session(near, far map[model.KnobID]string) *model.Session {
	s := &model.Session{Kind: model.KindTest, WireRate: known(units.BitRate(1e9))}
	for h, values := range map[model.Host]map[model.KnobID]string{model.Near: near, model.Far: far} {
		f := model.HostFacts{Host: h, MTU: known(1500), Knobs: map[model.KnobID]fact.Of[string]{}}
		for id, v := range values {
			f.Knobs[id] = known(v)
		}
		s.Hosts = append(s.Hosts, f)
	}
	s.Runs = []model.Run{{State: model.RunValid, Ends: []model.EndReport{{Flows: []model.FlowReport{{
		Direction: model.To, Role: model.Sender, TCP: &model.TCPSummary{RTTMin: known(10 * time.Millisecond)}}}}}}}
	return s
}

// links gives both hosts a card: their MTUs, and the most that the far one takes.
func links(near, far, most int) func(*model.Session) {
	return func(s *model.Session) {
		for i, h := range s.Hosts {
			s.Hosts[i].MTU = known(map[model.Host]int{model.Near: near, model.Far: far}[h.Host])
			s.Hosts[i].NICs = []model.NIC{{MTUMax: known(map[model.Host]int{model.Near: 9216, model.Far: most}[h.Host])}}
		}
	}
}

func TestFrom(t *testing.T) {
	type values = map[model.KnobID]string
	for name, c := range map[string]struct {
		near, far values
		finding   model.Finding
		change    func(*model.Session)
		want      string    // names of the settings
		allows    []float64 // Mbit/s; 0 is unknown
		careful   bool
	}{
		"receive buffer of the far host": {
			far:     values{"tcp.recv_buffer_max": "65536"},
			finding: model.Finding{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"tcp.recv_buffer_max"}},
			want:    "far.tcp.recv_buffer_max=256KiB far.tcp.recv_buffer_max=1MiB far.tcp.recv_buffer_max=4MiB far.tcp.recv_buffer_max=16MiB",
			allows:  []float64{52.43, 209.72, 838.86, 941.48},
		},
		"send buffer of the near host": {
			near:    values{"tcp.send_buffer_max": "500000"},
			finding: model.Finding{Direction: model.To, Host: model.Near, Knobs: []model.KnobID{"tcp.send_buffer_max"}},
			want:    "near.tcp.send_buffer_max=1MiB near.tcp.send_buffer_max=4MiB near.tcp.send_buffer_max=16MiB",
			allows:  []float64{209.72, 838.86, 941.48},
		},
		"a buffer that the limit of all sockets has no room for": {
			far:     values{"tcp.recv_buffer_max": "65536", "socket.buffer_max": "2097152"},
			finding: model.Finding{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"tcp.recv_buffer_max"}},
			want: "far.tcp.recv_buffer_max=256KiB far.tcp.recv_buffer_max=1MiB far.tcp.recv_buffer_max=4MiB + far.socket.buffer_max=4718592 " +
				"far.tcp.recv_buffer_max=16MiB + far.socket.buffer_max=18874368",
		},
		"a buffer that is large already": {
			far:     values{"tcp.recv_buffer_max": "33554432"},
			finding: model.Finding{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"tcp.recv_buffer_max"}},
		},
		"a buffer that is not known": {
			finding: model.Finding{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"tcp.recv_buffer_max"}},
		},
		"a path that is not known": {
			far:     values{"tcp.recv_buffer_max": "65536"},
			finding: model.Finding{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"tcp.recv_buffer_max"}},
			change:  func(s *model.Session) { s.WireRate = fact.Unknown[units.BitRate]("virtual") },
			want:    "far.tcp.recv_buffer_max=256KiB far.tcp.recv_buffer_max=1MiB far.tcp.recv_buffer_max=4MiB far.tcp.recv_buffer_max=16MiB",
		},
		"buffers that do not grow": {
			far:     values{"tcp.recv_buffer_max": "6291456", "tcp.recv_autotune": "0"},
			finding: model.Finding{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"tcp.recv_buffer_max"}},
			want:    "far.tcp.recv_autotune=1", allows: []float64{941.48},
		},
		"the test's own buffers": {
			finding: model.Finding{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"window"}},
			change:  func(s *model.Session) { s.Plan.Flow.Window = 64 << 10 },
			want:    "window=256KiB window=1MiB window=4MiB", allows: []float64{209.72, 838.86, 941.48},
		},
		"window scaling, off at the sender": {
			near: values{"tcp.window_scaling": "0"}, far: values{"tcp.window_scaling": "1", "tcp.recv_buffer_max": "262144"},
			finding: model.Finding{Direction: model.To, Host: model.Near, Knobs: []model.KnobID{"tcp.window_scaling"}},
			want:    "near.tcp.window_scaling=1", allows: []float64{104.86},
		},
		"window scaling, off at the sender, and a buffer that holds less than that": {
			near: values{"tcp.window_scaling": "0"}, far: values{"tcp.window_scaling": "1", "tcp.recv_buffer_max": "65536"},
			finding: model.Finding{Direction: model.To, Host: model.Near, Knobs: []model.KnobID{"tcp.window_scaling"}},
			want:    "near.tcp.window_scaling=1 far.tcp.recv_buffer_max=256KiB far.tcp.recv_buffer_max=1MiB far.tcp.recv_buffer_max=4MiB far.tcp.recv_buffer_max=16MiB",
			allows:  []float64{26.2144, 52.43, 209.72, 838.86, 941.48},
		},
		"window scaling, off at both": {
			near: values{"tcp.window_scaling": "0"}, far: values{"tcp.window_scaling": "0"},
			finding: model.Finding{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"tcp.window_scaling"}},
			want:    "tcp.window_scaling=1", allows: []float64{0},
		},
		"window scaling, on at both: it is taken away on the path": {
			near: values{"tcp.window_scaling": "1"}, far: values{"tcp.window_scaling": "1"},
			finding: model.Finding{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"tcp.window_scaling"}},
		},
		"window scaling, nobody tells": {
			finding: model.Finding{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"tcp.window_scaling"}},
			want:    "far.tcp.window_scaling=1", allows: []float64{0},
		},
		"loss": {
			near: values{"tcp.congestion_control": "cubic", "tcp.sack": "1"}, far: values{"tcp.sack": "0"},
			finding: model.Finding{Direction: model.To, Host: model.Near, Knobs: []model.KnobID{"tcp.sack"}},
			want:    "far.tcp.sack=1", allows: []float64{0},
		},
		"congestion control of the sender": {
			far:     values{"tcp.congestion_control": "bbr"},
			finding: model.Finding{Direction: model.From, Host: model.Far, Knobs: []model.KnobID{"tcp.congestion_control"}},
			want:    "far.tcp.congestion_control=cubic", allows: []float64{0}, careful: true,
		},
		"jumbo frames that both interfaces take": {
			finding: model.Finding{Direction: model.To, Host: model.Near, Knobs: []model.KnobID{"link.mtu"}},
			change:  links(1500, 1500, 9216), want: "link.mtu=9000", allows: []float64{0}, careful: true,
		},
		"jumbo frames that one interface does not take": {
			finding: model.Finding{Direction: model.To, Host: model.Near, Knobs: []model.KnobID{"link.mtu"}}, change: links(1500, 1500, 1500),
		},
		"the larger MTU of two": {
			finding: model.Finding{Direction: model.To, Rule: "M1", Host: model.Far, Knobs: []model.KnobID{"link.mtu"}},
			change:  links(4000, 1500, 9216), want: "far.link.mtu=4000", allows: []float64{0}, careful: true,
		},
		"streams against a full core": {
			finding: model.Finding{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"streams", "no.candidate"}, Implied: known(units.BitRate(300e6))},
			change:  func(s *model.Session) { s.Plan.Flow.Streams = 1 },
			want:    "streams=2 streams=4 streams=8", allows: []float64{600, 941.48, 941.48},
		},
		"a backlog": {
			far:     values{"rx.backlog": "1000"},
			finding: model.Finding{Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"rx.backlog"}},
			want:    "far.rx.backlog=4000 far.rx.backlog=16000", allows: []float64{0, 0},
		},
		"nothing to change": {finding: model.Finding{Direction: model.To, Rule: "ceiling"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := session(c.near, c.far)
			if c.change != nil {
				c.change(s)
			}
			got := From(s, c.finding)
			var names []string
			for i, one := range got {
				names = append(names, one.Setting.Name)
				rate, ok := one.Allows.Get()
				if i < len(c.allows) && (ok != (c.allows[i] > 0) || ok && math.Abs(float64(rate)/1e6-c.allows[i]) > c.allows[i]*1e-4) {
					t.Errorf("%s allows %v (%s), want %v Mbit/s", one.Setting.Name, rate, one.Allows.Reason(), c.allows[i])
				}
				must.True(t, ok || one.Allows.Reason() != "", "%s: no reason why its effect is unknown", one.Setting.Name)
				must.True(t, one.Direction == c.finding.Direction && (one.Caution != "") == c.careful && len(one.Setting.Assignments) != 0, "%+v", one)
			}
			must.Equal(t, strings.Join(names, " "), c.want)
		})
	}
}

// A setting that two findings suggest appears once per direction, and the main finding's
// settings come first.
func TestSession(t *testing.T) {
	s := session(nil, map[model.KnobID]string{"tcp.recv_buffer_max": "500000", "tcp.window_scaling": "0"})
	s.Findings = []model.Finding{
		{Rule: "B09", Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"tcp.window_scaling"}},
		{Rule: "B07", Direction: model.To, Host: model.Far, Knobs: []model.KnobID{"tcp.recv_buffer_max", "tcp.window_scaling"}},
		{Rule: "B07", Direction: model.From, Host: model.Far, Knobs: []model.KnobID{"tcp.window_scaling"}},
	}
	names := lists.Each(Session(s), func(c Candidate) string { return c.Rule + " " + string(c.Direction) + " " + c.Setting.Name })
	want := "B09 to far.tcp.window_scaling=1, B07 to far.tcp.recv_buffer_max=1MiB, B07 to far.tcp.recv_buffer_max=4MiB, B07 to far.tcp.recv_buffer_max=16MiB, B07 from far.tcp.window_scaling=1"
	must.Equal(t, strings.Join(names, ", "), want)
}

func TestRoom(t *testing.T) {
	for _, c := range []struct {
		id                   model.KnobID
		earlier, later, want string
	}{
		{"socket.buffer_max", "18874368", "4718592", "18874368"},
		{"socket.buffer_max", "4718592", "18874368", "18874368"},
		{"tcp.recv_buffer_max", "16777216", "4194304", "4194304"},
		{"tcp.congestion_control", "bbr", "cubic", "cubic"},
	} {
		must.Equal(t, Room(c.id, c.earlier, c.later), c.want, "%s of %s and %s", c.id, c.earlier, c.later)
	}
}

// The best guesses beyond the findings: one for each setting that differs from its guess, at
// the host where it matters.
func TestRest(t *testing.T) {
	s := session(map[model.KnobID]string{
		"tcp.limit_output": "4096", "tcp.notsent_lowat": "4294967295", "tcp.slow_start_after_idle": "1", "tcp.congestion_control": "reno", "tcp.sack": "0", "rx.budget": "300",
	}, map[model.KnobID]string{"rx.budget": "300", "tcp.limit_output": "4096", "tcp.recv_buffer_max": "65536", "rx.gro_flush_timeout": "20000", "nic.gro_max_size": "65536"})
	var got []string
	for _, c := range Rest(s, model.To) {
		got = append(got, c.Setting.Name)
		must.True(t, slices.Contains(RestKnobs(), c.Setting.Assignments[0].Knob) && c.Direction == model.To, "%+v", c)
	}
	want := "far.tcp.recv_buffer_max=16MiB near.tcp.window_scaling=1 near.tcp.sack=1 near.tcp.congestion_control=bbr + near.tcp.sack=1 near.tcp.limit_output=4194304 near.tcp.slow_start_after_idle=0 far.rx.gro_flush_timeout=0 far.rx.budget=600"
	must.Equal(t, strings.Join(got, " "), want)
}

// What the facts alone show to be narrow: windows below the path's 1.18 MB, autotuning and the
// options of TCP that are off; nothing where every value is a default, or nothing is known.
func TestSuspects(t *testing.T) {
	type values = map[model.KnobID]string
	for name, c := range map[string]struct {
		near, far values
		want      string
	}{
		"defaults": {values{"tcp.send_buffer_max": "4194304", "tcp.sack": "1", "tcp.window_scaling": "1"}, values{"tcp.recv_buffer_max": "33554432"}, ""},
		"unknown":  {nil, nil, ""},
		"windows":  {values{"tcp.send_buffer_max": "65536", "tcp.recv_buffer_max": "4096"}, values{"tcp.recv_buffer_max": "1048576"}, "far.tcp.recv_buffer_max=16MiB holds 0.45 near.tcp.send_buffer_max=16MiB holds 0.08"},
		"switches": {values{"tcp.sack": "0", "tcp.congestion_control": "reno"}, values{"tcp.window_scaling": "0", "tcp.recv_buffer_max": "33554432", "tcp.recv_autotune": "0"},
			"far.tcp.recv_autotune=1 holds 0.00 far.tcp.window_scaling=1 holds 0.00 near.tcp.sack=1 takes losses near.tcp.congestion_control=bbr + near.tcp.sack=1 takes losses"},
	} {
		var got []string
		for _, x := range Suspects(session(c.near, c.far), model.To, 10*time.Millisecond) {
			what := map[bool]string{true: "takes losses", false: fmt.Sprintf("holds %.2f", x.Holds)}[x.Losses]
			got = append(got, x.Setting.Name+" "+what)
		}
		must.Equal(t, strings.Join(got, " "), c.want, "%s", name)
	}
}

// Candidates for other goals than a fast path: never the current value, never more than one
// step too small, the mildest first.
func TestGoals(t *testing.T) {
	type values = map[model.KnobID]string
	jumbos := func(s *model.Session) {
		for i := range s.Hosts {
			s.Hosts[i].NICs = []model.NIC{{MTUMax: fact.Known(9216, "test")}}
		}
	}
	latency := func(s *model.Session) []Candidate { return Latency(s, model.To) }
	cpu := func(h model.Host) func(*model.Session) []Candidate {
		return func(s *model.Session) []Candidate { return CPU(s, model.To, h) }
	}
	for name, c := range map[string]struct {
		near, far values
		of        func(*model.Session) []Candidate
		change    func(*model.Session)
		want      string
	}{
		"large buffers and cubic": { // 1.18 MB are under way, 2.35 MB of a buffer
			near: values{"tcp.congestion_control": "cubic", "tcp.send_buffer_max": "67108864", "qdisc": "pfifo_fast"}, far: values{"tcp.recv_buffer_max": "33554432"}, of: latency,
			want: "near.tcp.congestion_control=bbr near.qdisc=fq_codel far.tcp.recv_buffer_max=16MiB far.tcp.recv_buffer_max=8MiB far.tcp.recv_buffer_max=4MiB " +
				"near.tcp.send_buffer_max=16MiB near.tcp.send_buffer_max=8MiB near.tcp.send_buffer_max=4MiB",
		},
		"the finding of a queue that is too long": {
			near: values{"tcp.congestion_control": "bbr", "qdisc": "pfifo_fast"}, far: values{"tcp.recv_buffer_max": "8388608"},
			of: func(s *model.Session) []Candidate {
				return From(s, model.Finding{Rule: QueueRule, Direction: model.To})
			},
			want: "near.qdisc=fq_codel far.tcp.recv_buffer_max=4MiB",
		},
		"buffers that are small already": {
			near: values{"tcp.congestion_control": "bbr", "tcp.send_buffer_max": "4194304", "qdisc": "fq"}, far: values{"tcp.recv_buffer_max": "6291456"}, of: latency,
		},
		"a path that nobody knows": {
			near: values{"tcp.send_buffer_max": "67108864"}, of: latency,
			change: func(s *model.Session) { s.WireRate = fact.Unknown[units.BitRate]("virtual") },
		},
		"work of a receiver": {
			near: values{"nic.offload.tso": "0", "nic.offload.tx_csum": "0"}, far: values{"nic.offload.gro": "0", "nic.offload.rx_csum": "1", "nic.coalesce.adaptive_rx": "0"}, of: cpu(model.Far), change: jumbos,
			want: "far.nic.offload.gro=1 far.nic.coalesce.adaptive_rx=1 near.nic.offload.tso=1 link.mtu=9000",
		},
		"work of a sender": {
			near: values{"nic.offload.tso": "0", "nic.offload.tx_csum": "0", "tcp.congestion_control": "bbr"}, far: values{"nic.offload.gro": "0"}, of: cpu(model.Near),
			want: "near.nic.offload.tx_csum=1 near.nic.offload.tso=1 near.tcp.congestion_control=cubic",
		},
		"hosts that do all": {near: values{"nic.offload.tso": "1"}, far: values{"nic.offload.gro": "1"}, of: cpu(model.Far)},
	} {
		t.Run(name, func(t *testing.T) {
			s := session(c.near, c.far)
			if c.change != nil {
				c.change(s)
			}
			var names []string
			for _, one := range c.of(s) {
				names = append(names, one.Setting.Name)
				must.True(t, slices.Contains(GoalKnobs(), one.Setting.Assignments[0].Knob) && one.Rule != "" && one.Direction == model.To, "%+v", one)
			}
			must.Equal(t, strings.Join(names, " "), c.want)
		})
	}
}
