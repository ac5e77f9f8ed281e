package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
)

// lossShare is the least share of the lost datagrams, (p), for which a place gets its own
// finding.
const lossShare = 0.05

// advice is the text about a place, and what can help there.
type advice struct {
	rule     string
	limit    string
	sentence string // after "12 of 30 lost datagrams "
	knobs    []model.KnobID
	person   string // what the user can do if no setting helps
}

// What the user can do about packets lost on a wire, a radio or a device between the hosts.
const (
	atTheWire = "another cable and another port, clean optics, both ends set to negotiate speed and duplex (linerate facts HOST shows both); on Wi-Fi nearer to the access point, another channel, or a cable"
	onTheWay  = "send less, or look on the way: counters of each switch and router for full queues and broken frames, a shaper or a contract, the signal of Wi-Fi; linerate check HOST says whether the losses begin at a rate"
)

func adviceFor(p Place) advice {
	switch p {
	case PlaceSendQueue:
		return advice{"udp-send", "sender's queue", "were dropped by the queueing discipline in front of the sender's interface: it was sent more than the interface or its shaper lets out", []model.KnobID{"txqueuelen"}, ""}
	case PlaceSendStack:
		return advice{"udp-send", "sender's queue", "were dropped in the sender below its socket, for lack of memory or room", []model.KnobID{"txqueuelen"}, ""}
	case PlaceSendNIC:
		return advice{"udp-send", "sender's interface", "were dropped by the sender's interface or its driver", nil, atTheWire}
	case PlaceRecvWire:
		return advice{"B04", "broken frames", "reached the receiver's interface broken: cable, optics, duplex or a frame longer than it takes", nil, atTheWire}
	case PlaceRecvRing:
		return advice{"B17", "receive ring", "found no free buffer in the receiver's ring: it is too short, or its core too slow", []model.KnobID{"nic.ring.rx", "irq_affinity"}, ""}
	case PlaceRecvCard:
		return advice{"B17", "receiver's card", "were lost in the receiver's card: its driver alone counts them", []model.KnobID{"nic.ring.rx", "link.mtu"}, ""}
	case PlaceRecvBacklog:
		return advice{"B17", "receive backlog", "found the receiving core's backlog full", []model.KnobID{"rx.backlog", "irq_affinity"}, ""}
	case PlaceRecvDriver:
		return advice{"B17", "receiver's driver", "were dropped by the receiver's driver or before its IP layer", []model.KnobID{"nic.ring.rx"}, ""}
	case PlaceRecvFragment:
		return advice{"B17", "fragments", "arrived without all their fragments: losing one fragment loses the datagram", []model.KnobID{"block", "link.mtu"}, ""}
	case PlaceRecvTrack:
		return advice{"B26", "table of tracked connections", "found the receiver's table of tracked connections full", nil, "a larger table there (net.netfilter.nf_conntrack_max), or no tracking of this traffic (notrack)"}
	case PlaceRecvStack:
		return advice{"B17", "receiver's memory", "were dropped by the receiver's IP layer for lack of memory", nil, "free memory there, or send less"}
	case PlaceRecvSocket:
		return advice{"B17", "socket buffer", "found the receiving socket's buffer full: the program did not read in time", []model.KnobID{"window", "socket.buffer_max"}, ""}
	case PlaceRecvMemory:
		return advice{"B17", "UDP memory", "found the memory of all UDP sockets of the receiver used up", nil, "stop the program there that does not read, or send less"}
	case PlaceRecvChecksum:
		return advice{"B04", "checksums", "had a wrong checksum", nil, atTheWire}
	case PlaceRecvPort:
		return advice{"B32", "closed port", "came for a port without a listener", nil, ""}
	case PlacePath:
		return advice{"B06", "path", "were counted by neither host: the path lost them, or a part of a host that does not count", nil, onTheWay}
	default:
		return advice{"udp-send", "sender's socket", "were refused by the sender's kernel", nil, ""}
	}
}

// Findings returns the findings about the loss, the largest part first; none if nothing was
// lost or refused.
func (l UDPLoss) Findings() []model.Finding {
	type part struct {
		drops Drops
		n     int64
	}
	var parts []part
	for _, d := range l.Drops {
		n := d.Count.Or(0)
		if n == 0 || (!d.Outside && (l.Lost == 0 || l.Share(n) < lossShare)) {
			continue
		}
		parts = append(parts, part{d, n})
	}
	if l.Path > 0 && l.Share(l.Path) >= lossShare {
		parts = append(parts, part{Drops{Place: PlacePath, Host: l.Direction.Sender()}, l.Path})
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		if a.drops.Outside != b.drops.Outside { // refused datagrams, which are not lost, come last
			if a.drops.Outside {
				return 1
			}
			return -1
		}
		return cmp.Compare(b.n, a.n)
	})
	out := lists.Each(parts, func(p part) model.Finding { return l.finding(p.drops, p.n) })
	return out
}

func (l UDPLoss) finding(d Drops, n int64) model.Finding {
	a := adviceFor(d.Place)
	f := model.Finding{Rule: a.rule, Direction: l.Direction, Host: d.Host, Limit: a.limit, Knobs: a.knobs, NoKnob: a.person, Loss: true}
	switch {
	case d.Outside:
		f.Share = fact.Unknown[float64]("these datagrams were never sent")
		f.Evidence = fmt.Sprintf("%s refused by the sender's kernel: no room or no route; not among the lost", plain.Count(n, "datagram"))
		return f
	case d.Place == PlacePath:
		f.Share = fact.Known(l.Share(n), "lost without what the hosts counted")
	default:
		f.Share = fact.Known(l.Share(n), d.Count.Source())
	}
	f.Evidence = l.amount(d, n) + " " + a.sentence
	if d.Place == PlaceRecvCard {
		f.Evidence += " (" + d.Count.Source() + ")"
	}
	f.Evidence += l.caution(d)
	return f
}

// amount states how many packets a place explains, of how many lost.
func (l UDPLoss) amount(d Drops, n int64) string {
	switch {
	case d.AtLeast:
		return fmt.Sprintf("of %s, at least %d (trains count once)", plain.Count(l.Lost, "lost datagram"), min(n, l.Lost))
	case n > l.Lost:
		return fmt.Sprintf("%d packets, of which %s may be a part,", n, plain.Count(l.Lost, "lost datagram"))
	default:
		return fmt.Sprintf("%d of %s", n, plain.Count(l.Lost, "lost datagram"))
	}
}

// caution lists the reservations about the number.
func (l UDPLoss) caution(d Drops) string {
	var notes []string
	if d.Place == PlacePath {
		if unknown := l.Unknown(); len(unknown) > 0 {
			notes = append(notes, "not checked: "+list(unknown))
		}
		if slices.ContainsFunc(l.Drops, func(o Drops) bool { return o.AtLeast && o.Count.Or(0) > 0 }) {
			notes = append(notes, "trains that count once may hide more at the hosts")
		}
	} else if l.Counted > l.Lost {
		notes = append(notes, fmt.Sprintf("the hosts counted %s, more than were lost, so other traffic was dropped too or a datagram was counted as several fragments", plain.Count(l.Counted, "drop")))
	}
	if len(notes) == 0 {
		return ""
	}
	return "; " + strings.Join(notes, "; ")
}

func list(all []Place) string {
	words := make([]string, len(all))
	for i, p := range all {
		words[i] = "the " + string(p)
	}
	return strings.Join(words, ", ")
}
