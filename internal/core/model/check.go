package model

import (
	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Test is one run of a plan whose runs differ in more than settings: of a check.
// Its direction is the flow's.
type Test struct {
	Name string `json:"name"` // of the runs' setting
	Flow Flow   `json:"flow"`
	// Share, where it is not 0, has datagrams sent at that share of the most that
	// arrived in their direction before.
	Share float64 `json:"share,omitempty"`
	// IfDead has the test done only where nothing arrives in its direction, and not
	// after another one of these that failed.
	IfDead bool `json:"if_dead,omitempty"`
}

// Check is what a check found out beside its runs, and what it was asked.
type Check struct {
	Quick  bool   `json:"quick,omitempty"`
	Expect string `json:"expect,omitempty"` // as it was given
	For    string `json:"for,omitempty"`    // as it was given
	Grades string `json:"grades,omitempty"` // in place of the default ones, as they were given
	Ways   []Way  `json:"ways"`             // in both directions
	Own    []Own  `json:"own,omitempty"`    // of both hosts
	Disks  []Disk `json:"disks,omitempty"`  // of both hosts, where they were asked for
}

// Way is how large packets from one end of a session to the other may be.
type Way struct {
	Direction Direction    `json:"direction"`
	Asked     int          `json:"asked"`           // bytes of the largest IP packet that was tried
	Passes    fact.Of[int] `json:"passes"`          // of the largest that arrived; 0: not even a small one
	Exact     bool         `json:"exact,omitempty"` // one byte more was tried and lost
	Told      bool         `json:"told,omitempty"`  // somebody said that more is too big
	Router    string       `json:"router,omitempty"`
	RouterMTU int          `json:"router_mtu,omitempty"` // that was told with it; 0 for none
	// Datagrams is the same by UDP from one agent to the other; 0: not even a small one.
	Datagrams      fact.Of[int] `json:"datagrams,omitzero"`
	DatagramsExact bool         `json:"datagrams_exact,omitempty"` // one byte more was tried and lost
	// Narrow is where larger packets vanish, as far as the routers on the way show it.
	Narrow *Place `json:"narrow,omitempty"`
	// Marks is the share of those whose mark of ECN arrived, 0…1.
	Marks fact.Of[float64] `json:"marks,omitzero"`
}

// Own is the most that a host moves to itself, without any link.
type Own struct {
	Host Host                   `json:"host"`
	Rate fact.Of[units.BitRate] `json:"rate"` // TCP payload, one stream
}

// Disk is what a host moves to and from its disk, past the page cache.
type Disk struct {
	Host  Host                   `json:"host"`
	Read  fact.Of[units.BitRate] `json:"read"`
	Write fact.Of[units.BitRate] `json:"write"` // until all is on the disk
}

// Hop is one part of the way from a host to its peer, as that host sees it.
type Hop struct {
	Kind   HopKind                `json:"kind" bound:"name"`
	Name   string                 `json:"name,omitempty"` // of the interface, or the address
	MTU    fact.Of[int]           `json:"mtu"`            // bytes
	Rate   fact.Of[units.BitRate] `json:"rate"`
	Duplex fact.Of[string]        `json:"duplex"`                      // "full" or "half"
	To     string                 `json:"to,omitempty" bound:"text"`   // where a tunnel leads, which member of a bond is in use
	Note   string                 `json:"note,omitempty" bound:"text"` // what else is to be known, a sentence
}

// HopKind is what a hop is.
type HopKind string

// The kinds of hops. Those up to HopNetwork are interfaces.
const (
	HopDevice    HopKind = "device"    // a card
	HopWireless  HopKind = "wireless"  //
	HopLoopback  HopKind = "loopback"  //
	HopVLAN      HopKind = "vlan"      //
	HopBond      HopKind = "bond"      //
	HopBridge    HopKind = "bridge"    //
	HopVeth      HopKind = "veth"      // to another namespace: a container
	HopWireGuard HopKind = "wireguard" //
	HopTailscale HopKind = "tailscale" //
	HopVXLAN     HopKind = "vxlan"     //
	HopTunnel    HopKind = "tunnel"    // another one
	HopVirtual   HopKind = "virtual"   // made by software, else
	HopNeighbour HopKind = "neighbour" // the other end of the link, which is the peer or a router
	HopNetwork   HopKind = "network"   // all behind it, which nobody here sees
)
