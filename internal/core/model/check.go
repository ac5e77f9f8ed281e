package model

import (
	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Test is one run of a plan whose runs differ in more than settings: of a check. Its direction
// is the flow's.
type Test struct {
	Name string `json:"name"` // of the runs' setting
	Flow Flow   `json:"flow"`
	// Share, unless 0, is the rate of the datagrams as a share of the highest rate that arrived
	// in their direction before.
	Share float64 `json:"share,omitempty"`
	// IfDead runs the test only if nothing arrives in its direction, and not after another such
	// test has failed.
	IfDead bool `json:"if_dead,omitempty"`
}

// Check holds the options of a check, and its results other than runs.
type Check struct {
	Quick  bool   `json:"quick,omitempty"`
	Expect string `json:"expect,omitempty"` // as the user wrote it
	For    string `json:"for,omitempty"`    // as the user wrote it
	Grades string `json:"grades,omitempty"` // replaces the default ones, as the user wrote it
	Ways   []Way  `json:"ways"`             // both directions
	Own    []Own  `json:"own,omitempty"`    // both hosts
	Disks  []Disk `json:"disks,omitempty"`  // both hosts, if requested
}

// Way is the largest packet size from one end of a session to the other.
type Way struct {
	Direction Direction    `json:"direction"`
	Asked     int          `json:"asked"`              // bytes of the largest IP packet that was tried
	Passes    fact.Of[int] `json:"passes"`             // of the largest that arrived; 0: not even a small one
	Exact     bool         `json:"exact,omitempty"`    // one byte more was tried and lost
	Reported  bool         `json:"reported,omitempty"` // a router or host reported larger packets as too big
	Router    string       `json:"router,omitempty"`
	RouterMTU int          `json:"router_mtu,omitempty"` // the MTU in that report; 0 for none
	// Datagrams is the same for UDP between the agents; 0: not even a small one.
	Datagrams      fact.Of[int] `json:"datagrams,omitzero"`
	DatagramsExact bool         `json:"datagrams_exact,omitempty"` // one byte more was tried and lost
	// Narrow is where larger packets vanish, if the routers' answers show it.
	Narrow *Place `json:"narrow,omitempty"`
	// Marks is the share of ECN-marked datagrams whose mark arrived, 0…1.
	Marks fact.Of[float64] `json:"marks,omitzero"`
}

// Own is the rate of a host to itself, without any link.
type Own struct {
	Host Host                   `json:"host"`
	Rate fact.Of[units.BitRate] `json:"rate"` // TCP payload, one stream
}

// Disk is the rate of a host to and from its disk, past the page cache.
type Disk struct {
	Host  Host                   `json:"host"`
	Read  fact.Of[units.BitRate] `json:"read"`
	Write fact.Of[units.BitRate] `json:"write"` // until everything is on the disk
}

// Hop is one part of the path from a host to its peer, as that host sees it.
type Hop struct {
	Kind   HopKind                `json:"kind" bound:"name"`
	Name   string                 `json:"name,omitempty"` // of the interface, or the address
	MTU    fact.Of[int]           `json:"mtu"`            // bytes
	Rate   fact.Of[units.BitRate] `json:"rate"`
	Duplex fact.Of[string]        `json:"duplex"`                      // "full" or "half"
	To     string                 `json:"to,omitempty" bound:"text"`   // where a tunnel leads, which member of a bond is in use
	Note   string                 `json:"note,omitempty" bound:"text"` // additional remark, a sentence
}

// HopKind is the kind of a hop.
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
	HopTunnel    HopKind = "tunnel"    // other tunnels
	HopVirtual   HopKind = "virtual"   // other software interfaces
	HopNeighbour HopKind = "neighbour" // the other end of the link: the peer or a router
	HopNetwork   HopKind = "network"   // everything behind it, which the host cannot see
)
