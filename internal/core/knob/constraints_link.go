package knob

import (
	"fmt"
	"slices"
	"strings"
)

func linkConstraints() []Constraint {
	linux := []string{"linux"}
	return []Constraint{
		{
			ID: "C-07", Knobs: ids("link.mtu", "link.mtu_min", "link.mtu_max"), Source: "[L6.1 net/core/dev.c dev_validate_mtu] [X sockio.h]",
			Rule: "the MTU lies in the driver's range",
			Breaks: func(_, after Values) string {
				n, ok := after.Int("link.mtu")
				low, okLow := after.Int("link.mtu_min")
				high, okHigh := after.Int("link.mtu_max")
				switch {
				case ok && okLow && n < low:
					return fmt.Sprintf("link.mtu %d is below the driver's least, %d", n, low)
				case ok && okHigh && high > 0 && n > high: // 0: the driver does not report a maximum
					return fmt.Sprintf("link.mtu %d is above the driver's most, %d", n, high)
				}
				return ""
			},
		},
		atMost("C-08", []string{"windows"}, "link.mtu", "link.frame_mtu",
			"the driver's frame holds the packet: *JumboPacket is the MTU plus 14, 9014 for 9000", "[W keywords-that-can-be-edited]"),
		frameForPacket(),
		atMost("C-12", linux, "nic.ring.rx", "nic.ring.rx_max", "a ring has no more descriptors than the card can have", "[L6.1 net/ethtool/rings.c]"),
		atMost("C-12", linux, "nic.ring.tx", "nic.ring.tx_max", "a ring has no more descriptors than the card can have", "[L6.1 net/ethtool/rings.c]"),
		atMost("C-12", linux, "nic.ring.rx_jumbo", "nic.ring.rx_jumbo_max", "a ring has no more descriptors than the card can have", "[L6.1 net/ethtool/rings.c]"),
		atMost("C-12", linux, "nic.queues.rx", "nic.queues.rx_max", "there are no more queues than the card can have", "[L6.1 net/ethtool/channels.c]"),
		atMost("C-12", linux, "nic.queues.tx", "nic.queues.tx_max", "there are no more queues than the card can have", "[L6.1 net/ethtool/channels.c]"),
		atMost("C-12", linux, "nic.queues.combined", "nic.queues.combined_max", "there are no more queues than the card can have", "[L6.1 net/ethtool/channels.c]"),
		atMost("C-12", linux, "nic.gso_max_size", "nic.tso_max_size", "no larger segment than the driver can cut", "[L6.1 net/core/rtnetlink.c]"),
		powerOfTwo("nic.ring.rx"), powerOfTwo("nic.ring.tx"), copperNegotiates(), queueBeforeDiscipline(), queuesKeepSteering("nic.queues.rx"), queuesKeepSteering("nic.queues.combined"),
		{
			ID: "C-14", Systems: linux, Knobs: ids("nic.coalesce.adaptive_rx", "nic.coalesce.rx_usecs", "nic.coalesce.rx_frames"), Source: "[L6.1 net/ethtool/coalesce.c]",
			Rule: "a fixed delay has no effect while the driver finds it itself",
			Breaks: func(before, after Values) string {
				for _, id := range ids("nic.coalesce.rx_usecs", "nic.coalesce.rx_frames") {
					if after["nic.coalesce.adaptive_rx"] == "1" && after[id] != before[id] {
						return fmt.Sprintf("%s is set while nic.coalesce.adaptive_rx is on", id)
					}
				}
				return ""
			},
		},
	}
}

// frameForPacket is C-08 for systems whose MTU counts only the IP packet: a frame size offered
// by Windows drivers means a packet of 14 bytes less.
func frameForPacket() Constraint {
	return Constraint{
		ID: "C-08", Systems: []string{"linux", "freebsd", "darwin"}, Knobs: ids("link.mtu"), Advice: true, Source: "[W keywords-that-can-be-edited]; IEEE 802.3 clause 3.1",
		Rule: "an MTU counts no Ethernet header, *JumboPacket of Windows does: both ends have to mean the same packet",
		Breaks: func(_, after Values) string {
			n, ok := after.Int("link.mtu")
			if !ok || !slices.Contains([]int64{1514, 4088, 9014}, n) {
				return ""
			}
			return fmt.Sprintf("link.mtu %d is what drivers of Windows call a packet of %d bytes", n, n-14)
		},
	}
}

// powerOfTwo is FreeBSD's rule for rings (C-12, [B12 iflib]).
func powerOfTwo(name string) Constraint {
	list := ids(name)
	return Constraint{
		ID: "C-12", Systems: []string{"freebsd"}, Knobs: list, Rule: "a ring has a power of two of descriptors", Source: "[B12 iflib]",
		Breaks: func(_, after Values) string {
			if n, ok := after.Int(list[0]); ok && n&(n-1) != 0 {
				return fmt.Sprintf("%s %d is no power of two", list[0], n)
			}
			return ""
		},
	}
}

// queuesKeepSteering: removing a receive queue loses the processors and flows that were set for
// it (Linux net/core/net-sysfs.c rx_queue_release), and undoing the change does not restore
// them.
func queuesKeepSteering(name string) Constraint {
	list := append(ids(name), "rps", "rfs.flows")
	return Constraint{
		ID: "Q-01", Systems: []string{"linux"}, Knobs: list, Source: "[L6.1 net/core/net-sysfs.c rx_queue_release]; found by the property test of undo",
		Rule: "queues are not taken away while rps or rfs.flows is set for them: it could not be put back",
		Breaks: func(before, after Values) string {
			was, okWas := before.Int(list[0])
			n, ok := after.Int(list[0])
			if !ok || !okWas || n >= was {
				return ""
			}
			for _, id := range list[1:] {
				if v := before[id]; v != "" && v != "none" && v != "0" {
					return fmt.Sprintf("%s is %s while %s falls from %d to %d", id, v, list[0], was, n)
				}
			}
			return ""
		},
	}
}

// queueBeforeDiscipline: Linux sets the queue length of a device from 0 to 1000 packets when a
// queueing discipline is attached. Undo could not distinguish that write from another
// program's.
func queueBeforeDiscipline() Constraint {
	return Constraint{
		ID: "Q-02", Systems: []string{"linux"}, Knobs: ids("txqueuelen", "qdisc"), Source: "[L6.1 net/sched/sch_api.c qdisc_create]; found by the property test of undo",
		Rule: "no queueing discipline is attached to a device whose queue has length 0: the kernel would set txqueuelen to 1000",
		Breaks: func(before, after Values) string {
			if after["qdisc"] == before["qdisc"] {
				return ""
			}
			if before["txqueuelen"] == "0" || after["txqueuelen"] == "0" {
				return fmt.Sprintf("qdisc becomes %s while txqueuelen is 0", after["qdisc"])
			}
			return ""
		},
	}
}

// copperNegotiates is C-13: twisted pair from 1000BASE-T on negotiates which end is master, and
// has no link without negotiation (IEEE 802.3 clause 40.5). Drivers of FreeBSD and Windows
// negotiate with the one requested mode ([B12 em]); Linux turns negotiation off as requested.
func copperNegotiates() Constraint {
	return Constraint{
		ID: "C-13", Systems: []string{"linux"}, Knobs: ids("nic.media.speed", "nic.media.autoneg", "nic.media.port", "link.speed"), Source: "IEEE 802.3 clauses 28D.5 and 40.5",
		Rule: "copper at 1000 Mbit/s and above has to negotiate: offer one mode with nic.media.advertise instead",
		Breaks: func(before, after Values) string {
			speed, ok := after.Int("nic.media.speed")
			if after["nic.media.speed"] == before["nic.media.speed"] && after["nic.media.autoneg"] == "0" {
				speed, ok = after.Int("link.speed")
			}
			fibre := slices.Contains([]string{"fibre", "da", "none", "other"}, strings.ToLower(after["nic.media.port"]))
			forced := after["nic.media.speed"] != before["nic.media.speed"] || after["nic.media.autoneg"] != before["nic.media.autoneg"]
			if !ok || !forced || speed < 1000 || fibre {
				return ""
			}
			if after["nic.media.speed"] == before["nic.media.speed"] && after["nic.media.autoneg"] == "1" {
				return ""
			}
			return fmt.Sprintf("the link would be fixed at %d Mbit/s", speed)
		},
	}
}
