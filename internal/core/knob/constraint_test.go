package knob_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

func TestConstraints(t *testing.T) {
	freebsd := knob.Values{
		"socket.buffer_max": "2097152", "tcp.recv_buffer_initial": "65536", "tcp.send_buffer_initial": "32768",
		"tcp.recv_buffer_max": "1048576", "tcp.send_buffer_max": "1048576", "mbuf.clusters": "100000",
	}
	// As FreeBSD 12.1 starts: its own ceilings break the rule.
	stock := knob.Values{"socket.buffer_max": "2097152", "tcp.recv_buffer_initial": "65536", "tcp.recv_buffer_max": "2097152", "tcp.send_buffer_max": "2097152"}
	linux := knob.Values{
		"tcp.recv_buffer_min": "4096", "tcp.recv_buffer_initial": "131072", "tcp.recv_buffer_max": "33554432", "socket.recv_buffer_max": "4194304",
		"tcp.window_scaling": "1", "link.mtu": "1500", "link.mtu_min": "68", "link.mtu_max": "9000", "nic.ring.rx": "256", "nic.ring.rx_max": "512",
		"nic.coalesce.adaptive_rx": "1", "nic.coalesce.rx_usecs": "50", "nic.media.port": "tp", "nic.media.speed": "0", "nic.media.autoneg": "1", "link.speed": "1000",
		"nic.queues.rx": "2", "nic.queues.rx_max": "4", "rps": "0-1", "nic.tso_max_size": "65536", "tcp.mem_pressure": "1000",
	}
	darwin := knob.Values{"socket.buffer_max": "8388608", "tcp.recv_buffer_max": "4194304", "tcp.recv_buffer_initial": "556032"}
	windows := knob.Values{"link.frame_mtu": "1500", "link.mtu": "1500"}
	for _, c := range []struct {
		system string
		before knob.Values
		set    string // "knob=value knob=value"
		want   string // id of the constraint that refuses; "" for none
		how    string
	}{
		// 8/9 of 2 MiB is 1864135: the rule that makes a host unreachable (F-01).
		{"freebsd", freebsd, "tcp.recv_buffer_initial=1864135 tcp.recv_buffer_max=1864135", "", ""},
		{"freebsd", freebsd, "tcp.recv_buffer_initial=1864136 tcp.recv_buffer_max=1864136", "C-02", "above 8/9 of socket.buffer_max 2097152, which is 1864135"},
		{"freebsd", freebsd, "tcp.send_buffer_max=2097152", "C-02", "tcp.send_buffer_max"},
		{"freebsd", freebsd, "socket.buffer_max=65536", "C-02", "tcp.recv_buffer_initial 65536"},
		{"freebsd", freebsd, "socket.buffer_max=67108864 tcp.send_buffer_max=33554432", "", ""},
		{"freebsd", freebsd, "tcp.recv_buffer_initial=1500000", "C-03", "above tcp.recv_buffer_max"},
		{"freebsd", freebsd, "mbuf.clusters=200000", "F-06", "/boot/loader.conf"},
		{"freebsd", freebsd, "tcp.recv_buffer_max=1000000", "", ""},
		{"freebsd", stock, "tcp.recv_buffer_max=1048576", "", ""},
		{"freebsd", stock, "tcp.send_buffer_max=2097152", "", ""},
		{"freebsd", stock, "socket.buffer_max=2200000", "", ""}, // better, and still above it
		{"freebsd", stock, "socket.buffer_max=2000000", "C-02", "tcp.recv_buffer_max 2097152"},
		{"freebsd", stock, "tcp.send_buffer_max=2097153", "C-02", "tcp.send_buffer_max 2097153"},
		{"freebsd", stock, "tcp.recv_buffer_initial=1900000", "C-02", "tcp.recv_buffer_initial 1900000"},
		{"darwin", knob.Values{"socket.buffer_max": "1000", "tcp.recv_buffer_max": "2000"}, "tcp.recv_buffer_max=1500", "", ""},
		{"freebsd", knob.Values{}, "nic.ring.rx=3000", "C-12", "no power of two"},
		{"freebsd", knob.Values{}, "nic.ring.rx=4096", "", ""},
		{"darwin", darwin, "tcp.recv_buffer_max=16777216", "C-04", "above socket.buffer_max"},
		{"darwin", darwin, "socket.buffer_max=262144", "C-04", ""},
		{"darwin", darwin, "tcp.recv_buffer_max=8388608", "", ""},
		{"linux", linux, "tcp.recv_buffer_initial=67108864", "C-05", "above tcp.recv_buffer_max"},
		{"linux", linux, "tcp.recv_buffer_initial=67108864 tcp.recv_buffer_max=67108864", "", ""},
		{"linux", linux, "tcp.recv_buffer_max=65536", "", ""}, // takes the initial size down with it
		{"linux", linux, "tcp.recv_buffer_min=262144", "C-05", "tcp.recv_buffer_min"},
		{"linux", linux, "tcp.mem_limit=999", "C-05", ""},
		{"linux", linux, "tcp.recv_buffer_max=2147483647", "C-11", "the largest window 1073725440"},
		{"linux", linux, "link.mtu=9001", "C-07", "above the driver's most, 9000"},
		{"linux", linux, "link.mtu=9000", "", ""},
		{"linux", knob.Values{"link.mtu_max": "0"}, "link.mtu=65535", "", ""}, // the driver does not say
		{"linux", linux, "nic.ring.rx=1024", "C-12", "above nic.ring.rx_max 512"},
		{"linux", linux, "nic.queues.rx=8", "C-12", ""},
		{"linux", linux, "nic.queues.rx=1", "Q-01", "rps is 0-1"},
		{"linux", knob.Values{"txqueuelen": "1000", "qdisc": "noqueue"}, "txqueuelen=0 qdisc=bfifo", "Q-02", "qdisc becomes bfifo while txqueuelen is 0"},
		{"linux", knob.Values{"txqueuelen": "0", "qdisc": "noqueue"}, "txqueuelen=1000 qdisc=fq", "Q-02", ""},
		{"linux", knob.Values{"txqueuelen": "1000", "qdisc": "bfifo"}, "txqueuelen=0 qdisc=noqueue", "Q-02", "qdisc becomes noqueue while txqueuelen is 0"},
		{"linux", linux, "nic.gso_max_size=131072", "C-12", "nic.tso_max_size"},
		{"linux", linux, "nic.coalesce.rx_usecs=10", "C-14", "adaptive_rx is on"},
		{"linux", linux, "nic.coalesce.rx_usecs=10 nic.coalesce.adaptive_rx=0", "", ""},
		{"linux", linux, "nic.media.speed=1000", "C-13", "fixed at 1000 Mbit/s"},
		{"linux", linux, "nic.media.autoneg=0", "C-13", "fixed at 1000 Mbit/s"},
		{"linux", linux, "nic.media.speed=100", "", ""},
		{"linux", linux, "nic.media.speed=0", "", ""},
		{"linux", knob.Values{"nic.media.port": "fibre", "nic.media.speed": "0"}, "nic.media.speed=10000", "", ""},
		{"windows", windows, "link.mtu=9000", "C-08", "9014 for 9000"},
		{"windows", windows, "link.mtu=9000 link.frame_mtu=9000", "", ""},
		{"windows", windows, "link.mtu=9014 link.frame_mtu=9000", "C-08", "link.mtu 9014 is above link.frame_mtu 9000"},
	} {
		var refused []string
		for _, v := range knob.Violations(c.system, c.before, assignments(c.set)) {
			if !v.Constraint.Advice {
				refused = append(refused, v.Error())
				must.True(t, errors.Is(v, knob.ErrConstraint) && v.Constraint.ID == c.want && strings.Contains(v.Error(), c.how),
					"%s %s: %v, want %s that says %q", c.system, c.set, v, c.want, c.how)
			}
		}
		must.Equal(t, (len(refused) > 0), (c.want != ""), "%s %s: refused by %q, want %q", c.system, c.set, refused, c.want)
	}
}

func assignments(text string) []model.Assignment {
	var as []model.Assignment
	for one := range strings.FieldsSeq(text) {
		id, value, _ := strings.Cut(one, "=")
		as = append(as, model.Assignment{Knob: model.KnobID(id), Value: value})
	}
	return as
}

func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		system, set, want string
		before            knob.Values
	}{
		{"linux", "tcp.recv_buffer_max=6291456", "C-06", knob.Values{"tcp.recv_buffer_max": "33554432"}},
		{"linux", "tcp.recv_buffer_max=6291456", "C-11", knob.Values{"tcp.recv_buffer_max": "65536", "tcp.window_scaling": "0"}},
		{"freebsd", "link.mtu=9014", "C-08", nil}, {"linux", "link.mtu=4088", "C-08", nil},
		{"freebsd", "tcp.recv_buffer_max=8388608", "F-04", knob.Values{"socket.buffer_max": "2097152"}},
	} {
		found := false
		for _, v := range knob.Violations(c.system, c.before, assignments(c.set)) {
			found = found || v.Constraint.ID == c.want && v.Constraint.Advice
		}
		must.True(t, found, "%s %s: not advised by %s", c.system, c.set, c.want)
	}
}

// TestWindowScale: the worked numbers of knobs.md sections 1.2 and 9.
func TestWindowScale(t *testing.T) {
	for _, c := range []struct {
		system, values string
		want           int
	}{
		{"linux", "tcp.recv_buffer_max=33554432 socket.recv_buffer_max=4194304", 10}, {"linux", "tcp.recv_buffer_max=268435456 socket.recv_buffer_max=4194304", 13},
		{"linux", "tcp.recv_buffer_max=65536 socket.recv_buffer_max=4194304", 7}, {"linux", "tcp.recv_buffer_max=2147483647 socket.recv_buffer_max=4194304", 14},
		{"linux", "tcp.recv_buffer_max=33554432 socket.recv_buffer_max=4194304 tcp.window_scaling=0", 0},
		{"freebsd", "socket.buffer_max=2097152", 6}, {"freebsd", "socket.buffer_max=2097120", 5}, {"freebsd", "socket.buffer_max=262144", 3}, {"freebsd", "socket.buffer_max=67108864", 11},
		{"darwin", "tcp.recv_buffer_max=4194304", 6}, {"darwin", "tcp.recv_buffer_max=65536", 3}, {"darwin", "tcp.recv_buffer_max=65536 tcp.window_scale_min=5", 5},
		{"windows", "tcp.recv_buffer_max=16776960", 8},
	} {
		v := knob.Values{}
		for _, a := range assignments(c.values) {
			v[a.Knob] = a.Value
		}
		got, ok := knob.WindowScale(c.system, v)
		must.True(t, got == c.want && ok, "%s %s: scale %d, %v, want %d", c.system, c.values, got, ok, c.want)
	}
	_, ok := knob.WindowScale("linux", knob.Values{})
	must.True(t, !ok, "a scale was computed from nothing")
}

// TestNoStepOnTheWayBreaksARule: where values fit together before and after,
// every state on the way that Plan chooses does too. On FreeBSD a state that
// does not is a host without new connections (F-01).
func TestNoStepOnTheWayBreaksARule(t *testing.T) {
	buffers := []model.KnobID{"socket.buffer_max", "tcp.recv_buffer_max", "tcp.send_buffer_max", "tcp.recv_buffer_initial", "tcp.send_buffer_initial"}
	for _, system := range []string{"freebsd", "darwin"} {
		t.Run(system, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				draw := func() knob.Values {
					limit := rapid.Int64Range(1<<16, 1<<30).Draw(t, "limit")
					v := knob.Values{"socket.buffer_max": strconv.FormatInt(limit, 10)}
					for _, way := range []string{"recv", "send"} {
						ceiling := rapid.Int64Range(4096, knob.Reserve(limit)).Draw(t, "ceiling")
						v[model.KnobID("tcp."+way+"_buffer_max")] = strconv.FormatInt(ceiling, 10)
						v[model.KnobID("tcp."+way+"_buffer_initial")] = strconv.FormatInt(rapid.Int64Range(1, ceiling).Draw(t, "initial"), 10)
					}
					return v
				}
				now, goal := draw(), draw()
				var changes []model.Assignment
				for _, id := range rapid.Permutation(buffers).Draw(t, "order") {
					changes = append(changes, model.Assignment{Knob: id, Value: goal[id]})
				}
				for _, c := range knob.NewIndex().Plan(now, changes) {
					for _, v := range knob.Violations(system, now, []model.Assignment{c}) {
						must.Need(t, v.Constraint.Advice, "on the way from %v: %s=%s: %v", now, c.Knob, c.Value, v)
					}
					now[c.Knob] = c.Value
				}
			})
		})
	}
}
