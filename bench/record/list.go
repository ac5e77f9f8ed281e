package main

import (
	"linerate/bench/internal/judge"
	"linerate/internal/core/model"
	"linerate/internal/lab/faults"
)

// pair creates a second host called nas, joined to this one by two unlimited virtual
// interfaces.
const pair = `set -e
mount -t tmpfs none /run
mkdir -p /run/netns
ip netns add nas
ip link add v0 type veth peer name v1 netns nas
ip addr add 10.77.0.1/24 dev v0
ip link set v0 up
ip -n nas addr add 10.77.0.2/24 dev v1
ip -n nas link set v1 up
ip -n nas link set lo up
`

// tunnel joins the hosts of pair by a VXLAN over a link of 200 Mbit/s.
const tunnel = `tc qdisc add dev v0 root tbf rate 200mbit burst 32k latency 20ms
ip link add vx0 type vxlan id 7 remote 10.77.0.2 dstport 4789 dev v0
ip -n nas link add vx0 type vxlan id 7 remote 10.77.0.1 dstport 4789 dev v1
ip addr add 10.88.0.1/24 dev vx0
ip -n nas addr add 10.88.0.2/24 dev vx0
ip link set vx0 up
ip -n nas link set vx0 up
`

// crowd makes the host track connections, and fills the table, which holds 262144 of them
// (net.netfilter.nf_conntrack_max), with one datagram each: 9000 a second, once it is full.
const crowd = `nft add table ip t
nft add chain ip t in '{ type filter hook input priority 0; }'
nft add rule ip t in ct state invalid drop
nft add rule ip t in iif lo udp dport '>=' 1024 drop
exec python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(400000):
    s.sendto(b"", ("127.0.1.%d" % (n // 50000 + 1), 10000 + n % 50000))
    if n > 270000 and n % 90 == 0:
        time.sleep(0.01)
'
`

// recordings returns all lab recordings.
func recordings() []judge.Recording {
	return []judge.Recording{
		{Name: "dead", Planted: "a rule at nas drops all that comes after the first 60 kB", Args: []string{"test", "lab:rate=50mbit,rtt=5ms", "-t", "2s", "--to", "--idle", "0s"},
			Far: `nft add table ip t; nft add chain ip t in '{ type filter hook input priority 0; }'; nft add rule ip t in quota over 60 kbytes drop`},
		{Name: "ecn-removed", Planted: "a rule takes the marks of ECN off all that leaves desk", Args: []string{"test", "lab:rate=50mbit,rtt=5ms,near.tcp.ecn=1,far.tcp.ecn=1", "-t", "2s", "--to", "--idle", "0s"},
			Near: `nft add table ip t; nft add chain ip t out '{ type filter hook postrouting priority 0; }'; nft add rule ip t out ip ecn set not-ect`},
		{Name: "link-down", Planted: "nas takes its link down for a second", Args: []string{"test", "lab:rate=50mbit,rtt=5ms", "-t", "4s", "--to", "--idle", "0s"},
			Far: `sleep 2; ip link set eth0 down; sleep 1; ip link set eth0 up`},
		{Name: "own-queue", Planted: "tc qdisc add dev eth0 root tbf rate 50mbit burst 3200 limit 6400, at desk", Args: []string{"test", "lab:rate=1gbit,rtt=5ms", "-t", "2s", "--to", "--idle", "0s"},
			Near: `tc qdisc replace dev eth0 root tbf rate 50mbit burst 3200 limit 6400`},
		{Name: "tunnel", Planted: "two hosts joined by a VXLAN over 200 Mbit/s", Args: []string{"test", "exec:10.88.0.2 ip netns exec nas linerate agent", "-t", "2s", "--to", "--idle", "0s"}, Pair: pair + tunnel},
		{Name: "tracking", Planted: "a program at nas sends datagrams to 300000 ports, and the firewall there tracks connections", Args: []string{"test", "lab:rate=50mbit,rtt=5ms", "-t", "6s", "--omit", "4s", "--to", "--idle", "0s"}, Far: crowd},
		{Name: "own-limit", Planted: "a quota of 2 % of a core at nas", Args: []string{"check", "lab:rate=1gbit,rtt=200us"}, Plants: []faults.Plant{{Host: model.Far, Quota: 0.02}}},
	}
}
