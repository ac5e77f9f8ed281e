package limits

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// Ceiling is the most payload that a path can carry in one direction, with its basis.
type Ceiling struct {
	Direction model.Direction        `json:"direction"`
	Rate      fact.Of[units.BitRate] `json:"rate"`             // of payload: the least of Limits; unknown says why
	Limits    []Limit                `json:"limits,omitempty"` // all known ones, the lowest first
	// waited is how much of the shortest window's data may have arrived before it, as a rate.
	waited   units.BitRate
	unshared bool // see HalfDuplexRefuted
}

// overHalf is the share of the half-duplex ceiling from which a measurement shows that the wire
// is not shared: an emulated pcnet claims half duplex and carries 1.02 of it.
const overHalf = 1.01

// refuted is the share of a ceiling from which a measurement shows a wrong ceiling, not a full
// path (diagnosis.md section 4.0, rule 1).
const refuted = 1.03

// Data that arrived before a window but is read in it: a program's last read, and the data that
// waited behind a hole until its retransmission, which takes a round trip or two. 48 KiB in 2.5
// s were seen at 1.5 Mbit/s, a tenth of the rate.
const (
	waitingBytes = 64 * 1024
	waitingTrips = 2
)

// Refuted reports whether goodput exceeds the ceiling by so much that the ceiling must be
// wrong.
func (c Ceiling) Refuted(goodput units.BitRate) bool {
	rate, known := c.Rate.Get()
	return known && goodput > refuted*rate+c.waited
}

// Against returns the ceiling's rate for comparison with goodput: unknown if the measurement
// refutes it.
func (c Ceiling) Against(goodput units.BitRate) fact.Of[units.BitRate] {
	if c.Refuted(goodput) {
		return fact.Unknown[units.BitRate](fmt.Sprintf("%s were measured where %s should be the most: the rate of the link is not what it is said to be",
			goodput, c.Rate.Or(0)))
	}
	return c.Rate
}

// OfPath returns the ceiling of a session's path in direction d, which is To or From: from its
// link rates, the segment size, and the buses of the two interfaces. The segment size comes
// from runs of the baseline or, without them, from the MTUs of both ends.
func OfPath(s *model.Session, d model.Direction) Ceiling {
	p, err := packetOf(s, d)
	if err != nil {
		return unknownCeiling(d, err.Error())
	}
	c := Ceiling{Direction: d}
	half := halfDuplex(s)
	for _, l := range linksOf(s, d) {
		w := p.wire
		w.Rate = l.Rate
		if half && p.datagram == 0 && carriesMore(s) {
			half, c.unshared = false, true
		}
		rate, err := p.goodput(w, half)
		if err != nil {
			return unknownCeiling(d, err.Error())
		}
		c.Limits = append(c.Limits, Limit{Name: l.Name, Rate: rate, Source: fmt.Sprintf("%s (%s), %s", l.Rate, l.Source, p.source)})
	}
	if len(c.Limits) == 0 {
		return unknownCeiling(d, "the rate of the link is unknown: "+cmp.Or(s.WireRate.Reason(), "not read"))
	}
	c.Limits = append(c.Limits, busses(s, p)...)
	slices.SortStableFunc(c.Limits, func(a, b Limit) int { return cmp.Compare(a.Rate, b.Rate) })
	least, finite := Smallest(c.Limits)
	if !finite {
		return unknownCeiling(d, "the link has no limit")
	}
	c.Rate = fact.Known(least.Rate, least.Name+": "+least.Source)
	c.waited = waitedIn(s, d, least.Rate)
	return c
}

// waitedIn returns how much of the data in the baseline's shortest window in direction d may
// have arrived before it, as a rate.
func waitedIn(s *model.Session, d model.Direction, rate units.BitRate) units.BitRate {
	var window time.Duration
	for _, r := range s.Runs {
		for _, e := range r.Ends {
			for _, f := range e.Flows {
				if r.Setting == s.Plan.Baseline && f.Direction == d && f.Role == model.Receiver && f.TCP == nil && f.UDP == nil && f.Window > 0 && (window == 0 || f.Window < window) {
					window = f.Window
				}
			}
		}
	}
	if window <= 0 {
		return 0
	}
	bits := 8*waitingBytes + waitingTrips*float64(rate)*LeastRTT(s).Or(0).Seconds()
	return units.BitRate(bits / window.Seconds())
}

func unknownCeiling(d model.Direction, reason string) Ceiling {
	return Ceiling{Direction: d, Rate: fact.Unknown[units.BitRate](reason)}
}

// linksOf returns the link rates that limit direction d, before framing.
func linksOf(s *model.Session, d model.Direction) []Limit {
	if f, ok := s.Facts(d.Sender()); ok {
		if rate, known := f.PathRate.Get(); known { // specific to this direction, unlike the slowest link of both
			return []Limit{{Name: "link", Rate: rate, Source: f.PathRate.Source()}}
		}
	}
	if rate, known := s.WireRate.Get(); known {
		return []Limit{{Name: "link", Rate: rate, Source: s.WireRate.Source()}}
	}
	return nil
}

// packet is the size of a full packet of a direction.
type packet struct {
	wire     Wire // without a rate
	datagram int  // bytes of each datagram; 0 for TCP, or if datagrams fill packets
	source   string
}

// goodput returns what a link carries in such packets.
func (p packet) goodput(w Wire, half bool) (units.BitRate, error) {
	switch {
	case p.datagram > 0:
		return w.DatagramGoodput(p.datagram)
	case half:
		return w.HalfDuplex()
	}
	return w.Goodput()
}

// packetOf returns the packet of direction d: for TCP with the segment size that the sender's
// kernel reports, otherwise the one that the MTUs of both ends, the requested segment size and
// the headers allow.
func packetOf(s *model.Session, d model.Direction) (packet, error) {
	near, _ := s.Facts(model.Near)
	far, _ := s.Facts(model.Far)
	p := packet{wire: Wire{Rate: 1, IPv6: isIPv6(far.Address), Timestamps: true, VLANTags: max(vlanTags(near), vlanTags(far))}}
	segment := fact.Unknown[int]("no kernel reported it")
	for _, sum := range summaries(s) {
		if on, ok := sum.tcp.Timestamps.Get(); ok {
			p.wire.Timestamps = on
		}
		if mss, ok := sum.tcp.MSS.Get(); ok && sum.direction == d && mss > segment.Or(0) {
			segment = sum.tcp.MSS
		}
	}
	nearMTU, nearKnown := near.MTU.Get()
	farMTU, farKnown := far.MTU.Get()
	p.wire.MTU = min(nearMTU, farMTU)
	switch f := &s.Plan.Flow; {
	case udp.Carries(*f):
		p.wire.UDP, p.datagram = true, int(f.Block)
		p.source = fmt.Sprintf("MTU %d", p.wire.MTU)
		if p.datagram > 0 {
			p.source += fmt.Sprintf(", datagrams of %s", f.Block)
		}
	case segment.IsKnown():
		mtu := segment.Or(0) + p.wire.headerBytes()
		if nearKnown && farKnown { // some kernels include the options in the segment size
			mtu = min(mtu, p.wire.MTU)
		}
		p.wire.MTU, nearKnown, farKnown = mtu, true, true
		p.source = fmt.Sprintf("segments of %d bytes (%s)", mtu-p.wire.headerBytes(), segment.Source())
	default:
		p.source = fmt.Sprintf("MTU %d", p.wire.MTU)
		if f.MSS > 0 { // the option excludes the options that every segment carries (RFC 6691)
			bare := p.wire
			bare.Timestamps = false
			p.wire.MTU = min(p.wire.MTU, f.MSS+bare.headerBytes())
			p.source += fmt.Sprintf(", maximum segment size %d", f.MSS)
		}
	}
	if !nearKnown || !farKnown {
		return packet{}, errors.New("the MTU is unknown at one end")
	}
	return p, nil
}

// isIPv6 reports whether an address of the data path is an IPv6 address.
func isIPv6(address string) bool {
	return strings.Contains(address, ":") && !strings.HasPrefix(address, "::ffff:")
}

// vlanTags returns the number of VLAN tags on the frames of a host's interface.
func vlanTags(f model.HostFacts) int {
	if len(f.NICs) > 0 && f.NICs[0].Kind.Or("") == "vlan" {
		return 1
	}
	return 0
}

// halfDuplex reports whether an end claims that both directions share its wire.
func halfDuplex(s *model.Session) bool {
	return slices.ContainsFunc(s.Hosts, func(f model.HostFacts) bool {
		return len(f.NICs) > 0 && Duplex(f.NICs[0]) == "half"
	})
}

// Duplex returns the duplex of a card, "" if unknown. "half" of an emulated card without any
// link mode is its driver's default, as with pcnet32 in QEMU: it has no wire to share.
func Duplex(n model.NIC) string {
	duplex := n.Media.Duplex.Or("")
	modes, known := n.Media.Supported.Get()
	if duplex == "half" && known && len(modes) == 0 && n.Bus.Kind.Or("") == "virtual" {
		return ""
	}
	return duplex
}

// carriesMore reports whether the baseline runs carried so much more in one direction than half
// duplex allows that the wire cannot be shared, whatever its cards claim: one run by more than
// may have waited before its window, or all of several runs.
func carriesMore(s *model.Session) bool {
	runs, above := 0, 0
	for _, d := range []model.Direction{model.To, model.From} {
		allowed := sharedRate(s, d)
		for _, r := range s.Runs {
			v, ok := r.Value(d, model.Goodput)
			if !ok || allowed == 0 || r.State != model.RunValid || r.Setting != s.Plan.Baseline {
				continue
			}
			rate := units.BitRate(v)
			if runs++; rate <= overHalf*allowed {
				continue
			}
			if above++; rate > allowed+waitedIn(s, d, allowed) {
				return true
			}
		}
	}
	return runs > 1 && above == runs
}

// sharedRate returns what half duplex carries in direction d, 0 if unknown.
func sharedRate(s *model.Session, d model.Direction) units.BitRate {
	p, err := packetOf(s, d)
	links := linksOf(s, d)
	if err != nil || len(links) == 0 {
		return 0
	}
	p.wire.Rate = links[0].Rate
	rate, err := p.wire.HalfDuplex()
	if err != nil {
		return 0
	}
	return rate
}

// HalfDuplexRefuted reports whether a card claims half duplex but the runs carried more than
// that allows.
func (c Ceiling) HalfDuplexRefuted() bool { return c.unshared }

// busses returns the most that the buses under the interfaces carry in such packets. A bus
// moves frames without preamble, checksum and gap, and has headers of its own, which are not
// subtracted: 13 % of PCIe at payloads of 128 bytes (diagnosis.md section 2.4).
func busses(s *model.Session, p packet) []Limit {
	if p.datagram > 0 {
		return nil
	}
	payload := p.wire.MTU - p.wire.headerBytes()
	var out []Limit
	for _, f := range s.Hosts {
		if len(f.NICs) == 0 {
			continue
		}
		allows, known := f.NICs[0].Bus.Allows.Get()
		if !known || payload <= 0 {
			continue
		}
		share := float64(payload) / float64(p.wire.MTU+macBytes)
		out = append(out, Limit{
			Name: "bus of " + s.Names().Of(f.Host), Rate: allows * units.BitRate(share),
			Source: fmt.Sprintf("%s (%s), before the headers of the bus", allows, f.NICs[0].Bus.Allows.Source()),
		})
	}
	return out
}

// summary is a sender's kernel's summary of one direction of a run.
type summary struct {
	direction model.Direction
	tcp       *model.TCPSummary
}

// summaries returns the senders' kernel summaries from valid runs of the baseline or, if it has
// none, of any setting: a setting may change the segment size.
func summaries(s *model.Session) []summary {
	var all, baseline []summary
	for _, r := range s.Runs {
		if r.State != model.RunValid {
			continue
		}
		for _, end := range r.Ends {
			for _, f := range end.Flows {
				if f.TCP == nil {
					continue
				}
				all = append(all, summary{f.Direction, f.TCP})
				if r.Setting == s.Plan.Baseline {
					baseline = append(baseline, summary{f.Direction, f.TCP})
				}
			}
		}
	}
	if len(baseline) > 0 {
		return baseline
	}
	return all
}

// LeastRTT returns the least round trip that a sender's kernel measured in any valid run of s.
func LeastRTT(s *model.Session) fact.Of[time.Duration] {
	least := fact.Unknown[time.Duration]("no kernel reported it")
	for _, r := range s.Runs {
		if r.State != model.RunValid {
			continue
		}
		for _, end := range r.Ends {
			for _, f := range end.Flows {
				if f.TCP == nil {
					continue
				}
				if v, ok := f.TCP.RTTMin.Get(); ok && (!least.IsKnown() || v < least.Or(0)) {
					least = f.TCP.RTTMin
				}
			}
		}
	}
	return least
}
