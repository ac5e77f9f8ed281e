package faults

// Catalogue lists every kind in a fixed order, which determines the case of a seed. New kinds
// are later kinds.
func Catalogue() []Kind {
	var all []Kind
	for _, part := range [][]Kind{windows(), losses(), paths(), sizes(), programs(), traps(), skipped(), later()} {
		all = append(all, part...)
	}
	return all
}

// skipped returns kinds that belong to the list but cannot be planted in this lab.
func skipped() []Kind {
	return []Kind{
		{Name: "bond-member", Says: "one flow on a bond of two", Skip: "the kernel of the judge's machine has no bonding driver (CONFIG_BONDING), and the lab's wire has one interface a host"},
		{Name: "veth-backlog", Says: "the backlog of the receiving core drops", Skip: "net.core.netdev_max_backlog belongs to the whole machine, not to a network namespace, and a judge changes no machine"},
		{Name: "slow-disk", Says: "a file copy waits for a disk", Skip: "neither test nor check copies files; linerate copy has its own finding (core/bottleneck), and a virtual host has no disk of its own to slow down"},
		{Name: "duplex-mismatch", Says: "one end at half duplex, the other at full", Skip: "a virtual interface has no duplex mode and counts no collisions: only recorded facts can show it"},
		{Name: "socket-memory", Says: "all sockets together have no memory left", Skip: "net.ipv4.tcp_mem belongs to the whole machine, not to a network namespace"},
		{Name: "wire-errors", Says: "frames arrive broken", Skip: "a virtual interface checks no frame check sequence and counts no broken frames"},
		{Name: "link-flap", Says: "the link goes down for a moment", Skip: "the lab's wire has no carrier to lose while a test runs"},
	}
}
