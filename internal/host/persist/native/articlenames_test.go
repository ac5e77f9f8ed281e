package native_test

import (
	"fmt"
	"slices"
	"testing"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestArticleNames: whoever types a name from an article gets the knob that it
// is today, or is told what became of it.
func TestArticleNames(t *testing.T) {
	for name, c := range map[string]struct {
		knob model.KnobID // that it is or that stands there now; "" for none
		says string       // part of the explanation
	}{
		// gigabit
		"kern.polling.enable=1":              {"polling", "polling is a capability of each interface"},
		"net.inet.ip.check_interface=0":      {"", "renamed to net.inet.ip.rfc1122_strong_es"},
		"net.inet.tcp.sendspace=262144":      {"tcp.send_buffer_initial", "above 8/9 of socket.buffer_max"},
		"net.inet.tcp.recvspace=262144":      {"tcp.recv_buffer_initial", "above 8/9 of socket.buffer_max"},
		"kern.ipc.maxsockbuf=1048576":        {"socket.buffer_max", "a buffer may have 8/9 of it"},
		"net.inet.tcp.inflight_enable=1":     {"tcp.congestion_control", "removed"},
		"net.inet.tcp.inflight_debug=0":      {"tcp.congestion_control", "removed"},
		"net.inet.tcp.inflight_min=6144":     {"tcp.congestion_control", "removed"},
		"net.inet.tcp.inflight.min":          {"tcp.congestion_control", "removed"},
		"net.inet.tcp.msl=30000":             {"tcp.msl", "a closed connection is remembered for twice that"},
		"net.isr.enable=1":                   {"netisr.dispatch", "replaced by one setting with three words"},
		`kern.ipc.nmbclusters="30720"`:       {"mbuf.clusters", "/boot/loader.conf"},
		"GlobalMaxTcpWindowSize":             {"tcp.autotune_level", "not read since Vista"},
		"MaxTcpWindowSize":                   {"tcp.recv_buffer_max", "the value that was read is TcpWindowSize"},
		"SackOpts":                           {"", "always on"},
		"Tcp1323Opts":                        {"tcp.timestamps", "scaling belongs to autotuning"},
		"*JumboPacket":                       {"link.frame_mtu", "9014 is 9000 and 4088 is 4074"},
		"mtu":                                {"link.mtu", "largest IP packet"},
		"/etc/sysctl.conf":                   {"", "LaunchDaemons"}, // fileshare
		"sysctl net.inet.tcp.sendspace":      {"tcp.send_buffer_initial", "darwin"},
		"sysctl -w net.core.rmem_max=262144": {"socket.recv_buffer_max", "linux"}, // crossed
		"net.core.wmem_max":                  {"socket.send_buffer_max", "linux"},
		"net.core.rmem_default":              {"socket.recv_buffer_default", "not TCP"},
		"net.core.wmem_default":              {"socket.send_buffer_default", "not TCP"},
		"net.core.rmem_max for autotuning":   {"tcp.recv_buffer_max", "never limited them"},
		"net.inet.tcp.sendbuf_max":           {"tcp.send_buffer_max", "freebsd"}, // virtio
		"net.inet.tcp.recvbuf_max":           {"tcp.recv_buffer_max", "without a larger socket.buffer_max"},
		"window":                             {"window", "no autotuning"},
		"options DEVICE_POLLING":             {"polling", "at most HZ × burst_max"}, // oldpc
		"options HZ=1000":                    {"polling.hz", "the kernel option HZ is its default"},
		"kern.hz":                            {"polling.hz", string(knob.EffectBoot)},
	} {
		e, ok := knob.NewIndex().Explain(name)
		if !ok {
			t.Errorf("%s: unknown", name)
			continue
		}
		found := e.Replaced()
		if e.Knob != nil {
			found = append(found, e.Knob.ID)
		}
		for _, u := range e.Uses {
			found = append(found, u.Knob.ID)
		}
		must.True(t, (c.knob != "" || len(found) == 0) && (c.knob == "" || slices.Contains(found, c.knob)), "%s: is %v, want %q", name, found, c.knob)
		said := fmt.Sprintf("%+v %+v", e.Uses, e.Dead)
		if e.Knob != nil {
			said += fmt.Sprintf("%+v", *e.Knob)
		}
		must.Contain(t, said, c.says, "%s", name)
	}
}
