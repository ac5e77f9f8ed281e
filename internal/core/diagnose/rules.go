package diagnose

// look checks one direction for one limit. It reports false if the evidence does not show it.
type look func(features) (*finding, bool)

// Rule is one limit or observation of a direction. Its section in docs/diagnosis.md, under its
// ID and name, says what it means, how linerate knows it and what to do.
type Rule struct {
	ID   string // of docs/reference/diagnosis.md sections 4 and 6.1
	Name string
	look look // nil: it is found beside another one, or not yet
}

// Rules lists all rules, in the order of diagnosis.md section 4.1: a faulty wire before TCP,
// TCP before the hosts. The order decides between limits that explain equally much.
func Rules() []Rule {
	return []Rule{
		{"dead", "dead direction", deadDirection},
		{"M2", "black hole for large packets", nil},
		{"B32", "measurement that cannot be", wrongCeiling},
		{"B02", "duplex mismatch", duplex},
		{"B03", "half duplex", nil},
		{"B01", "link slower than both cards", slowLink},
		{"B27", "speed left low by wake-on-LAN", nil},
		{"B04", "wire errors", wireErrors},
		{"B25", "link that goes down", flapped},
		{"B24", "device resets", deviceReset},
		{"B05", "flow control", pauses},
		{"B39", "allowance of a cloud", allowance},
		{"B11", "reordering", reordering},
		{"B09", "no window scaling", noScaling},
		{"B07", "receive window", receiveWindow},
		{"B08", "send buffer", sendBuffer},
		{"W01", "radio", radio},
		{"B14b", "slow start that ended early", leftEarly},
		{"B10", "single losses on a long path", singleLosses},
		{"B14", "short test", shortTest},
		{"B13", "network buffers of BSD", bufferShortage},
		{"B20", "large buffers for jumbo frames", largeBuffers},
		{"B26", "firewall or connection tracking", tracking},
		{"B17", "drops in a host", hostDropped},
		{"B37", "backlog of a virtual device", nil},
		{"B33", "way between card and memory", nil},
		{"B10", "packet loss", loss},
		{"B10", "packet loss under bbr", lossUnderBBR},
		{"R01", "acknowledgements that fill the way back", ackLimited},
		{"R01", "acknowledgements behind data", behindData},
		{"B18", "medium or limit shared by both directions", sharedMedium},
		{"B06", "slower, shaped or policed path", slowStage},
		{"B06", "shaper of the host's own", shaper},
		{"B06", "short queue on the path", shortQueue},
		{"B16", "CPU of the receiver", cpuRule(receiverOf)},
		{"B16", "CPU of the sender", cpuRule(senderOf)},
		{"B23", "processor that is slow or shared", stolen},
		{"B18", "bus of the card", bus},
		{"B19", "memory or processor of one host", ownLimit},
		{"B12", "socket memory", memory},
		{"B40", "one connection on a bond", bondMember},
		{"B31", "emulated card", emulated},
		{"B36", "bbr without pacing", oddBBR},
		{"B21", "receiving application", slowReader},
		{"B21", "sending application", application},
		{"B29", "small packets or writes", smallPackets},
		{"B30", "queue that is too long", bloat},
		{"W02", "radio that sleeps", powerSave},
		{"M1", "MTU of the two ends differs", mismatch},
		{"M8", "path with smaller packets", nil},
		{"B22", "disk", disk},
		{"B28", "interrupt moderation", moderation},
		{"B38", "receive buffer too large", overshoot},
		{"B42", "old kernel", oldKernel},
		{"B15", "remembered path", remembered},
		{"B41", "tunnel", tunnel},
		{"B43", "layer in between", layer},
		{"B34", "sticky transmit queue", oneQueue},
		{"B35", "ECN damaged on the way", damagedMarks},
		{"fault", "measurement fault", impossible},
		{"ceiling", "nothing to tune", nil},
		{"unknown", "limit not found", nil},
	}
}
