package knob_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestCatalogueIsComplete checks the required parts of every entry.
func TestCatalogueIsComplete(t *testing.T) {
	seen := map[model.KnobID]bool{}
	for _, k := range knob.Catalogue() {
		must.True(t, !seen[k.ID], "%s: listed twice", k.ID)
		seen[k.ID] = true
		must.True(t, k.Summary != "" && k.Source != "" && k.Effect != "" && k.Type != "" && k.Scope != "", "%s: has no summary, source, effect, type or scope", k.ID)
		number := k.Type == knob.TypeBytes || k.Type == knob.TypeInt || k.Type == knob.TypeRate
		must.True(t, !number || k.Min < k.Max, "%s: range %d to %d", k.ID, k.Min, k.Max)
		must.True(t, k.Type != knob.TypeInt || k.Unit != "", "%s: a number without a unit", k.ID)
		must.Equal(t, k.Type == knob.TypeEnum, len(k.Choices) > 0, "%s: choices are for enumerations, which need them", k.ID)
		must.Equal(t, k.Scope == knob.ScopeFlow, len(k.Native) == 0, "%s: a knob of a host or link has native names, one of a flow has none", k.ID)
		must.True(t, k.Scope == knob.ScopeFlow || k.ReadOnly || k.Verify != "" && len(k.Defaults) != 0, "%s: has no way to verify it or no defaults", k.ID)
		must.True(t, strings.ToLower(k.Summary[:1]) == k.Summary[:1] || strings.HasPrefix(k.Summary, "TCP") || strings.HasPrefix(k.Summary, "VLAN"),
			"%s: summary %q does not start in lower case", k.ID, k.Summary)
		got, ok := knob.NewIndex().ByID(k.ID)
		must.True(t, ok && got.Summary == k.Summary, "ByID(%s) does not find it", k.ID)
	}
	must.True(t, len(seen) >= 150, "the catalogue has %d knobs: a part of it is missing", len(seen))
	_, ok := knob.NewIndex().ByID("no.such")
	must.True(t, !ok, "ByID finds a knob that is not there")
}

// TestNativeSettings checks the required parts of every native setting, and that no two knobs
// use the same part of one.
func TestNativeSettings(t *testing.T) {
	type part struct {
		system    string
		mechanism knob.Mechanism
		name      string
		encoding  knob.Encoding
	}
	owner := map[part]model.KnobID{}
	for _, k := range knob.Catalogue() {
		for system, n := range k.Native {
			must.True(t, slices.Contains(knob.Systems(), system), "%s: unknown system %q", k.ID, system)
			p := part{system, n.Mechanism, n.Name, n.Encoding}
			other, ok := owner[p]
			must.True(t, !ok, "%s and %s both are %s (%q) on %s", k.ID, other, n.Name, n.Encoding, system)
			owner[p] = k.ID
			checkNative(t, k, system, n)
		}
	}
	// Whole texts and parts of them do not mix: writing one would break the other.
	for p, id := range owner {
		other, ok := owner[part{p.system, p.mechanism, p.name, knob.Plain}]
		must.True(t, !ok || p.encoding == knob.Plain || id == other || p.encoding == knob.Level, "%s is all of %s on %s, and %s a part of it", other, p.name, p.system, id)
	}
}

func checkNative(t *testing.T, k knob.Knob, system string, n knob.Native) {
	t.Helper()
	must.True(t, n.Name != "", "%s on %s: has no name", k.ID, system)
	if n.Mechanism == knob.NotYet {
		must.True(t, n.Note != "", "%s on %s: does not say why %s cannot be used", k.ID, system, n.Name)
		return
	}
	must.True(t, slices.Contains(knob.Mechanisms(system), n.Mechanism), "%s: %s has no mechanism %s", k.ID, system, n.Mechanism)
	must.Equal(t, n.Mechanism == knob.WinReg, n.Absent != "", "%s on %s: what an absent value means is for registry values, which need it", k.ID, system)
	low, high := k.Bounds(system)
	must.True(t, k.Type != knob.TypeBytes && k.Type != knob.TypeInt || low >= k.Min && high <= k.Max && low < high,
		"%s on %s: range %d to %d is not within %d to %d", k.ID, system, low, high, k.Min, k.Max)
	must.True(t, k.EffectOn(system) != knob.EffectBoot || n.Permanent(system) != "", "%s on %s: is read at boot and has no permanent form", k.ID, system)
	must.True(t, k.ReadOnly || n.ReadOnly || n.Mechanism == knob.Qdisc || n.Permanent(system) != "", "%s on %s: has no permanent form", k.ID, system)
	of := map[knob.Encoding]string{knob.Least: "= VALUE INITIAL MAX", knob.Initial: "= MIN VALUE MAX", knob.Ceiling: "= MIN INITIAL VALUE"}[n.Encoding]
	must.True(t, strings.HasSuffix(n.Permanent(system), of), "%s on %s: %q sets another field of the three", k.ID, system, n.Permanent(system))
	if n.Mechanism == knob.WinReg && n.Encoding == knob.Plain {
		must.Equal(t, must.Get(k.Decode(system, "absent"))(t), n.Absent, "%s on %s: absent reads as", k.ID, system)
	}
}

// TestDeadNames: every replacement exists and works on that system, where no knob uses the dead
// name.
func TestDeadNames(t *testing.T) {
	for _, d := range knob.DeadNames() {
		must.True(t, len(d.Names) != 0 && d.Was != "" && d.Now != "" && d.Lived != "" && d.Source != "", "%v: an answer is missing", d.Names)
		must.True(t, len(d.Instead) != 0 || d.Advice != "", "%v: nothing is said about what to do instead", d.Names)
		for _, id := range d.Instead {
			k, ok := knob.NewIndex().ByID(id)
			if !ok {
				t.Errorf("%v: replaced by %s, which is no knob", d.Names, id)
			} else if _, here := k.Native[d.System]; !here {
				t.Errorf("%v: replaced by %s, which %s has not", d.Names, id, d.System)
			}
		}
		for _, name := range d.Names {
			e, ok := knob.NewIndex().Explain(name)
			must.True(t, ok && len(e.Dead) != 0, "Explain(%q) does not know that it is dead", name)
			for _, u := range e.Uses {
				n := u.Native
				must.True(t, u.System != d.System || !strings.EqualFold(n.Name, name) || n.Mechanism == knob.NotYet || n.ReadOnly,
					"%s is dead on %s, and %s uses it", name, d.System, u.Knob.ID)
			}
		}
	}
}

func TestConstraintsNameKnobs(t *testing.T) {
	for _, c := range knob.Constraints() {
		must.True(t, c.ID != "" && c.Rule != "" && c.Source != "" && len(c.Knobs) != 0, "%s: rule, source or knobs are missing", c.ID)
		for _, id := range c.Knobs {
			_, ok := knob.NewIndex().ByID(id)
			must.True(t, ok, "%s: looks at %s, which is no knob", c.ID, id)
		}
		must.Equal(t, c.Breaks(knob.Values{}, knob.Values{}), "", "%s: unknown values break it", c.ID)
	}
}

// meant returns the targets of an explanation, one per line.
func meant(e knob.Explanation) string {
	var b strings.Builder
	if k := e.Knob; k != nil {
		for system, n := range k.Native {
			fmt.Fprintf(&b, "on %s: %s\n", system, n.Name)
		}
		fmt.Fprintln(&b, k.Range("linux"), k.Avoid)
	}
	for _, u := range e.Uses {
		fmt.Fprintf(&b, "on %s is %s: %s %s\n", u.System, u.Knob.ID, u.Knob.EffectOn(u.System), u.Native.Permanent(u.System)+u.Native.Note)
	}
	for _, d := range e.Dead {
		fmt.Fprintf(&b, "on %s: %s (%s); %s; instead: %s %s\n", d.System, d.Was, d.Lived, d.Now, d.Instead, d.Advice)
	}
	return b.String()
}

func TestExplain(t *testing.T) {
	for name, want := range map[string][]string{
		"tcp.recv_buffer_max":                {"on linux: net.ipv4.tcp_rmem", "on freebsd: net.inet.tcp.recvbuf_max", "on windows: AutoTuningLevelLocal"},
		"net.ipv4.tcp_rmem":                  {"tcp.recv_buffer_max", "tcp.recv_buffer_initial", "tcp.recv_buffer_min"},
		"sysctl -w net.ipv4.tcp_rmem='4096'": {"tcp.recv_buffer_max"},
		"/proc/sys/net/ipv4/tcp_sack":        {"tcp.sack"},
		"tcp_rmem":                           {"tcp.recv_buffer_max"},
		"net.inet.tcp.inflight_enable":       {"FreeBSD 4.7 to 8", "instead: [tcp.congestion_control]"},
		"net.inet.tcp.inflight.stab":         {"instead: [tcp.congestion_control]"},
		"kern.polling.enable=1":              {"instead: [polling]"},
		"net.isr.enable":                     {"instead: [netisr.dispatch]"},
		"net.isr.direct_force":               {"instead: [netisr.dispatch]"},
		"GlobalMaxTcpWindowSize":             {"not read since Vista", "tcp.autotune_level"},
		"TcpWindowSize":                      {"ignored since Vista"},
		"Tcp1323Opts":                        {"bit 0 window scaling", "tcp.timestamps"},
		"net.ipv4.tcp_tw_recycle":            {"removed in 4.12", "nothing"},
		"tcp_tw_recycle":                     {"removed in 4.12"},
		"net.ipv4.tcp_low_latency":           {"no effect", "busy_poll"},
		"net.ipv4.tcp_vegas_cong_avoid":      {"tcp.congestion_control"},
		"net.inet.tcp.rfc1323":               {"on freebsd is tcp.window_scaling", "on freebsd is tcp.timestamps", "on darwin: window scaling"},
		"kern.ipc.nmbclusters":               {"on freebsd is mbuf.clusters", "boot argument ncl"},
		"net.inet.tcp.recvbuf_inc":           {"absent in 13"},
		"JumboPacket":                        {"link.frame_mtu", "9014 is 9000"},
		"*jumbopacket":                       {"link.frame_mtu"},
		"dev.em.0.iflib.override_nrxds":      {"nic.ring.rx", "/boot/loader.conf"},
		"EnablePMTUDiscovery":                {"tcp.pmtud"},
		"kern.ipc.somaxconn":                 {"on darwin is tcp.listen_queue", "on freebsd: length of the listen queue"},
		"net.inet.tcp.path_mtu_discovery":    {"tcp.pmtud"},
		"net.core.netdev_max_backlog":        {"rx.backlog"},
		"NMBCLUSTERS":                        {"mbuf.clusters"},
		"net.link.ifqmaxlen":                 {"txqueuelen", string(knob.EffectBoot)},
		"nic.media.speed":                    {"or auto", "best common mode"},
	} {
		e, ok := knob.NewIndex().Explain(name)
		if !ok {
			t.Errorf("Explain(%q) knows nothing", name)
			continue
		}
		for _, w := range want {
			must.Contain(t, meant(e), w, "Explain(%q)", name)
		}
	}
	e, _ := knob.NewIndex().Explain("net.ipv4.tcp_rmem=4096 87380 99")
	must.True(t, len(e.Sets) == 2 && len(e.Refused) == 1 && strings.Contains(e.Refused[0], `"99" of tcp.recv_buffer_max`), "a value out of its range: %q, sets %v", e.Refused, e.Sets)
	for _, name := range []string{"", "=", "tcp", "net.ipv4", "completely.different", "max", "enable"} {
		if e, ok := knob.NewIndex().Explain(name); ok {
			t.Errorf("Explain(%q) knows something:\n%s", name, meant(e))
		}
	}
	if e, _ := knob.NewIndex().Explain("kern.polling.enable"); !slices.Contains(e.Replaced(), "polling") {
		t.Errorf("Replaced = %v", e.Replaced())
	}
}

// TestEveryNativeNameIsExplained: every native name in the catalogue has an explanation that
// leads back to its knob.
func TestEveryNativeNameIsExplained(t *testing.T) {
	for _, k := range knob.Catalogue() {
		e, ok := knob.NewIndex().Explain(string(k.ID))
		must.True(t, ok && e.Knob != nil, "Explain(%s) knows nothing", k.ID)
		for system, n := range k.Native {
			e, _ := knob.NewIndex().Explain(n.Name)
			must.True(t, slices.ContainsFunc(e.Uses, func(u knob.Use) bool { return u.System == system && u.Knob.ID == k.ID }),
				"Explain(%q) does not lead to %s on %s", n.Name, k.ID, system)
		}
	}
}

// Lines of guides verbatim, with their settings in linerate's words.
func TestGuideLines(t *testing.T) {
	for line, want := range map[string]string{
		"ethtool -G enp3s0 rx 4096 tx 2048":                                                                        "nic.ring.rx=4096 nic.ring.tx=2048",
		"sudo ethtool -C eth2 adaptive-rx off rx-usecs 30 rx-frames 8":                                             "nic.coalesce.adaptive_rx=0 nic.coalesce.rx_usecs=30 nic.coalesce.rx_frames=8",
		"ethtool -K eth0 gso on tso off rx-gro-hw on generic-receive-offload off":                                  "nic.offload.gso=1 nic.offload.tso=0 nic.offload.gro_hw=1 nic.offload.gro=0",
		"ethtool --pause eth0 autoneg off rx off tx on":                                                            "nic.pause.autoneg=0 nic.pause.rx=0 nic.pause.tx=1",
		"ethtool -L eth0 combined 8":                                                                               "nic.queues.combined=8",
		"ethtool -s eth0 speed 1000 duplex full autoneg on":                                                        "nic.media.speed=1000 nic.media.duplex=full nic.media.autoneg=1",
		"ifconfig eth0 txqueuelen 2000":                                                                            "txqueuelen=2000",
		"ip link set eth0 mtu 8900 txqueuelen 5000":                                                                "link.mtu=8900 txqueuelen=5000",
		"ip -4 route replace 198.51.100.0/24 via 192.0.2.9 dev eth0 initcwnd 32 rto_min 5ms":                       "route.initcwnd=32 route.rto_min=5",
		"tc qdisc add dev eth0 root handle 1: fq_codel":                                                            "qdisc=fq_codel",
		"cpupower -c all frequency-set -g powersave":                                                               "cpu.governor=powersave",
		"options e1000e TxDescriptors=1024,1024":                                                                   "nic.ring.tx=1024",
		"ifconfig ix1 mtu 8000 -lro rxcsum -tso4":                                                                  "link.mtu=8000 nic.offload.lro=0 nic.offload.rx_csum=1 nic.offload.tso=0",
		`ifconfig_em1="inet 198.51.100.7/24 mtu 4000 -txcsum"`:                                                     "link.mtu=4000 nic.offload.tx_csum=0",
		"networksetup -setMTU en1 1400":                                                                            "link.mtu=1400",
		"netsh interface tcp set global autotuninglevel=normal timestamps=disabled":                                "tcp.autotune_level=Normal tcp.timestamps=0",
		"netsh int ip set global taskoffload=disabled":                                                             "nic.offload.csum4=0 nic.offload.tso=0 nic.offload.tso6=0",
		"netsh int tcp set heuristics wsh=disabled":                                                                "tcp.autotune_heuristics=0",
		`netsh interface ipv4 set subinterface "Ethernet 2" mtu=1400 store=persistent`:                             "link.mtu=1400",
		"Set-NetTCPSetting -SettingName Internet -CongestionProvider DCTCP":                                        "tcp.congestion_control=DCTCP",
		`Set-NetAdapterAdvancedProperty -Name "Ethernet 2" -DisplayName "Jumbo Packet" -DisplayValue "4088 Bytes"`: "link.frame_mtu=4074",
		`Set-NetAdapterAdvancedProperty -Name x -RegistryKeyword "*ReceiveBuffers" -RegistryValue 1024`:            "nic.ring.rx=1024",
		"Set-NetAdapterRsc -Name x -IPv6Enabled $true":                                                             "nic.offload.rsc6=1",
		"Enable-NetAdapterLso -Name x":                                                                             "nic.offload.tso=1 nic.offload.tso6=1",
		"Disable-NetAdapterRsc -Name x -IPv4":                                                                      "nic.offload.rsc=0",
		"net.ipv4.tcp_rmem = 4096 131072 8388608":                                                                  "tcp.recv_buffer_max=8388608 tcp.recv_buffer_initial=131072 tcp.recv_buffer_min=4096",
		"sysctl -w net.ipv4.tcp_wmem=8192":                                                                         "tcp.send_buffer_min=8192",
		"sudo sysctl -w net.ipv4.tcp_timestamps=0":                                                                 "tcp.timestamps=0",
		"$ sudo ip link set dev eth0 mtu 9000":                                                                     "link.mtu=9000",
		"echo 0 > /proc/sys/net/ipv4/tcp_timestamps":                                                               "tcp.timestamps=0",
		"echo '4096 87380 33554432' | sudo tee /proc/sys/net/ipv4/tcp_rmem":                                        "tcp.recv_buffer_max=33554432 tcp.recv_buffer_initial=87380 tcp.recv_buffer_min=4096",
		"sysctl -w net.ipv4.tcp_timestamps=0":                                                                      "tcp.timestamps=0",
		"mlnx_tune -p HIGH_THROUGHPUT":                                                                             "cpu.governor=performance",
		"./set_irq_affinity_cpulist.sh 0-2,8 eth0":                                                                 "nic.irq_affinity=0;1;2;8",
		"set_irq_affinity.sh eth0":                                                                                 "",
		"setpci -s 05:00.0 68.w=3936":                                                                              "pcie.max_read_request=1024",
		"setpci -s 05:00.0 CAP_EXP+8.w=5000:7000":                                                                  "pcie.max_read_request=4096",
		"cpupower idle-set -D 0":                                                                                   "cpu.cstate_latency=0",
		"tuned-adm profile network-throughput":                                                                     "cpu.governor=performance tcp.recv_buffer_max=16777216 tcp.recv_buffer_initial=131072 tcp.recv_buffer_min=4096 tcp.send_buffer_max=16777216 tcp.send_buffer_initial=16384 tcp.send_buffer_min=4096",
		"tuned-adm profile network-latency":                                                                        "cpu.governor=performance busy_read=50 busy_poll=50 tcp.fastopen=3",
		"systemctl disable --now irqbalance":                                                                       "",
		"service irqbalance stop":                                                                                  "",
		"echo 32768 > /proc/sys/net/core/rps_sock_flow_entries":                                                    "rfs=32768",
		"echo 2048 > /sys/class/net/eth0/queues/rx-0/rps_flow_cnt":                                                 "rfs.flows=2048",
		"echo ff | sudo tee /sys/class/net/eth0/queues/rx-0/rps_cpus":                                              "rps=0-7",
		"echo f > /sys/class/net/eth0/queues/rx-0/rps_cpus":                                                        "rps=0-3",
		"echo 1,80000005 > /sys/class/net/eth0/queues/tx-3/xps_cpus":                                               "xps=0,2,31-32",
		"echo 0 > /sys/class/net/eth0/queues/rx-0/rps_cpus":                                                        "rps=none",
		"echo $MASK > /sys/class/net/eth0/queues/rx-0/rps_cpus":                                                    "",
		"echo 6 > /proc/irq/44/smp_affinity":                                                                       "nic.irq_affinity=1-2",
		"echo 9000 > /sys/class/net/eth0/mtu":                                                                      "link.mtu=9000",
		"/sbin/ifconfig eth0 mtu 9000":                                                                             "link.mtu=9000",
		`echo "net.core.rmem_max=67108864" | sudo tee -a /etc/sysctl.conf`:                                         "socket.recv_buffer_max=67108864",
		`sudo sh -c "echo 0 > /proc/sys/net/ipv4/tcp_timestamps"`:                                                  "tcp.timestamps=0",
		"ethtool -X eth0 equal 8":                                                                                  "",
		"modprobe tcp_htcp":                                                                                        "",
	} {
		e, ok := knob.NewIndex().Explain(line)
		if !ok {
			t.Errorf("%s: not known", line)
			continue
		}
		must.Equal(t, strings.Join(lists.Each(e.Sets, func(a model.Assignment) string { return string(a.Knob) + "=" + a.Value }), " "), want, "%s", line)
		must.Equal(t, len(e.Unknown), 0, "%s: %q", line, e.Unknown)
	}
}

// Settings that exist but that linerate does not set have an answer, and it names the unknown
// words of a known command.
func TestGuideLinesOutside(t *testing.T) {
	for name, want := range map[string]string{
		"net.ipv4.tcp_autocorking = 1": "small writes", "sunrpc.tcp_slot_table_entries=64": "NFS", "iommu=pt": "command line",
		"dev.ixl.3.fc=3": "flow control", "hw.em.max_interrupt_rate=8000": "interrupts a second", "TcpAckFrequency": "acknowledgement",
		"options igb InterruptThrottleRate=3000": "moderation", "mlnx_tune -p LOW_LATENCY_VMA": "vendor", "set_irq_affinity_bynode.sh 1 eth0": "one processor",
		"systemctl stop irqbalance.service": "moves interrupts", "tuned-adm profile my-own": "whenever it starts", "/sbin/modprobe tcp_htcp": "congestion control",
		"kldload cc_htcp": "congestion control", `cc_cubic_load="YES"`: "congestion control", "ethtool -N eth0 rx-flow-hash udp4 sdfn": "receive queue",
		"ethtool --set-priv-flags eth0 rx_cqe_compress on": "private flags", "/etc/init.d/irqbalance stop": "moves interrupts",
		`hw.em.rx_process_limit="-1"`: "at a time", "dev.ena.0.rx_queue_size=8192": "receive descriptors", "dev.ena.1.buf_ring_size": "wait for a transmit queue",
		"dev.ena.0.io_queues_nb=2": "queue pairs", `hw.ena.enable_9k_mbufs="1"`: "9 KiB", "hw.ena.force_large_llq_headers=1": "headers of a packet",
	} {
		e, ok := knob.NewIndex().Explain(name)
		if !ok || len(e.Outside) != 1 {
			t.Errorf("%s: %+v", name, e)
			continue
		}
		must.Contain(t, e.Outside[0].Does, want, "%s", name)
		for _, id := range e.Replaced() {
			_, ok := knob.NewIndex().ByID(id)
			must.True(t, ok, "%s: %s is no knob", name, id)
		}
	}
	e, ok := knob.NewIndex().Explain("ethtool -K eth0 ntuple on gro on")
	must.True(t, ok && slices.Equal(e.Unknown, []string{"ntuple"}) && len(e.Sets) == 1, "%+v", e)
	for _, name := range []string{"ip addr add 192.0.2.1/24 dev eth0", "tc filter show", "netsh wlan show all", "Get-NetRoute", "ethtool eth0",
		"setpci -s 05:00.0 0c.b=10", "setpci -s 05:00.0 68.w=0010:00f0", "systemctl stop firewalld", "modprobe -r tcp_htcp", "modprobe 8021q", "echo 1 > /sys/block/sda/queue/rotational"} {
		e, ok := knob.NewIndex().Explain(name)
		must.True(t, !ok, "%s: %+v", name, e)
	}
}

// TestUndoTime: a change that bounces a link takes up to 10 s (EffectBounce), and the budget
// has room for any number of such changes.
func TestUndoTime(t *testing.T) {
	for name, c := range map[string]struct {
		ids         []model.KnobID
		least, most time.Duration
	}{
		"nothing":              {nil, 10 * time.Second, time.Minute},
		"ten of the machine":   {slices.Repeat([]model.KnobID{"tcp.sack"}, 10), 20 * time.Second, time.Minute},
		"four that bounce":     {[]model.KnobID{"link.mtu", "nic.ring.rx", "nic.ring.tx", "nic.queues.combined"}, 60 * time.Second, 3 * time.Minute},
		"an unknown knob":      {[]model.KnobID{"of.tomorrow"}, 40 * time.Second, time.Minute},
		"more than a host has": {slices.Repeat([]model.KnobID{"link.mtu"}, 256), knob.MaxUndoTime, knob.MaxUndoTime},
	} {
		got := knob.NewIndex().UndoTime(c.ids...)
		must.True(t, got >= c.least && got <= c.most, "%s: %s, want %s to %s", name, got, c.least, c.most)
	}
}

// TestDriverModes: what ethtool shows as 3 us is a mode for the driver e1000e. linerate names
// the mode, and writes the plain number. The accepted values are those that the driver took in
// a real machine.
func TestDriverModes(t *testing.T) {
	plain, ok := knob.NewIndex().ByID("nic.coalesce.rx_usecs")
	must.Need(t, ok, "no such knob")
	for _, c := range []struct{ raw, text string }{
		{"3 (e1000e)", "3 (mode dynamic, conservative)"}, {"1 (e1000e)", "1 (mode dynamic)"}, {"0 (e1000e)", "0 (no moderation)"},
		{"4 (e1000)", "4 (mode simplified balancing)"}, {"50 (e1000e)", "50 µs"}, {"3", "3 µs"}, {"3 (ixgbe)", "3 µs"},
	} {
		must.Equal(t, must.Get(plain.Text("linux", c.raw))(t), c.text, "%q reads", c.raw)
		value, err := plain.Decode("linux", c.raw)
		back, err2 := plain.Encode("linux", c.raw, value)
		must.True(t, err == nil && err2 == nil && knob.Holds(back, c.raw) && !strings.Contains(back, "("),
			"%q is %q, and %q again: %v, %v", c.raw, value, back, err, err2)
	}
	of := plain.From("coalesce.rx-usecs of eth0 (e1000e)")
	got, want := of.Range("linux"), "0 (no moderation), 1 (mode dynamic), 3 (mode dynamic, conservative), 4 (mode simplified balancing), or 10 to 10000 µs"
	must.True(t, got == want, "range %q, want %q", got, want)
	must.Equal(t, plain.From("coalesce.rx-usecs of eth0").Range("linux"), "0 to 1000000 µs", "range of another driver")
	for text, fits := range map[string]bool{"0": true, "1": true, "2": false, "3": true, "4": true, "5": false, "9": false, "10": true, "10000": true, "10001": false} {
		_, err := of.Parse(text)
		must.True(t, (err == nil) == fits, "%s: %v", text, err)
	}
	for number, fits := range map[uint32]bool{0: true, 1: true, 2: false, 3: true, 4: true, 5: false, 9: false, 10: true, 50: true, 10000: true, 10001: false} {
		must.Equal(t, knob.DriverTakes("e1000e", "coalesce.rx-usecs", number) == nil, fits, "%d", number)
		must.OK(t, knob.DriverTakes("mlx5_core", "coalesce.rx-usecs", number), "another driver, %d", number)
	}
	must.Fail(t, knob.DriverTakes("igb", "coalesce.tx-usecs", 4), "igb has no mode 4")
	k, _ := knob.NewIndex().ByID("nic.ring.rx")
	must.True(t, k.From("rings.rx of eth0 (e1000e)").Named == nil, "a ring has modes")
}

// TestReasons: errors of reading a setting become reasons of the closed list.
func TestReasons(t *testing.T) {
	reading := func(err error) error {
		return &knob.Error{Op: "read", Knob: "nic.wol", Place: "wol.modes of em0", Err: err}
	}
	unsupported := fmt.Errorf("the device cannot wake the machine: %w", errors.ErrUnsupported)
	_, elsewhere := knob.Knob{ID: "netisr.dispatch"}.On("windows")
	_, unset := knob.Knob{Native: map[string]knob.Native{"windows": {Mechanism: knob.WinReg}}}.Decode("windows", "absent")
	for _, c := range []struct {
		err    error
		device bool
		want   knob.Reason
	}{
		{elsewhere, false, knob.NotOnSystem},
		{knob.Because(knob.NoPath, unsupported), true, knob.NoPath},
		{reading(fs.ErrNotExist), false, knob.NotInKernel},
		{reading(unsupported), false, knob.NotInKernel},
		{reading(unsupported), true, knob.NotInDriver},
		{unset, false, knob.NotSet},
		{reading(fmt.Errorf("registers: %w", fs.ErrPermission)), true, knob.NoRights},
		{reading(syscall.EPERM), false, knob.NoRights},
		{reading(syscall.EIO), true, knob.OtherReason},
	} {
		v := knob.Unread(c.err, c.device)
		must.True(t, knob.ReasonOf(v) == c.want && v.Reason() == c.err.Error(), "%v: %s", c.err, knob.ReasonOf(v))
	}
	must.Equal(t, knob.ReasonOf(fact.Unknown[string]("x")), knob.NotReported, "without a code")
	must.Equal(t, knob.ReasonOf(fact.Coded[string]("no_idea", "x")), knob.OtherReason, "with a code of another list")
}

// TestReasonsAreDocumented: docs/json.md lists each reason in the program's words.
func TestReasonsAreDocumented(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "docs", "json.md")))(t)
	for _, r := range knob.Reasons() {
		must.Contain(t, string(text), "| `"+string(r.Reason)+"` | "+r.Words+" |", "docs/json.md has no row")
	}
}
