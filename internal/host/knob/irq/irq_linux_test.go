package irq_test

import (
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// sysfs mounts a sysfs for the test's network namespace and returns the directory above it.
func sysfs(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	sys := filepath.Join(root, "sys")
	knobtest.PrivateMounts(t)
	must.Do(t, unix.Mkdir(sys, 0o755))
	err := unix.Mount("sysfs", sys, "sysfs", 0, "")
	must.SkipIf(t, err != nil, "this system lets no test mount sysfs: %v", err)
	t.Cleanup(func() { _ = unix.Unmount(sys, unix.MNT_DETACH) })
	return root
}

// TestConformanceInNamespace writes the queues of a virtual interface of the running kernel.
func TestConformanceInNamespace(t *testing.T) { knobtest.InNamespace(t, testConformanceInNamespace) }

func testConformanceInNamespace(t *testing.T) {
	root := sysfs(t)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumRxQueues, attrs.NumTxQueues = "kt0", 2, 2
	must.Do(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "kt1"}))
	for name, c := range map[string]knobtest.Case{
		"rps_cpus":             {Other: "rx-0=0 rx-1=0", Bad: []string{"", "rx-0=0", "rx-0=99 rx-1=0"}},
		"rps_flow_cnt":         {Other: "rx-0=256 rx-1=512", Bad: []string{"rx-0=-1 rx-1=x"}},
		"xps_cpus":             {Other: "tx-0=0 tx-1=0", Bad: []string{"tx-0=0"}},
		"gro_flush_timeout":    {Other: "20000", Bad: []string{"", "-5"}},
		"napi_defer_hard_irqs": {Other: "2", Bad: []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Backend, c.Absent = open(t, root, "kt0", name), open(t, root, "kt9", name)
			knobtest.Run(t, c)
		})
	}
}
