package knob

import (
	"math"
	"slices"
)

// Catalogue returns every knob that linerate knows, in the order in which
// people should see them. The slice is the caller's own.
//
// The tags in Source are those of the knob catalogue's study: [L6.1 file] is
// Linux 6.1 source, [Ldoc] its ip-sysctl.rst, [B13] FreeBSD 13 source, [X] xnu
// 11417, [W] Microsoft's documentation, [E18] an experiment on Linux 6.18.
func Catalogue() []Knob {
	return slices.Concat(bufferKnobs(), tcpKnobs(), linkKnobs(), flowKnobs())
}

// minCeiling is the least autotuning ceiling that linerate sets: the default
// of the first field of tcp_rmem and tcp_wmem (SK_MEM_QUANTUM, one page, in
// net/ipv4/tcp.c tcp_init). The kernel itself accepts 1.
const minCeiling = 4096

func bufferKnobs() []Knob {
	return []Knob{
		{
			ID: "tcp.recv_buffer_max", Summary: "ceiling of receive buffer autotuning",
			Scope: ScopeHost, Type: TypeBytes, Min: minCeiling, Max: math.MaxInt32,
			Effect: EffectNew, Risk: RiskWaste, Stage: StageCeiling,
			Native: map[string]Native{
				"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_rmem", Encoding: Ceiling},
				"freebsd": {Name: "net.inet.tcp.recvbuf_max"},
				"darwin":  {Name: "net.inet.tcp.autorcvbufmax"},
				"windows": {Name: "AutoTuningLevelLocal"},
			},
			Defaults: []Default{
				{"linux", "6 MiB, less on small machines"}, {"linux since 6.18", "32 MiB"},
				{"freebsd 12 to 15", "2 MiB"}, {"darwin with 4 GiB of memory", "4 MiB"}, {"windows", "16 MiB (level Normal)"},
			},
			Verify: "on a new connection the receiver's window scale, the time limited by the receive window, the rate",
			Source: "[L6.1 net/ipv4/tcp.c tcp_init; tcp_output.c tcp_select_initial_window] [B13 tcp_input.c] [X tcp_subr.c] [E18]",
		},
		{
			ID: "tcp.send_buffer_max", Summary: "ceiling of send buffer autotuning",
			Scope: ScopeHost, Type: TypeBytes, Min: minCeiling, Max: math.MaxInt32,
			Effect: EffectNow, Risk: RiskWaste, Stage: StageCeiling,
			Native: map[string]Native{
				"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_wmem", Encoding: Ceiling},
				"freebsd": {Name: "net.inet.tcp.sendbuf_max"},
				"darwin":  {Name: "net.inet.tcp.autosndbufmax"},
			},
			Defaults: []Default{
				{"linux", "4 MiB, less on small machines"}, {"freebsd 12 to 15", "2 MiB"}, {"darwin with 4 GiB of memory", "4 MiB"},
			},
			Verify: "the time limited by the send buffer falls",
			Source: "[L6.1 net/ipv4/tcp.c tcp_init] [B13 tcp_output.c] [X tcp_subr.c]",
		},
	}
}

func tcpKnobs() []Knob {
	return []Knob{
		{
			ID: "tcp.congestion_control", Summary: "congestion control of the sender",
			Scope: ScopeHost, Type: TypeName, Effect: EffectNew, Risk: RiskSlow,
			Native: map[string]Native{
				"linux": {Mechanism: Sysctl, Name: "net.ipv4.tcp_congestion_control",
					Choices: "net.ipv4.tcp_available_congestion_control"},
				"freebsd": {Name: "net.inet.tcp.cc.algorithm", Choices: "net.inet.tcp.cc.available"},
				"darwin":  {Name: "net.inet.tcp.use_newreno"},
				"windows": {Name: "CongestionProvider"},
			},
			Defaults: []Default{{"linux", "cubic, by kernel build"}, {"freebsd before 14", "newreno"}, {"freebsd since 14", "cubic"}, {"darwin", "cubic"}},
			Verify:   "the name that TCP_CONGESTION gives on a new connection",
			Source:   "[Ldoc tcp_congestion_control] [B12 mod_cc] [X tcp_sysctls.c] [W]",
		},
		switchKnob("tcp.window_scaling", "TCP window scaling (RFC 7323 section 2)", EffectNew, true, map[string]Native{
			"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_window_scaling"},
			"freebsd": {Name: "net.inet.tcp.rfc1323"}, // shared with timestamps
		}, "both window scales on a new connection; 0 when off", "[L6.1] [B14 tcp_syncache.c] [E18]"),
		{
			ID: "tcp.timestamps", Summary: "TCP timestamps (RFC 7323 section 3)",
			Scope: ScopeHost, Type: TypeEnum,
			Choices: []Choice{{"0", "off"}, {"1", "on, with a random offset"}, {"2", "on, without an offset"}},
			Effect:  EffectNew, Risk: RiskSlow, NeedsBoth: true,
			Native: map[string]Native{
				"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_timestamps"},
				"freebsd": {Name: "net.inet.tcp.rfc1323"},
				"darwin":  {Name: "net.inet.tcp.do_timestamps"},
				"windows": {Name: "Timestamps"},
			},
			Defaults: []Default{{"linux", "1"}, {"freebsd", "1"}, {"darwin", "1"}, {"windows", "off"}},
			Verify:   "the timestamp option on a new connection",
			Source:   "[Ldoc tcp_timestamps] [B14] [X] [W]",
		},
		switchKnob("tcp.sack", "TCP selective acknowledgements (RFC 2018)", EffectNew, true, map[string]Native{
			"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_sack"},
			"freebsd": {Name: "net.inet.tcp.sack.enable"},
			"darwin":  {Name: "net.inet.tcp.sack"},
		}, "the SACK option on a new connection", "[Ldoc tcp_sack] [B13] [X]"),
		{
			ID: "tcp.mtu_probing", Summary: "TCP finds the path MTU itself (RFC 4821)",
			Scope: ScopeHost, Type: TypeEnum,
			Choices: []Choice{{"0", "off"}, {"1", "after a black hole was noticed"}, {"2", "always, from tcp_base_mss up"}},
			Effect:  EffectNew, Risk: RiskWaste,
			Native: map[string]Native{
				"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_mtu_probing"},
				"freebsd": {Name: "net.inet.tcp.pmtud_blackhole_detection"},
				"darwin":  {Name: "net.inet.tcp.pmtud_blackhole_detection"},
				"windows": {Name: "EnablePMTUBHDetect"},
			},
			Defaults: []Default{{"linux", "0"}, {"darwin", "1"}},
			Verify:   "the segment size of a new connection, and the counter TCPMTUPSuccess",
			Source:   "[Ldoc tcp_mtu_probing] [L6.1 tcp_output.c, tcp_timer.c] [X tcp_timer.c] [E18]",
		},
		switchKnob("tcp.slow_start_after_idle", "TCP starts slowly again after a pause (RFC 2861)", EffectNow, false, map[string]Native{
			"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_slow_start_after_idle"},
			"windows": {Name: "CwndRestart"},
		}, "the congestion window after a pause", "[Ldoc tcp_slow_start_after_idle] [W]"),
	}
}

// switchKnob is an on/off knob of the TCP stack, on by default.
func switchKnob(id, summary string, e Effect, needsBoth bool, native map[string]Native, verify, source string) Knob {
	k := Knob{
		Summary: summary, Scope: ScopeHost, Type: TypeBool, Effect: e, Risk: RiskSlow, NeedsBoth: needsBoth,
		Native: native, Verify: verify, Source: source,
	}
	k.ID = knobID(id)
	for _, system := range []string{"linux", "freebsd", "darwin"} {
		if _, ok := native[system]; ok {
			k.Defaults = append(k.Defaults, Default{system, "1"})
		}
	}
	return k
}

func linkKnobs() []Knob {
	return []Knob{
		{
			// C-07: 576 bytes always, 1280 where IPv6 is in use (RFC 791, RFC 8200
			// section 5); the device's own range is checked before a change.
			ID: "link.mtu", Summary: "largest IP packet on the link",
			Scope: ScopeLink, Type: TypeBytes, Min: 576, Max: 65535,
			Effect: EffectBounce, Risk: RiskConnection, NeedsBoth: true,
			Native: map[string]Native{
				"linux":   {Mechanism: Link, Name: "mtu"},
				"freebsd": {Name: "SIOCSIFMTU"},
				"darwin":  {Name: "SIOCSIFMTU"},
				"windows": {Name: "NlMtuBytes"},
			},
			Defaults: []Default{{"ethernet", "1500"}},
			Verify:   "the segment size of a new connection, and a full-size probe that may not be fragmented, both ways",
			Source:   "[L6.1 net/core/dev.c dev_validate_mtu; if_ether.h] [B13] [X] [W]",
		},
		{
			ID: "txqueuelen", Summary: "packets that may wait in front of the device",
			Scope: ScopeLink, Type: TypeInt, Unit: "packets", Min: 0, Max: 1_000_000,
			Effect: EffectNow, Risk: RiskSlow,
			Native: map[string]Native{
				"linux":   {Mechanism: Link, Name: "txqlen"},
				"freebsd": {Name: "net.link.ifqmaxlen"}, // boot time only
			},
			Defaults: []Default{{"linux", "1000; 0 or 1000 on virtual devices"}, {"freebsd", "50"}},
			Verify:   "drops and backlog of the queueing discipline",
			Source:   "[L6.1 include/net/pkt_sched.h DEFAULT_TX_QUEUE_LEN]; the upper end is linerate's, far above any use",
		},
	}
}

func flowKnobs() []Knob {
	flow := func(id, summary string, k Knob) Knob {
		k.ID, k.Summary, k.Scope, k.Effect = knobID(id), summary, ScopeFlow, EffectNew
		return k
	}
	return []Knob{
		flow("window", "socket buffers of the test (SO_SNDBUF and SO_RCVBUF); turns autotuning off", Knob{
			Type: TypeBytes, Min: 1024, Max: math.MaxInt32, Zero: "auto",
			Source: "[L6.1 net/core/sock.c; SOCK_MIN_RCVBUF is about 2.3 KiB after the kernel's doubling]",
		}),
		flow("mss", "largest TCP segment of the test (TCP_MAXSEG)", Knob{
			Type: TypeInt, Unit: "bytes", Min: 88, Max: 32767, Zero: "auto",
			Source: "[L6.1 net/ipv4/tcp.c do_tcp_setsockopt: TCP_MIN_MSS to MAX_TCP_WINDOW]",
		}),
		flow("streams", "parallel connections in each direction", Knob{
			Type: TypeInt, Unit: "streams", Min: 1, Max: 128,
			Source: "iperf3 3.17 src/iperf.h MAX_STREAMS, so that results stay comparable",
		}),
		flow("block", "bytes that the test hands to the system in one write", Knob{
			Type: TypeBytes, Min: 1, Max: 64 << 20, Zero: "auto",
			Source: "the upper end is linerate's: the largest block that one write copies without pause",
		}),
		flow("nodelay", "TCP_NODELAY: send small segments at once (RFC 9293 section 3.7.4)", Knob{
			Type: TypeBool, Source: "RFC 9293 section 3.7.4",
		}),
		flow("congestion", "congestion control of the test's connections (TCP_CONGESTION)", Knob{
			Type: TypeName, Source: "[L6.1 net/ipv4/tcp_cong.c tcp_set_congestion_control]",
		}),
	}
}
