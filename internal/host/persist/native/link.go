package native

import (
	"strings"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// linkOwner renders systemd.link(5), which udev reads when a device appears.
type linkOwner struct{}

func (linkOwner) why(e *entry) string {
	if e.native.Mechanism != knob.Route {
		return noOwner(e)
	}
	key := map[model.KnobID]string{
		"route.mtu": "MTUBytes", "route.advmss": "TCPAdvertisedMaximumSegmentSize", "route.initcwnd": "InitialCongestionWindow",
		"route.initrwnd": "InitialAdvertisedReceiveWindow", "route.quickack": "QuickAck", "route.rto_min": "TCPRetransmissionTimeoutSec",
	}[e.knob.ID]
	if key == "" {
		return noOwner(e)
	}
	return key + "= belongs into the [Route] section of the interface's own .network file: a second .network file would replace that one whole"
}

func (linkOwner) render(r *rendering) {
	all := r.lines(linkKeys())
	if len(all) == 0 {
		return
	}
	p := r.page("/etc/systemd/network/10-linerate-" + r.in.Interface + ".link")
	p.comments(r.head()...)
	p.comments("Only the first .link file that matches a device counts, in the order of the names: this one",
		"stands in for 99-default.link and repeats its policies, so that the device keeps its names.",
		"It is read when the device appears: restart, or unbind and bind the driver.")
	p.blank()
	p.line("[Match]")
	if r.in.MAC != "" {
		p.line("MACAddress=%s", r.in.MAC)
	} else {
		p.comments("By the kernel's own name for it; one that was renamed since needs its address instead.")
		p.line("OriginalName=%s", r.in.Interface)
		r.note("the .link file finds the device by its name: give its MAC address if the name is not the kernel's own")
	}
	p.blank()
	p.line("[Link]")
	p.line("NamePolicy=keep kernel database onboard slot path")
	p.line("AlternativeNamesPolicy=database onboard slot path")
	p.line("MACAddressPolicy=persistent")
	for _, e := range all {
		p.blank()
		p.entry(e.entry)
		for _, l := range e.lines {
			p.line("%s", l)
		}
	}
	r.out.Commands = append(r.out.Commands, "udevadm control --reload")
}

// linkKeys are the keys of systemd.link(5), version 252.
func linkKeys() map[model.KnobID]keys {
	return map[model.KnobID]keys{
		"link.mtu":                 key("MTUBytes=VALUE"),
		"txqueuelen":               key("TransmitQueueLength=VALUE"),
		"nic.media.autoneg":        keyOf("AutoNegotiation=VALUE", yes),
		"nic.media.speed":          linkSpeed,
		"nic.media.duplex":         unlessAuto("Duplex=VALUE"),
		"nic.media.advertise":      linkAdvertise,
		"nic.pause.rx":             keyOf("RxFlowControl=VALUE", yes),
		"nic.pause.tx":             keyOf("TxFlowControl=VALUE", yes),
		"nic.pause.autoneg":        keyOf("AutoNegotiationFlowControl=VALUE", yes),
		"nic.wol":                  linkWakeOnLAN,
		"nic.ring.rx":              key("RxBufferSize=VALUE"),
		"nic.ring.rx_jumbo":        key("RxJumboBufferSize=VALUE"),
		"nic.ring.tx":              key("TxBufferSize=VALUE"),
		"nic.queues.rx":            key("RxChannels=VALUE"),
		"nic.queues.tx":            key("TxChannels=VALUE"),
		"nic.queues.combined":      key("CombinedChannels=VALUE"),
		"nic.coalesce.rx_usecs":    key("RxCoalesceSec=VALUEus"),
		"nic.coalesce.tx_usecs":    key("TxCoalesceSec=VALUEus"),
		"nic.coalesce.rx_frames":   key("RxMaxCoalescedFrames=VALUE"),
		"nic.coalesce.tx_frames":   key("TxMaxCoalescedFrames=VALUE"),
		"nic.coalesce.adaptive_rx": keyOf("UseAdaptiveRxCoalesce=VALUE", yes),
		"nic.coalesce.adaptive_tx": keyOf("UseAdaptiveTxCoalesce=VALUE", yes),
		"nic.offload.rx_csum":      keyOf("ReceiveChecksumOffload=VALUE", yes),
		"nic.offload.tx_csum":      keyOf("TransmitChecksumOffload=VALUE", yes),
		"nic.offload.gso":          keyOf("GenericSegmentationOffload=VALUE", yes),
		"nic.offload.gro":          keyOf("GenericReceiveOffload=VALUE", yes),
		"nic.offload.gro_hw":       keyOf("GenericReceiveOffloadHardware=VALUE", yes),
		"nic.offload.lro":          keyOf("LargeReceiveOffload=VALUE", yes),
		"nic.offload.vlan_rx":      keyOf("ReceiveVLANCTAGHardwareAcceleration=VALUE", yes),
		"nic.offload.vlan_tx":      keyOf("TransmitVLANCTAGHardwareAcceleration=VALUE", yes),
		"nic.gso_max_size":         key("GenericSegmentOffloadMaxBytes=VALUE"),
		"nic.offload.tso": func(v string) []string {
			return []string{"TCPSegmentationOffload=" + yes(v), "TCP6SegmentationOffload=" + yes(v)}
		},
	}
}

// unlessAuto is key for values that are no setting while modes are negotiated.
func unlessAuto(format string) keys {
	return func(v string) []string {
		if v == "auto" || v == "0" {
			return []string{"AutoNegotiation=yes"}
		}
		return key(format)(v)
	}
}

// linkSpeed fixes the mode, as the knob does.
func linkSpeed(v string) []string {
	lines := unlessAuto("BitsPerSecond=VALUEM")(v)
	if v != "0" {
		lines = append(lines, "AutoNegotiation=no")
	}
	return lines
}

// linkAdvertise writes a list such as 100baseT/Full,1000baseT/Full, one key a
// mode: 1000baset-full.
func linkAdvertise(v string) []string {
	var all []string
	for mode := range strings.SplitSeq(v, ",") {
		all = append(all, "Advertise="+strings.ReplaceAll(strings.ToLower(mode), "/", "-"))
	}
	return all
}

// linkWakeOnLAN has no word for "filter".
func linkWakeOnLAN(v string) []string {
	words := map[string]string{
		"none": "off", "phy": "phy", "ucast": "unicast", "mcast": "multicast", "bcast": "broadcast", "arp": "arp", "magic": "magic", "magicsecure": "secureon",
	}
	var all []string
	for w := range strings.SplitSeq(v, ",") {
		if words[w] == "" {
			return nil
		}
		all = append(all, words[w])
	}
	return []string{"WakeOnLan=" + strings.Join(all, " ")}
}
