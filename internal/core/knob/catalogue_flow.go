package knob

func flowKnobs() []Knob {
	flow := func(id, summary string, k Knob) Knob {
		k.ID, k.Summary, k.Scope, k.Effect = knobID(id), summary, ScopeFlow, EffectNew
		return k
	}
	return []Knob{
		flow("window", "socket buffers of the test (SO_SNDBUF and SO_RCVBUF); turns autotuning off", Knob{
			Type: TypeBytes, Min: 1024, Max: most, Zero: "auto",
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
		flow("rate", "payload per second of UDP in each direction, over all streams", Knob{
			Type: TypeRate, Min: 1_000, Max: 1_000_000_000_000, Zero: "unlimited",
			Source: "the range is linerate's: from less than a call takes to more than one host sends",
		}),
	}
}
