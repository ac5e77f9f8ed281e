package diagnose

import (
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
)

// Place is where a datagram can get lost, in the order of its path.
type Place string

// The places. PlacePath is everything that no host counts: cables, switches, radio, routers,
// and uncounted drops in a host.
const (
	PlaceSendSocket   Place = "sender's socket"
	PlaceSendQueue    Place = "sender's queueing discipline"
	PlaceSendStack    Place = "sender's IP layer"
	PlaceSendNIC      Place = "sender's interface"
	PlacePath         Place = "path"
	PlaceRecvWire     Place = "receiver's interface: broken frames"
	PlaceRecvRing     Place = "receiver's ring"
	PlaceRecvCard     Place = "receiver's card, as its driver counts"
	PlaceRecvBacklog  Place = "receiver's backlog"
	PlaceRecvDriver   Place = "receiver's driver or stack"
	PlaceRecvFragment Place = "receiver's reassembly"
	PlaceRecvTrack    Place = "receiver's table of tracked connections"
	PlaceRecvStack    Place = "receiver's IP layer"
	PlaceRecvSocket   Place = "receiver's socket buffer"
	PlaceRecvMemory   Place = "receiver's UDP memory"
	PlaceRecvChecksum Place = "receiver's socket: wrong checksums"
	PlaceRecvPort     Place = "receiver's ports"
)

// Drops is what was counted at one place.
type Drops struct {
	Place Place      `json:"place"`
	Host  model.Host `json:"host"`
	// Count is how many packets the host counted there, of all its traffic; unknown if its
	// counters were not read.
	Count fact.Of[int64] `json:"count"`
	// AtLeast says that a train of joined datagrams counts once here, so that
	// more may be lost than Count.
	AtLeast bool `json:"at_least,omitempty"`
	// Outside says that these datagrams are not among the lost: they were never sent, and the
	// program knows it.
	Outside bool `json:"outside,omitempty"`
}

// UDPLoss says where the datagrams of one direction of a run were lost.
//
// Counters cover whole hosts, or their network namespaces, and so all traffic: a place may have
// counted drops of other flows. Explained is therefore what the counts could explain, never
// more than Lost, and Path is at least the rest.
type UDPLoss struct {
	Direction model.Direction `json:"direction"`
	Sent      fact.Of[int64]  `json:"sent"` // datagrams, as the sender counted
	Lost      int64           `json:"lost"` // as the receiver counted
	Drops     []Drops         `json:"drops"`
	Counted   int64           `json:"counted"`   // sum over Drops that are not Outside
	Explained int64           `json:"explained"` // Counted, at most Lost
	Path      int64           `json:"path"`      // Lost minus Explained: on the path, or uncounted
}

// place names the counters of a place.
type place struct {
	where   Place
	sender  bool
	group   string     // that must have been read, see package host/counters
	names   []string   // summed over all parts of the host
	largest bool       // the names count the same thing, drivers use one of them
	without []string   // places counted before, whose packets these names count too
	train   trainCount // whether trains count once
	rare    bool       // most hosts have no such place and no counter for it
}

type trainCount int

const (
	singly    trainCount = iota
	segmented            // if the sender used UDP_SEGMENT
	coalesced            // if the receiver's kernel joined datagrams for the program
	either               // below the socket, which both affect on links that carry whole trains, such as veth
)

// hides reports whether a count may stand for more datagrams.
func (c trainCount) hides(sent, joined bool) bool {
	switch c {
	case segmented:
		return sent
	case coalesced:
		return joined
	case either:
		return sent || joined
	default:
		return false
	}
}

// places lists the places where Linux counts, in the order of the path. Packets that a counter
// shares with an earlier place are subtracted:
//   - Ip OutDiscards counts what the queueing discipline refused
//     (net/ipv4/ip_output.c ip_send_skb);
//   - rx_dropped counts what the backlog refused (net/core/dev.c
//     enqueue_to_backlog).
//
// UDP SndbufErrors is not used: it counts each try of a program that finds the
// socket full and tries again (net/ipv4/udp.c udp_sendmsg).
func places() []place {
	return []place{
		{where: PlaceSendQueue, sender: true, group: "qdisc", names: []string{"qdisc_dropped"}, train: segmented},
		{where: PlaceSendStack, sender: true, group: "ip", names: []string{"ip_out_discards"}, without: []string{"qdisc_dropped"}, train: segmented},
		{where: PlaceSendNIC, sender: true, group: "nic", names: []string{"nic_tx_dropped", "nic_tx_errors"}, train: segmented},
		{where: PlaceRecvWire, group: "nic", names: []string{"nic_rx_crc_errors", "nic_rx_frame_errors", "nic_rx_length_errors"}},
		{where: PlaceRecvRing, group: "nic", names: []string{"nic_rx_missed", "nic_rx_fifo_errors", "nic_rx_over_errors"}, largest: true},
		{where: PlaceRecvBacklog, group: "softnet", names: []string{"softnet_dropped"}, train: either},
		{where: PlaceRecvDriver, group: "nic", names: []string{"nic_rx_dropped"}, without: []string{"softnet_dropped"}, train: either},
		{where: PlaceRecvFragment, group: "ip", names: []string{"ip_reassembly_failures"}},
		{where: PlaceRecvTrack, group: "track", names: []string{"track_dropped"}, train: either, rare: true},
		{where: PlaceRecvStack, group: "ip", names: []string{"ip_in_discards"}, train: either},
		{where: PlaceRecvSocket, group: "udp", names: []string{"udp_receive_buffer_errors"}, train: coalesced},
		{where: PlaceRecvMemory, group: "udp", names: []string{"udp_memory_errors"}, train: coalesced},
		{where: PlaceRecvChecksum, group: "udp", names: []string{"udp_checksum_errors"}},
		{where: PlaceRecvPort, group: "udp", names: []string{"udp_no_port"}},
	}
}

// UDPCounters lists the names of the counters that LocateUDP reads.
func UDPCounters() []string {
	out := []string{readCounters}
	for _, p := range places() {
		out = append(out, p.names...)
	}
	return out
}

// count returns the count at p.
func (p place) count(c Counters) fact.Of[int64] {
	if c.many(p.group) <= 0 {
		return fact.Unknown[int64]("counters of " + p.group + " were not read")
	}
	var n int64
	for _, name := range p.names {
		if one := c.Moved(name).Or(0); p.largest {
			n = max(n, one)
		} else {
			n += one
		}
	}
	for _, name := range p.without {
		n -= c.Moved(name).Or(0)
	}
	return fact.Known(max(0, n), strings.Join(p.names, " + "))
}

// LocateUDP returns where the datagrams of direction d of run r were lost. It reports false if
// the receiver did not count datagrams.
func LocateUDP(r model.Run, d model.Direction) (UDPLoss, bool) {
	ends, flows := sides(r, d)
	from, to := flows[0], flows[1]
	if to == nil {
		return UDPLoss{}, false
	}
	l := UDPLoss{Direction: d, Lost: max(0, to.Lost), Sent: fact.Unknown[int64]("the sender did not report")}
	if from != nil {
		l.Sent = fact.Known(from.Sent, "sender")
		l.Drops = append(l.Drops, Drops{Place: PlaceSendSocket, Host: d.Sender(), Count: fact.Known(from.Refused, "sender"), Outside: true})
	}
	sender, receiver := countersOf(ends[0]), countersOf(ends[1])
	for _, p := range places() {
		one := Drops{Place: p.where, Host: d.Receiver(), Count: p.count(receiver)}
		if p.sender {
			one.Host, one.Count = d.Sender(), p.count(sender)
		}
		if p.rare && !one.Count.IsKnown() {
			continue
		}
		if n, ok := one.Count.Get(); ok && p.where == PlaceRecvPort {
			one.Count = fact.Known(max(0, n-probesThere(ends[0], d)), one.Count.Source())
		}
		one.AtLeast = p.train.hides(from != nil && from.Segmented, to.Coalesced)
		l.Counted += one.Count.Or(0)
		l.Drops = append(l.Drops, one)
	}
	l.Path = l.Lost - min(l.Counted, l.Lost)
	if card := inTheCard(receiver, l.Path); card.IsKnown() {
		l.Counted += card.Or(0)
		l.Drops = append(l.Drops, Drops{Place: PlaceRecvCard, Host: d.Receiver(), Count: card})
	}
	l.Explained = min(l.Counted, l.Lost)
	l.Path = l.Lost - l.Explained
	return l, true
}

// probesThere returns how many probes of the path the sender may have sent to closed ports of the
// receiver while the load ran, see package hops: all that no router answered.
func probesThere(sender *model.EndReport, d model.Direction) (n int64) {
	if sender == nil || sender.Trace == nil || sender.Trace.Direction != d || len(sender.Trace.Hops) == 0 {
		return 0
	}
	last := sender.Trace.Hops[len(sender.Trace.Hops)-1]
	n = int64(len(last.Loaded))
	if !last.Arrived {
		n *= model.TraceBeyond
	}
	return n
}

// inTheCard returns how many packets the card lost by its driver's counter, if that is about as
// many as are missing and no other counter explains them. Drivers count most packets twice, in
// their own counter and in the system's, so the system's are subtracted.
func inTheCard(c Counters, missing int64) fact.Of[int64] {
	name, n := c.cardLosses()
	for _, known := range []string{"nic_rx_errors", "nic_rx_dropped", "nic_rx_missed"} {
		n -= c.Moved(known).Or(0)
	}
	if missing <= 0 || float64(n) < aboutAsMany*float64(missing) || float64(missing) < aboutAsMany*float64(n) {
		return fact.Unknown[int64]("no counter of the driver moved as far")
	}
	return fact.Known(n, name)
}

// sides returns the reports of sender and receiver of direction d; nil for missing ones.
func sides(r model.Run, d model.Direction) (ends [2]*model.EndReport, flows [2]*model.UDPSummary) {
	for i := range r.Ends {
		for _, f := range r.Ends[i].Flows {
			if f.Direction == d && f.UDP != nil {
				k := 0
				if f.Role == model.Receiver {
					k = 1
				}
				ends[k], flows[k] = &r.Ends[i], f.UDP
			}
		}
	}
	// An end without a report of its own flow may still have counters.
	for i := range r.Ends {
		if r.Ends[i].Host == d.Sender() && ends[0] == nil {
			ends[0] = &r.Ends[i]
		}
	}
	return ends, flows
}

// Share returns n as a share of the lost datagrams, at most 1; 0 if none were lost.
func (l UDPLoss) Share(n int64) float64 {
	if l.Lost == 0 {
		return 0
	}
	return min(1, float64(n)/float64(l.Lost))
}

// Unknown returns the places whose counters were not read.
func (l UDPLoss) Unknown() []Place {
	var out []Place
	for _, d := range l.Drops {
		if !d.Count.IsKnown() {
			out = append(out, d.Place)
		}
	}
	return out
}
