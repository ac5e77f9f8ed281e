package native

import (
	"strings"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// ifupdownOwner renders a stanza of interfaces(5). Several stanzas of one
// interface add up, so that the user's own stays as it is.
type ifupdownOwner struct{}

func (ifupdownOwner) why(e *entry) string {
	if e.native.Mechanism == knob.Route || e.native.Mechanism == knob.IRQ {
		return noOwner(e)
	}
	return "no command sets it from a hook"
}

func (ifupdownOwner) render(r *rendering) {
	all := r.lines(ifupdownLines(r.in.Interface))
	if len(all) == 0 {
		return
	}
	p := r.page("/etc/network/interfaces.d/linerate")
	p.comments(r.head()...)
	p.comments("A second stanza of the interface, beside your own; /etc/network/interfaces has to source interfaces.d.")
	p.line("iface %s inet manual", r.in.Interface)
	for _, e := range all {
		p.comments(about(e.entry))
		p.comments(notes(e.entry)...)
		for _, l := range e.lines {
			p.line("    %s", l)
		}
	}
	r.out.Commands = append(r.out.Commands, "ifdown "+r.in.Interface+" && ifup "+r.in.Interface)
}

// ifupdownLines are options of interfaces(5) and commands for its up lines,
// which a shell runs.
func ifupdownLines(link string) map[model.KnobID]keys {
	on := func(v string) string {
		if v == "1" {
			return "on"
		}
		return "off"
	}
	up := func(command string) keys { return key("up " + strings.ReplaceAll(command, "IF", link)) }
	upOn := func(command string) keys { return keyOf("up "+strings.ReplaceAll(command, "IF", link), on) }
	table := map[model.KnobID]keys{
		"link.mtu":            key("mtu VALUE"),
		"txqueuelen":          up("ip link set dev IF txqueuelen VALUE"),
		"nic.gso_max_size":    up("ip link set dev IF gso_max_size VALUE"),
		"nic.gro_max_size":    up("ip link set dev IF gro_max_size VALUE"),
		"qdisc":               up("tc qdisc replace dev IF root VALUE"),
		"nic.media.autoneg":   upOn("ethtool -s IF autoneg VALUE"),
		"nic.media.speed":     up("ethtool -s IF autoneg off speed VALUE"),
		"nic.media.duplex":    up("ethtool -s IF autoneg off duplex VALUE"),
		"nic.pause.autoneg":   upOn("ethtool -A IF autoneg VALUE"),
		"nic.pause.rx":        upOn("ethtool -A IF rx VALUE"),
		"nic.pause.tx":        upOn("ethtool -A IF tx VALUE"),
		"nic.eee":             upOn("ethtool --set-eee IF eee VALUE"),
		"nic.ring.rx":         up("ethtool -G IF rx VALUE"),
		"nic.ring.rx_jumbo":   up("ethtool -G IF rx-jumbo VALUE"),
		"nic.ring.tx":         up("ethtool -G IF tx VALUE"),
		"nic.queues.rx":       up("ethtool -L IF rx VALUE"),
		"nic.queues.tx":       up("ethtool -L IF tx VALUE"),
		"nic.queues.combined": up("ethtool -L IF combined VALUE"),
	}
	auto := func(id model.KnobID, word string) {
		fixed := table[id]
		table[id] = func(v string) []string {
			if v == word {
				return upOn("ethtool -s IF autoneg VALUE")("1")
			}
			return fixed(v)
		}
	}
	auto("nic.media.speed", "0")
	auto("nic.media.duplex", "auto")
	for id, option := range map[model.KnobID]string{
		"rx_usecs": "rx-usecs", "tx_usecs": "tx-usecs", "rx_frames": "rx-frames", "tx_frames": "tx-frames",
	} {
		table["nic.coalesce."+id] = up("ethtool -C IF " + option + " VALUE")
	}
	for id, option := range map[model.KnobID]string{"adaptive_rx": "adaptive-rx", "adaptive_tx": "adaptive-tx"} {
		table["nic.coalesce."+id] = upOn("ethtool -C IF " + option + " VALUE")
	}
	for id, feature := range map[model.KnobID]string{
		"rx_csum": "rx", "tx_csum": "tx", "tso": "tso", "gso": "gso", "gro": "gro", "gro_hw": "rx-gro-hw", "lro": "lro", "vlan_rx": "rxvlan", "vlan_tx": "txvlan",
	} {
		table["nic.offload."+id] = upOn("ethtool -K IF " + feature + " VALUE")
	}
	return table
}
