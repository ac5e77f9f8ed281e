package native

import (
	"strconv"
	"strings"

	"linerate/internal/core/model"
)

// nmOwner renders a keyfile of NetworkManager. Its settings belong into the
// connection that is in use, which this package does not know: the keyfile is
// one that never comes up by itself, and a command puts the same settings into
// the user's own connection.
type nmOwner struct{}

func (nmOwner) why(e *entry) string {
	switch e.knob.ID {
	case "nic.media.speed", "nic.media.duplex":
		return "NetworkManager takes a fixed speed and a fixed duplex together only"
	case "nic.wol":
		return "NetworkManager has no word for this value"
	}
	return "NetworkManager has no key for it; " + noOwner(e)
}

// nmConnection stands for the name of the user's connection in commands.
const nmConnection = `"$CONNECTION"`

func (nmOwner) render(r *rendering) {
	table := nmKeys()
	if !r.has("nic.media.speed") || !r.has("nic.media.duplex") { // it refuses one without the other
		delete(table, "nic.media.speed")
		delete(table, "nic.media.duplex")
	}
	all := r.lines(table)
	if len(all) == 0 {
		return
	}
	name := "linerate-" + r.in.Interface
	p := r.page("/etc/NetworkManager/system-connections/" + name + ".nmconnection")
	p.mode = 0o600 // NetworkManager ignores keyfiles that others can read
	p.comments(r.head()...)
	p.comments("This connection never comes up by itself, so that your own one stays in charge of addresses.",
		"Use it as it is (nmcli connection up "+name+"), or put the settings into your own one with",
		"nmcli connection modify, as linerate export says.")
	p.blank()
	p.line("[connection]")
	p.line("id=%s", name)
	p.line("type=ethernet")
	p.line("interface-name=%s", r.in.Interface)
	p.line("autoconnect=false")
	command := []string{"nmcli connection modify", nmConnection}
	for _, section := range []string{"ethernet", "link", "ethtool"} {
		first, property := true, section
		if section == "ethernet" {
			property = "802-3-ethernet" // nmcli's name for it
		}
		for _, e := range all {
			for _, l := range e.lines {
				in, assignment, _ := strings.Cut(l, " ")
				if in != section {
					continue
				}
				if first {
					p.blank()
					p.line("[%s]", section)
				}
				first = false
				p.entry(e.entry)
				p.line("%s", assignment)
				key, value, _ := strings.Cut(assignment, "=")
				command = append(command, property+"."+key, value)
			}
		}
	}
	p.blank()
	p.line("[ipv4]")
	p.line("method=auto")
	p.blank()
	p.line("[ipv6]")
	p.line("method=auto")
	r.out.Commands = append(r.out.Commands, "nmcli connection reload", strings.Join(command, " "))
}

// nmKeys are keys of nm-settings-keyfile(5), each behind its section. Those of
// [link] and the channels came with versions 1.44 and 1.46.
func nmKeys() map[model.KnobID]keys {
	feature := func(name string) keys { return keyOf("ethtool feature-"+name+"=VALUE", truth) }
	return map[model.KnobID]keys{
		"link.mtu":                 key("ethernet mtu=VALUE"),
		"txqueuelen":               key("link tx-queue-length=VALUE"),
		"nic.gso_max_size":         key("link gso-max-size=VALUE"),
		"nic.gro_max_size":         key("link gro-max-size=VALUE"),
		"nic.media.autoneg":        keyOf("ethernet auto-negotiate=VALUE", truth),
		"nic.media.speed":          unlessNegotiated("ethernet speed=VALUE"),
		"nic.media.duplex":         unlessNegotiated("ethernet duplex=VALUE"),
		"nic.wol":                  nmWakeOnLAN,
		"nic.ring.rx":              key("ethtool ring-rx=VALUE"),
		"nic.ring.rx_jumbo":        key("ethtool ring-rx-jumbo=VALUE"),
		"nic.ring.tx":              key("ethtool ring-tx=VALUE"),
		"nic.coalesce.rx_usecs":    key("ethtool coalesce-rx-usecs=VALUE"),
		"nic.coalesce.tx_usecs":    key("ethtool coalesce-tx-usecs=VALUE"),
		"nic.coalesce.rx_frames":   key("ethtool coalesce-rx-frames=VALUE"),
		"nic.coalesce.tx_frames":   key("ethtool coalesce-tx-frames=VALUE"),
		"nic.coalesce.adaptive_rx": key("ethtool coalesce-adaptive-rx=VALUE"),
		"nic.coalesce.adaptive_tx": key("ethtool coalesce-adaptive-tx=VALUE"),
		"nic.pause.autoneg":        keyOf("ethtool pause-autoneg=VALUE", truth),
		"nic.pause.rx":             keyOf("ethtool pause-rx=VALUE", truth),
		"nic.pause.tx":             keyOf("ethtool pause-tx=VALUE", truth),
		"nic.queues.rx":            key("ethtool channels-rx=VALUE"),
		"nic.queues.tx":            key("ethtool channels-tx=VALUE"),
		"nic.queues.combined":      key("ethtool channels-combined=VALUE"),
		"nic.eee":                  keyOf("ethtool eee-enabled=VALUE", truth),
		"nic.offload.rx_csum":      feature("rx"),
		"nic.offload.tx_csum":      feature("tx"),
		"nic.offload.tso":          feature("tso"),
		"nic.offload.gso":          feature("gso"),
		"nic.offload.gro":          feature("gro"),
		"nic.offload.gro_hw":       feature("rx-gro-hw"),
		"nic.offload.lro":          feature("lro"),
		"nic.offload.vlan_rx":      feature("rxvlan"),
		"nic.offload.vlan_tx":      feature("txvlan"),
	}
}

// unlessNegotiated is unlessAuto in NetworkManager's words.
func unlessNegotiated(format string) keys {
	return func(v string) []string {
		if v == "auto" || v == "0" {
			return []string{"ethernet auto-negotiate=true"}
		}
		return key(format)(v)
	}
}

// nmWakeOnLAN is a sum of flags: NMSettingWiredWakeOnLan of libnm.
func nmWakeOnLAN(v string) []string {
	flags := map[string]int{"phy": 2, "ucast": 4, "mcast": 8, "bcast": 16, "arp": 32, "magic": 64}
	sum := 0
	for w := range strings.SplitSeq(v, ",") {
		n, ok := flags[w]
		switch {
		case ok:
			sum |= n
		case w != "none":
			return nil
		}
	}
	if sum == 0 {
		return nil // 0 is "by the driver" there, not "none"
	}
	return []string{"ethernet wake-on-lan=" + strconv.Itoa(sum)}
}
