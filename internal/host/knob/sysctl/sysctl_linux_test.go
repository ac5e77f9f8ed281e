package sysctl_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/knob/sysctl"
	"linerate/internal/must"
)

func TestConformanceInNamespace(t *testing.T) { knobtest.InNamespace(t, testConformanceInNamespace) }

func testConformanceInNamespace(t *testing.T) {
	absent := open(t, "", "net.ipv4.tcp_nothing")
	for name, c := range map[string]knobtest.Case{
		"net.ipv4.tcp_rmem": {Other: "4096 65536 65536", Bad: []string{"", "a b c", "0 0 0"}},
		"net.ipv4.tcp_sack": {Other: "0", Bad: []string{"x", "-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Backend, c.Absent = open(t, "", name), absent
			knobtest.Run(t, c)
		})
	}
	must.Is(t, open(t, "", "net.ipv4.tcp_congestion_control").Write(t.Context(), "nosuchalgorithm"), errors.ErrUnsupported, "write of an unknown algorithm")
	// A newer kernel shows this setting read-only in a namespace; an older one has none
	// there.
	shared := open(t, "", "net.core.rmem_max")
	if _, err := shared.Read(t.Context()); err == nil {
		err := shared.Check(t.Context(), "262144")
		must.True(t, errors.Is(err, fs.ErrPermission) && strings.Contains(err.Error(), "the machine itself may"), "check of what the machine shares = %v, want it to wrap fs.ErrPermission", err)
	}
}

// TestHeld reads and writes a kernel setting in a process that cannot get another descriptor.
func TestHeld(t *testing.T) { knobtest.InNamespace(t, testHeld) }

func testHeld(t *testing.T) {
	k := open(t, "", "net.ipv4.tcp_sack").(interface {
		sysctl.Key
		Hold() error
		Release() error
	})
	other := open(t, "", "net.ipv4.tcp_rmem")
	must.Do(t, k.Hold())
	var was unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	none := unix.Rlimit{Max: was.Max}
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	got := []string{must.Get(k.Read(t.Context()))(t)}
	err := k.Write(t.Context(), "0")
	got = append(got, must.Get(k.Read(t.Context()))(t))
	_, others := other.Read(t.Context())
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	must.OK(t, errors.Join(err, k.Release()))
	must.Fail(t, others, "a setting that is not held is read")
	must.True(t, got[0] == "1" && got[1] == "0" && must.Get(k.Read(t.Context()))(t) == "0", "read %q", got)
}
