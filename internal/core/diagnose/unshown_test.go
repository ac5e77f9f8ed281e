package diagnose

// unshown says of each rule of which no real run is quoted why there is none, and what
// would show it. Virtual hosts share one kernel and have no card.
func unshown() map[string]string {
	return map[string]string{
		"B27 speed left low by wake-on-LAN":  "needs a card that can wake its host, at 10 or 100 Mbit/s.",
		"B04 wire errors":                    "needs a card that checks frames, and a bad cable. A virtual interface carries frames without a checksum.",
		"B24 device resets":                  "needs a card that hangs, or a driver that can be made to report it.",
		"B05 flow control":                   "needs a card that counts pause frames, and a peer or switch that sends them.",
		"B39 allowance of a cloud":           "needs an instance whose card counts what it cuts, such as ENA of Amazon.",
		"B13 network buffers of BSD":         "needs a FreeBSD host whose buffers are used up.",
		"B20 large buffers for jumbo frames": "needs a card with an MTU above 4074 in a host whose memory is in pieces.",
		"B18 bus of the card":                "needs a card in a slot that is slower than its link. The lab's own bus is told by what it does: the next section.",
		"B40 one connection on a bond":       "needs a bond of two interfaces with a known rate, and a kernel with that driver.",
		"B36 bbr without pacing":             "needs a Linux older than 4.13.",
		"B22 disk":                           "needs a disk that is slower than the network, and linerate check --disk.",
		"B28 interrupt moderation":           "needs a card whose moderation can be read and is half a round trip or more.",
		"B38 receive buffer too large":       "needs a path below 1 ms that is so fast that the receiving thread never sleeps, from about 40 Gbit/s on.",
		"B42 old kernel":                     "needs a Linux older than 6.8 whose processor is full.",
		"B15 remembered path":                "needs a host on which linerate may not forget what TCP remembers, as it does before each run where it may, and that remembers thresholds (tcp_no_ssthresh_metrics_save=0).",
		"B43 layer in between":               "needs the Windows Subsystem for Linux or Docker Desktop.",
		"fault measurement fault":            "needs a host whose clock or counters are wrong.",
		"B34 sticky transmit queue":          "needs a card with several transmit queues whose driver counts each.",
	}
}
