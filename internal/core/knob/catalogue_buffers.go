package knob

// sockMinRcvbuf is the least receive buffer that Linux allows a socket, SOCK_MIN_RCVBUF of
// include/net/sock.h, rounded up because it varies by kernel.
const sockMinRcvbuf = 2304

// minSockbuf is the least kern.ipc.maxsockbuf of FreeBSD: MSIZE + MCLBYTES ([B13
// uipc_sockbuf.c]); macOS requires more ([X socketvar.h]).
const (
	minSockbuf       = 2304
	minSockbufDarwin = 18433
)

func bufferKnobs() []Knob {
	return []Knob{
		{
			ID: "socket.buffer_max", Summary: "largest socket buffer of any kind, the limit of all others",
			Scope: ScopeHost, Type: TypeBytes, Min: minSockbuf, Max: most, Effect: EffectNew, Risk: RiskUnreachable, Stage: StageLimit,
			Native: map[string]Native{
				"freebsd": {Mechanism: Sysctl, Name: "kern.ipc.maxsockbuf", Min: minSockbuf, Max: most,
					Note: "a buffer may have 8/9 of it; the window scale of every connection is computed from it"},
				"darwin": {Mechanism: Sysctl, Name: "kern.ipc.maxsockbuf", Min: minSockbufDarwin, Max: most,
					Note: "tied to the cluster pool: a refusal with \"result too large\" is normal"},
			},
			Defaults: defaults("freebsd 12 to 15", "2 MiB", "freebsd before 8", "256 KiB", "darwin", "8 MiB, less with little memory"),
			Verify:   "a new local TCP socket can be made; the window scale of a new connection",
			Source:   "[B13 uipc_sockbuf.c] [B14] [X socketvar.h, uipc_socket2.c, uipc_mbuf.c]",
		},
		{
			ID: "socket.recv_buffer_max", Summary: "largest receive buffer that a program may ask for (SO_RCVBUF)",
			Scope: ScopeHost, Type: TypeBytes, Min: sockMinRcvbuf, Max: most, Effect: EffectNew, Risk: RiskWaste, Stage: StageLimit,
			Native:   sysctls("net.core.rmem_max", "", ""),
			Defaults: defaults("linux to 6.17", "212992", "linux since 6.18", "4 MiB"),
			Source:   "[L6.1 net/core/sock.c] [E18]; it never limited autotuned sockets, but it feeds the window scale",
		},
		{
			ID: "socket.send_buffer_max", Summary: "largest send buffer that a program may ask for (SO_SNDBUF)",
			Scope: ScopeHost, Type: TypeBytes, Min: 4608, Max: most, Effect: EffectNew, Risk: RiskWaste, Stage: StageLimit,
			Native:   sysctls("net.core.wmem_max", "", ""),
			Defaults: defaults("linux to 6.17", "212992", "linux since 6.18", "4 MiB"),
			Source:   "[L6.1 net/core/sock.c; SOCK_MIN_SNDBUF is about 4.5 KiB] [E18]",
		},
		{
			ID: "socket.recv_buffer_default", Summary: "receive buffer of a socket that is not TCP",
			Scope: ScopeHost, Type: TypeBytes, Min: sockMinRcvbuf, Max: most, Effect: EffectNew, Risk: RiskWaste, Stage: StageInitial,
			Native: on(sysctls("net.core.rmem_default", "net.inet.udp.recvspace", "net.inet.udp.recvspace"),
				"windows", Native{Name: "DefaultReceiveWindow", Note: "of AFD.sys, said to be read for UDP; not confirmed [K]"}),
			Defaults: defaults("linux", "212992", "freebsd", "42080"), Source: "[L6.1 net/core/sock.c] [B13 udp_usrreq.c] [E18]",
		},
		{
			ID: "socket.send_buffer_default", Summary: "send buffer of a socket that is not TCP",
			Scope: ScopeHost, Type: TypeBytes, Min: 4608, Max: most, Effect: EffectNew, Risk: RiskWaste, Stage: StageInitial,
			Native: sysctls("net.core.wmem_default", "", ""), Defaults: defaults("linux", "212992"), Source: "[L6.1 net/core/sock.c] [E18]",
		},
		{
			ID: "tcp.recv_buffer_max", Summary: "ceiling of receive buffer autotuning",
			Scope: ScopeHost, Type: TypeBytes, Min: minCeiling, Max: most, Effect: EffectNew, Risk: RiskWaste, Stage: StageCeiling,
			Native: map[string]Native{
				"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_rmem", Encoding: Ceiling, Note: "growth at once, the window scale on new connections"},
				"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.recvbuf_max", Note: "without a larger socket.buffer_max the window scale does not grow"},
				"darwin":  {Mechanism: Sysctl, Name: "net.inet.tcp.autorcvbufmax"},
				"windows": {Mechanism: WinTCP, Name: "AutoTuningLevelLocal", Encoding: Level, Note: "a level: the least one that allows the size"},
			},
			Defaults: defaults("linux", "6 MiB, less on small machines", "linux since 6.18", "32 MiB",
				"freebsd 12 to 15", "2 MiB", "darwin with 4 GiB of memory", "4 MiB", "windows", "16 MiB (level Normal)"),
			Source: "[L6.1 net/ipv4/tcp.c tcp_init; tcp_output.c tcp_select_initial_window] [B13 tcp_input.c] [X tcp_subr.c] [E18]",
		},
		{
			ID: "tcp.recv_buffer_initial", Summary: "first size of a TCP receive buffer",
			Scope: ScopeHost, Type: TypeBytes, Min: 1, Max: most, Effect: EffectNew, Risk: RiskUnreachable, Stage: StageInitial,
			Native: map[string]Native{
				"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_rmem", Encoding: Initial},
				"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.recvspace", Note: "above 8/9 of socket.buffer_max no TCP socket can be made at all"},
				"darwin":  {Mechanism: Sysctl, Name: "net.inet.tcp.recvspace"},
			},
			Defaults: defaults("linux", "131072", "freebsd", "65536", "darwin", "556032"),
			When:     "short transfers on long paths start slowly", Verify: "the window in the first segment of a new connection",
			Source: "[L6.1 tcp.c] [B13 tcp_input.c, tcp_usrreq.c tcp_usr_attach] [X tcp_usrreq.c]",
		},
		{
			ID: "tcp.recv_buffer_min", Summary: "receive buffer that a TCP socket keeps when memory is short",
			Scope: ScopeHost, Type: TypeBytes, Min: 1, Max: most, Effect: EffectNew, Risk: RiskWaste, Stage: StageNone,
			Native:   only("linux", Native{Mechanism: Sysctl, Name: "net.ipv4.tcp_rmem", Encoding: Least}),
			Defaults: defaults("linux", "4096"), Source: "[L6.1 tcp.c tcp_init] [Ldoc]",
		},
		{
			ID: "tcp.send_buffer_max", Summary: "ceiling of send buffer autotuning",
			Scope: ScopeHost, Type: TypeBytes, Min: minCeiling, Max: most, Effect: EffectNow, Risk: RiskWaste, Stage: StageCeiling,
			Native: map[string]Native{
				"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_wmem", Encoding: Ceiling},
				"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.sendbuf_max"},
				"darwin":  {Mechanism: Sysctl, Name: "net.inet.tcp.autosndbufmax"},
			},
			Defaults: defaults("linux", "4 MiB, less on small machines", "freebsd 12 to 15", "2 MiB", "darwin with 4 GiB of memory", "4 MiB"),
			Source:   "[L6.1 net/ipv4/tcp.c tcp_init] [B13 tcp_output.c] [X tcp_subr.c]",
		},
		{
			ID: "tcp.send_buffer_initial", Summary: "first size of a TCP send buffer",
			Scope: ScopeHost, Type: TypeBytes, Min: 1, Max: most, Effect: EffectNew, Risk: RiskUnreachable, Stage: StageInitial,
			Native: map[string]Native{
				"linux":   {Mechanism: Sysctl, Name: "net.ipv4.tcp_wmem", Encoding: Initial},
				"freebsd": {Mechanism: Sysctl, Name: "net.inet.tcp.sendspace", Note: "above 8/9 of socket.buffer_max no TCP socket can be made at all"},
				"darwin":  {Mechanism: Sysctl, Name: "net.inet.tcp.sendspace"},
			},
			Defaults: defaults("linux", "16384", "freebsd", "32768", "darwin", "370688"),
			Source:   "[L6.1 tcp.c] [B13 tcp_output.c, tcp_usrreq.c tcp_usr_attach] [X tcp_usrreq.c]",
		},
		{
			ID: "tcp.send_buffer_min", Summary: "send buffer that a TCP socket keeps when memory is short",
			Scope: ScopeHost, Type: TypeBytes, Min: 1, Max: most, Effect: EffectNew, Risk: RiskWaste,
			Native:   only("linux", Native{Mechanism: Sysctl, Name: "net.ipv4.tcp_wmem", Encoding: Least}),
			Defaults: defaults("linux", "4096"), Source: "[L6.1 tcp.c tcp_init] [Ldoc]",
		},
		{
			ID: "tcp.send_buffer_step", Summary: "bytes by which an autotuned send buffer grows at a time",
			Scope: ScopeHost, Type: TypeBytes, Min: 1, Max: most, Effect: EffectNow, Risk: RiskWaste,
			Native:   sysctls("", "net.inet.tcp.sendbuf_inc", "net.inet.tcp.autosndbufinc"),
			Defaults: defaults("freebsd", "8192", "darwin", "8192"), When: "10 Gbit/s over long paths: 64 KiB or more",
			Source: "[B13 tcp_output.c] [X tcp_output.c]",
		},
	}
}
