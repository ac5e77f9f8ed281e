package sysctl_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

func TestConformanceInNamespace(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
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
	err := open(t, "", "net.ipv4.tcp_congestion_control").Write(t.Context(), "nosuchalgorithm")
	must.Is(t, err, errors.ErrUnsupported, "write of an unknown algorithm")
	// A newer kernel's namespace shows it and cannot write it; before, it has none.
	shared := open(t, "", "net.core.rmem_max")
	if _, err := shared.Read(t.Context()); err == nil {
		if err := shared.Check(t.Context(), "262144"); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "the machine itself may") {
			t.Errorf("check of what the machine shares = %v, want it to wrap fs.ErrPermission", err)
		}
	}
}
