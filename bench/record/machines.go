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

// lookTime is the timeout of one recording in machines.
const lookTime = 4 * time.Minute

// inMachines is a recording in two whole machines in QEMU, near and far, for runs that need a
// card, a disk or a kernel of their own. Each card is joined to the same card of the other
// machine. Card K has the addresses 10.0.K.1 and 10.0.K.2.
type inMachines struct {
	name    string
	planted string   // for readers
	args    []string // of linerate at near; "" is the address of far
	card    string   // QEMU's name
	near    string   // shell before linerate starts; $e is the interface
	far     string   // the same at the other host
	back    string   // shell at both afterwards, which restores the state for the next one
}

// cards returns the cards of both machines.
func cards() []machines.Card {
	return []machines.Card{{Model: "i82559er"}, {Model: "e1000e"}, {Model: "pcnet"}, {Model: "virtio-net-pci"}, {Model: "e1000"}}
}

// look returns the arguments of a test in one direction.
func look() []string { return []string{"test", "", "-t", "4s", "--to", "--idle", "0s"} }

// forced returns shell that forces a card to 100 Mbit/s without negotiation.
func forced(duplex string) string {
	return "ethtool -s $e autoneg off speed 100 duplex " + duplex + "\nsleep 5\n"
}

// cable limits an interface to the rate of a cable of 100 Mbit/s, which QEMU does not.
const cable = "modprobe sch_tbf\ntc qdisc replace dev $e root tbf rate 100mbit burst 16k latency 50ms\n"

const negotiated = "tc qdisc del dev $e root 2> /dev/null || true\nethtool -s $e autoneg on\nsleep 3\n"

// machineRecordings returns all recordings in machines.
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

// record makes a recording, and returns its text and linerate's findings.
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
