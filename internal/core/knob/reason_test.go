package knob_test

import (
	"os"
	"path/filepath"
	"testing"

	"linerate/internal/core/knob"
	"linerate/internal/must"
)

// TestReasons: what hosts say becomes one of the closed list. The words are those
// that hosts of several systems gave.
func TestReasons(t *testing.T) {
	for words, want := range map[string]knob.Reason{
		"": knob.NotTold,
		"find socket.buffer_max: linux has no such setting: unsupported operation":                                                                             knob.NotOnSystem,
		"find netisr.dispatch: windows has no such setting: unsupported operation":                                                                             knob.NotOnSystem,
		"find cpu.cstate_latency: linerate cannot use /dev/cpu_dma_latency on linux: unsupported operation":                                                    knob.NotByLinerate,
		"find link.mtu: the interface of the data path is not known: unsupported operation":                                                                    knob.NoPath,
		"find route.mtu: the route of the data path is not known: unsupported operation":                                                                       knob.NoPath,
		"read rx.budget (net.core.netdev_budget): this kernel or network namespace has no net.core.netdev_budget: unsupported operation (file does not exist)": knob.NotInKernel,
		"read numa.placement (numa_node of eth0): this machine has no numa_node here: unsupported operation (file does not exist)":                             knob.NotInKernel,
		"read nic.ring.rx (rings.rx of eth0): rings.rx of eth0: the driver has no such setting: unsupported operation":                                         knob.NotInDriver,
		"read nic.queues.combined (channels.combined of eth0): channels.combined of eth0: the driver does not tell: unsupported operation":                     knob.NotInDriver,
		"read nic.wol (wol.modes of em0): the interface cannot wake the machine: unsupported operation":                                                        knob.NotInDriver,
		"read nic.offload.lro (lro of em0): capability lro: the interface has not got it: unsupported operation":                                               knob.NotInDriver,
		"value TcpWindowSize is not set, and its default is not known":                                                                                         knob.NotSet,
		"nothing is offered while modes are not negotiated":                                                                                                    knob.NotSet,
		"read pcie.max_read_request (max_read_request of eth0): read what follows the first 64 bytes of the device's registers: permission denied":             knob.NoRights,
		"read tcp.sack (net.ipv4.tcp_sack): open /proc/sys/net/ipv4/tcp_sack: operation not permitted":                                                         knob.NoRights,
		"read tcp.sack (net.ipv4.tcp_sack): read /proc/sys/net/ipv4/tcp_sack: input/output error":                                                              knob.OtherReason,
	} {
		must.Equal(t, knob.ReasonOf(words), want, "%q", words)
	}
}

// TestReasonsAreDocumented: docs/json.md lists each, with the words of the program.
func TestReasonsAreDocumented(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "docs", "json.md")))(t)
	for _, r := range knob.Reasons() {
		must.Contain(t, string(text), "| `"+string(r.Reason)+"` | "+r.Words+" |", "docs/json.md has no row")
	}
}
