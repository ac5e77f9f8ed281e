package candidate

import (
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// The best guesses for what no finding names: one for each setting that stands off it, at
// the host on which it bears.
func TestRest(t *testing.T) {
	s := session(map[model.KnobID]string{
		"tcp.limit_output": "4096", "tcp.notsent_lowat": "4294967295", "tcp.slow_start_after_idle": "1", "tcp.congestion_control": "reno", "tcp.sack": "0", "rx.budget": "300",
	}, map[model.KnobID]string{"rx.budget": "300", "tcp.limit_output": "4096", "tcp.recv_buffer_max": "65536", "rx.gro_flush_timeout": "20000", "nic.gro_max_size": "65536"})
	var got []string
	for _, c := range Rest(s, model.To) {
		got = append(got, c.Setting.Name)
		must.True(t, slices.Contains(RestKnobs(), c.Setting.Assignments[0].Knob) && c.Direction == model.To, "%+v", c)
	}
	want := "far.tcp.recv_buffer_max=16MiB near.tcp.window_scaling=1 near.tcp.sack=1 near.tcp.congestion_control=bbr near.tcp.limit_output=4194304 near.tcp.slow_start_after_idle=0 far.rx.gro_flush_timeout=0 far.rx.budget=600"
	must.Equal(t, strings.Join(got, " "), want)
}

// What is proposed against other things than a slow path: never what is there already,
// never more than one step too few, the mildest first.
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
