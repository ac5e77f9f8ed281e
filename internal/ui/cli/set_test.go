package cli

import (
	"slices"
	"strings"
	"testing"

	"linerate/internal/app/change"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
	"linerate/internal/fault"
	"linerate/internal/must"
)

func TestParseSet(t *testing.T) {
	for _, host := range []string{"", "root@nas", "lab:rate=1gbit", "linerate://x.y@nas:5299", "exec:10.0.0.2 env A=b linerate agent"} {
		args := []string{"tcp.sack=off", "tcp.recv_buffer_max=64KiB"}
		if host != "" {
			args = slices.Insert(args, 1, host)
		}
		wanted, got, err := parseSet(nil, args)
		must.True(t, err == nil && got == host && len(wanted) == 2 && wanted[0] == (model.Assignment{Knob: "tcp.sack", Value: "0"}) && wanted[1].Value == "65536", "%q: %+v, %q, %v", args, wanted, got, err)
	}
	_, _, err := parseSet(nil, []string{"net.ipv4.tcp_sack=0", "tcp.sack=x", "nas"})
	must.True(t, exitCode(err) == exitUsage && strings.Contains(err.Error(), "did you mean tcp.sack?") && strings.Contains(err.Error(), "want on or off") && fault.HintOf(err) != "", "%v, hint %q", err, fault.HintOf(err))
}

func TestParseSetOfOneHost(t *testing.T) {
	wanted, host, err := parseSet(nil, []string{"near.tcp.sack=off", "far.link.mtu=max", "link.mtu=9000", "nas"})
	want := []model.Assignment{{Host: model.Near, Knob: "tcp.sack", Value: "0"}, {Host: model.Far, Knob: "link.mtu", Value: "max"}, {Knob: "link.mtu", Value: "9000"}}
	must.True(t, err == nil && host == "nas" && slices.Equal(wanted, want), "%+v, %q, %v", wanted, host, err)
	for text, says := range map[string]string{
		"c.link.mtu=9000": `c.link.mtu: unknown host "c": write near. or far. before`, "far.link.mut=9000": "link.mut", "near.tcp.sack=max": "want on or off",
	} {
		_, _, err := parseSet(nil, []string{text})
		must.True(t, exitCode(err) == exitUsage && strings.Contains(err.Error(), says), "%s: %v", text, err)
	}
}

func TestCanaryDocs(t *testing.T) {
	h := change.HostResult{Before: []probe.Result{{Target: "x", OK: true, Detail: "yes"}, {Target: "x", Full: true, Bytes: 1500}}}
	d := canaryDocs(h)
	must.True(t, len(d) == 2 && d[0].Before && !d[0].After && d[0].Detail == "yes", "%+v", d)
	h.After = []probe.Result{{Target: "x", OK: true}, {Target: "x", Full: true, Bytes: 9000, Detail: "no"}}
	if d := canaryDocs(h); !d[0].After || d[1].Bytes != 9000 || d[1].Detail != "no" {
		t.Errorf("%+v", d)
	}
}
