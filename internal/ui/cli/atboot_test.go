package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"linerate/internal/app/change"
	"linerate/internal/app/here"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestNoteLasting notes settings that a restart does not forget, of systems that
// have such.
func TestNoteLasting(t *testing.T) {
	wanted := []model.Assignment{{Knob: "tcp.ecn"}, {Knob: "link.mtu"}, {Knob: "window"}, {Knob: "nonsense"}, {Knob: "tcp.ecn"}}
	for _, c := range []struct {
		os     string
		within time.Duration
		wanted []model.Assignment
		want   string
	}{
		{"linux", time.Minute, wanted, ""},
		{"freebsd", time.Minute, wanted, ""},
		{"windows", time.Minute, wanted[:1], "note: desk: tcp.ecn survives a restart; if this machine goes down in the next 1 min it stays: --at-boot puts it back at the next start\n"},
		{"windows", 0, wanted, "note: desk: tcp.ecn, link.mtu survive a restart; if this machine goes down during a run they stay: --at-boot puts them back at the next start\n"},
	} {
		var out bytes.Buffer
		a := &console{Env: Env{Err: &out}}
		change.TellLasting(a.world(), "desk", c.os, c.wanted, c.within)
		must.Equal(t, out.String(), c.want, "%s", c.os)
	}
}

// TestBootTalk prints every line of a host once, also with --quiet.
func TestBootTalk(t *testing.T) {
	var out bytes.Buffer
	a := &console{Env: Env{Err: &out}, quiet: true}
	for range 2 {
		for _, host := range []string{"", "nas"} {
			must.OK(t, must.Err(here.Lines(a.world(), host).Write([]byte("at-boot: installed x\nelse\n"))))
		}
	}
	want := "at-boot: installed x\nnas: at-boot: installed x\n"
	must.True(t, out.String() == want && !strings.Contains(out.String(), "else"), "%q", out.String())
}
