package native

import (
	"linerate/internal/core/model"
)

// netplanOwner renders a file of netplan, which merges definitions of one name.
type netplanOwner struct{}

func (netplanOwner) why(e *entry) string {
	if _, ok := linkKeys()[e.knob.ID]; ok {
		return "netplan has no key for it; a .link file has one, and would replace the one that netplan makes"
	}
	return "netplan has no key for it; " + noOwner(e)
}

func (netplanOwner) render(r *rendering) {
	all := r.lines(map[model.KnobID]keys{
		"link.mtu": key("mtu: VALUE"),
		"nic.wol": func(v string) []string {
			word, ok := map[string]string{"magic": "true", "none": "false"}[v]
			if !ok {
				return nil // a switch for magic packets only
			}
			return []string{"wakeonlan: " + word}
		},
		"nic.offload.rx_csum": keyOf("receive-checksum-offload: VALUE", truth),
		"nic.offload.tx_csum": keyOf("transmit-checksum-offload: VALUE", truth),
		"nic.offload.gso":     keyOf("generic-segmentation-offload: VALUE", truth),
		"nic.offload.gro":     keyOf("generic-receive-offload: VALUE", truth),
		"nic.offload.lro":     keyOf("large-receive-offload: VALUE", truth),
		"nic.offload.tso": func(v string) []string {
			return []string{"tcp-segmentation-offload: " + truth(v), "tcp6-segmentation-offload: " + truth(v)}
		},
	})
	if len(all) == 0 {
		return
	}
	p := r.page("/etc/netplan/90-linerate.yaml")
	p.mode = 0o600 // netplan warns of files that others can read
	p.comments(r.head()...)
	p.comments("Merged with your own definition of the same name; offloads need the networkd renderer.")
	p.line("network:")
	p.line("  version: 2")
	p.line("  ethernets:")
	p.line("    %s:", jsonText(r.in.Interface))
	if r.in.MAC != "" {
		p.line("      match:")
		p.line("        macaddress: %s", jsonText(r.in.MAC))
	} else {
		r.note("netplan finds the interface by its name, which networkd follows unreliably for the MTU: give its MAC address")
	}
	for _, e := range all {
		for _, c := range append([]string{about(e.entry)}, notes(e.entry)...) {
			p.line("      # %s", c)
		}
		for _, l := range e.lines {
			p.line("      %s", l)
		}
	}
	r.out.Commands = append(r.out.Commands, "netplan try")
}
