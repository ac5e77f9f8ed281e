package sysctl

import (
	"testing"

	"linerate/internal/must"
)

// TestDriverChoice: a ring or queue that is left to the driver is what the driver chose,
// not 0, as FreeBSD 12.1 tells it of an 82540.
func TestDriverChoice(t *testing.T) {
	const log = "em0: attach_pre capping queues at 1\nem0: Using 512 TX descriptors and 256 RX descriptors\n" +
		"<6>em0: Using 1024 TX descriptors and 4096 RX descriptors\nem01: Using 2 TX descriptors and 2 RX descriptors\n"
	nodes := map[string]bool{"dev.em.0.iflib.rxq0": true, "dev.em.0.iflib.rxq1": true, "dev.em.0.iflib.txq0": true}
	for _, c := range []struct{ name, value, want string }{
		{"dev.em.0.iflib.override_nrxds", "", "4096"}, {"dev.em.0.iflib.override_ntxds", "0", "1024"},
		{"dev.em.0.iflib.override_nrxqs", "0", "2"}, {"dev.em.0.iflib.override_ntxqs", "0", "1"},
		{"dev.em.0.iflib.override_nrxds", "2048", ""}, {"dev.em.1.iflib.override_nrxds", "", ""}, {"dev.em.1.iflib.override_nrxqs", "0", ""},
		{"dev.em.0.iflib.rx_budget", "0", ""},
	} {
		got := driverChoice(c.name, c.value, func() string { return log }, func(n string) bool { return nodes[n] })
		must.Equal(t, got, c.want, "%s=%q", c.name, c.value)
	}
}
