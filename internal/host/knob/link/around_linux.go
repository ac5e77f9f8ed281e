package link

import "github.com/vishvananda/netlink"

// nodes returns the interfaces of this network namespace. It omits masters and parents in
// another one.
func nodes() ([]node, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, (&Attribute{device: "list", name: MTU}).classify(err)
	}
	name := make(map[int]string)
	for _, l := range links {
		name[l.Attrs().Index] = l.Attrs().Name
	}
	var all []node
	for _, l := range links {
		a := l.Attrs()
		n := node{name: a.Name, kind: l.Type(), mtu: a.MTU, master: name[a.MasterIndex]}
		if a.NetNsID < 0 {
			n.parent = name[a.ParentIndex]
		}
		all = append(all, n)
	}
	return all, nil
}
