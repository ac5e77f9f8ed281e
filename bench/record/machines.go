package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"linerate/bench/internal/judge"
	"linerate/bench/internal/machines"
	"linerate/internal/core/model"
)

// lookTime is the longest that one recording in machines may take.
const lookTime = 4 * time.Minute

// inMachines is a recording in two whole machines in QEMU, near and far, each card of
// which is joined to the same card of the other one: for what needs a card, a disk or a
// kernel of its own. Of card K the addresses are 10.0.K.1 and 10.0.K.2.
type inMachines struct {
	name    string
	planted string   // for readers
	args    []string // of linerate at near; "" is the address of far
	card    string   // as QEMU calls it
	near    string   // shell before linerate starts; $e is the interface
	far     string   // and at the other host
	back    string   // shell at both after it, so that the next one finds nothing of this
}

// cards are those of both machines.
func cards() []machines.Card {
	return []machines.Card{{Model: "i82559er"}, {Model: "e1000e"}, {Model: "pcnet"}, {Model: "virtio-net-pci"}, {Model: "e1000"}}
}

// look is a look in one direction.
func look() []string { return []string{"test", "", "-t", "4s", "--to", "--idle", "0s"} }

// forced has a card speak 100 Mbit/s without negotiation.
func forced(duplex string) string {
	return "ethtool -s $e autoneg off speed 100 duplex " + duplex + "\nsleep 5\n"
}

// cable holds an interface to what a cable of 100 Mbit/s carries, which QEMU does not.
const cable = "modprobe sch_tbf\ntc qdisc replace dev $e root tbf rate 100mbit burst 16k latency 50ms\n"

const negotiated = "tc qdisc del dev $e root 2> /dev/null || true\nethtool -s $e autoneg on\nsleep 3\n"

// machineRecordings are all of them.
func machineRecordings() []inMachines {
	return []inMachines{
		{name: "emulated", planted: "two machines in QEMU with its e1000", args: look(), card: "e1000"},
		{name: "duplex-mismatch", planted: "nas: ethtool -s eth0 autoneg off speed 100 duplex half", args: look(), card: "i82559er", far: forced("half"), back: negotiated},
		{name: "half-duplex", planted: "both hosts: ethtool -s eth0 autoneg off speed 100 duplex half", args: look(), card: "i82559er", near: forced("half"), far: forced("half"), back: negotiated},
		{name: "slow-link", planted: "both hosts: ethtool -s eth1 autoneg off speed 100 duplex full, of cards of 1 Gbit/s; tc holds desk to that, which QEMU does not", args: look(), card: "e1000e", near: "ethtool -s $e wol d || true\n" + forced("full") + cable, far: "ethtool -s $e wol d || true\n" + forced("full"), back: negotiated},
		{name: "wrong-speed", planted: "two emulated pcnet cards, whose driver says 10 Mbit/s and which carry what the processor can", args: look(), card: "pcnet"},
		{name: "socket-memory", planted: "both hosts: sysctl -w net.ipv4.tcp_mem='20 30 60'", args: look(), card: "virtio-net-pci",
			near: "sysctl -qw net.ipv4.tcp_mem='20 30 60'\n", far: "sysctl -qw net.ipv4.tcp_mem='20 30 60'\n", back: "sysctl -qw net.ipv4.tcp_mem='8000 12000 24000'\n"},
		{name: "backlog", planted: "a veth pair in one machine, and sysctl -w net.core.netdev_max_backlog=1", card: "virtio-net-pci",
			args: []string{"test", "exec:10.77.0.2 ip netns exec nas linerate agent", "-t", "4s", "--to", "--idle", "0s"},
			near: pair + "sysctl -qw net.core.netdev_max_backlog=1\nethtool -K v0 tso off gso off gro off; ip netns exec nas ethtool -K v1 gro off\n"},
	}
}

// record makes a recording, and returns its text and what linerate says of it.
func (r inMachines) record(ctx context.Context, both *machines.Two) (text []byte, findings []model.Finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	card := slices.IndexFunc(cards(), func(c machines.Card) bool { return c.Model == r.card })
	defer func() {
		for host := range 2 {
			err = errors.Join(err, both.Shell(ctx, host, card, r.back))
		}
	}()
	if err := errors.Join(both.Shell(ctx, 0, card, r.near), both.Shell(ctx, 1, card, r.far)); err != nil {
		return nil, nil, err
	}
	whole, err := both.Look(ctx, machines.Look{Name: r.name, Args: r.args, Card: card})
	if err != nil {
		return nil, nil, err
	}
	return judge.Recorded(whole, r.planted)
}
