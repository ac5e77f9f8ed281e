package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestLabCongestionIsExplained: an algorithm that this machine has and lets only root use
// cannot be the default of a lab's host, and the error says which file of the machine
// would allow it. One that everybody may use is set.
func TestLabCongestionIsExplained(t *testing.T) {
	needLab(t)
	t.Parallel()
	words := func(name string) []string {
		text, err := os.ReadFile("/proc/sys/net/ipv4/" + name)
		orPanic(err)
		return strings.Fields(string(text))
	}
	allowed := words("tcp_allowed_congestion_control")
	try := func(name string) result {
		return run(t, command(t, "test", "lab:rate=10mbit,rtt=1ms,near.tcp.congestion_control="+name, "-t", "200ms", "--omit", "0s", "--idle", "0s", "-q", "--db", ":memory:"))
	}
	if r := try(allowed[0]); r.code != 0 {
		t.Errorf("%s: exit code %d\n%s", allowed[0], r.code, r.err)
	}
	for _, name := range words("tcp_available_congestion_control") {
		if slices.Contains(allowed, name) {
			continue
		}
		r := try(name)
		said := strings.Join(strings.Fields(r.err), " ")
		if r.code == 0 || !strings.Contains(said, "sysctl -w net.ipv4.tcp_allowed_congestion_control='"+strings.Join(append(slices.Clone(allowed), name), " ")+"'") {
			t.Errorf("%s: exit code %d\n%s", name, r.code, r.err)
		}
		return
	}
	t.Skip("this machine lets everybody use all algorithms that it has")
}
