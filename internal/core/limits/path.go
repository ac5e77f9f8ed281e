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

// Ceiling is the most payload that a path can carry in one direction, with
// what the number rests on.
type Ceiling struct {
	Direction model.Direction        `json:"direction"`
	Rate      fact.Of[units.BitRate] `json:"rate"`             // of payload: the least of Limits; unknown says why
	Limits    []Limit                `json:"limits,omitempty"` // all that are known, the lowest first
	// waited is how much the shortest window may hold of what had come before it.
	waited   units.BitRate
	unshared bool // see HalfDuplexRefuted
}

// overHalf is the share of the ceiling of half duplex from which a measurement shows that
// the wire is not shared: an emulated pcnet says that it is, and carries 1.02 of that.
const overHalf = 1.01

// refuted is the share of a ceiling from which a measurement shows that the
// ceiling is wrong, and not the path full (diagnosis.md section 4.0, rule 1).
const refuted = 1.03

// What may have come before a window and is read in it: a program's last read, and
// what waited behind a hole until the lost segment had been sent again, which takes a
// round trip or two. At 1.5 Mbit/s 48 KiB in 2.5 s were seen, a tenth of the rate.
const (
	waitingBytes = 64 * 1024
	waitingTrips = 2
)

// Refuted reports whether goodput is so much more than the ceiling that the
// ceiling cannot be right.
func (c Ceiling) Refuted(goodput units.BitRate) bool {
	rate, known := c.Rate.Get()
	return known && goodput > refuted*rate+c.waited
}

// Against returns the ceiling's rate as something that goodput can be compared
// with: unknown where the measurement refutes it.
func (c Ceiling) Against(goodput units.BitRate) fact.Of[units.BitRate] {
	if c.Refuted(goodput) {
		return fact.Unknown[units.BitRate](fmt.Sprintf("%s were measured where %s should be the most: the rate of the link is not what it is said to be",
			goodput, c.Rate.Or(0)))
	}
	return c.Rate
}

// OfPath returns the ceiling of a session's path in direction d, which is To or
// From: of its link rates, of the segments that were sent, and of the busses
// that the two interfaces hang on. Runs of the baseline say how large segments
// were; without them the MTUs of both ends do.
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

// waitedIn is what the shortest window of the baseline in direction d may hold of what
// had come before it, as a rate.
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

// linksOf returns the link rates that bound direction d, before framing.
func linksOf(s *model.Session, d model.Direction) []Limit {
	if f, ok := s.Facts(d.Sender()); ok {
		if rate, known := f.PathRate.Get(); known { // it knows this direction better than the slowest link of both
			return []Limit{{Name: "link", Rate: rate, Source: f.PathRate.Source()}}
		}
	}
	if rate, known := s.WireRate.Get(); known {
		return []Limit{{Name: "link", Rate: rate, Source: s.WireRate.Source()}}
	}
	return nil
}

// packet is what one full packet of a direction carries.
type packet struct {
	wire     Wire // without a rate
	datagram int  // bytes of each datagram; 0 for TCP and where datagrams fill packets
	source   string
}

// goodput is what a link carries of such packets.
func (p packet) goodput(w Wire, half bool) (units.BitRate, error) {
	switch {
	case p.datagram > 0:
		return w.DatagramGoodput(p.datagram)
	case half:
		return w.HalfDuplex()
	}
	return w.Goodput()
}

// packetOf returns what packets of direction d carry: of TCP what the sender's
// kernel says of its segments, or else as much as the MTUs of both ends, the
// segment size that was asked for and the headers leave.
func packetOf(s *model.Session, d model.Direction) (packet, error) {
	near, _ := s.Facts(model.Near)
	far, _ := s.Facts(model.Far)
	p := packet{wire: Wire{Rate: 1, IPv6: isIPv6(far.Address), Timestamps: true, VLANTags: max(vlanTags(near), vlanTags(far))}}
	segment := fact.Unknown[int]("no kernel told it")
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
		if nearKnown && farKnown { // some kernels count the options of a segment in
			mtu = min(mtu, p.wire.MTU)
		}
		p.wire.MTU, nearKnown, farKnown = mtu, true, true
		p.source = fmt.Sprintf("segments of %d bytes (%s)", mtu-p.wire.headerBytes(), segment.Source())
	default:
		p.source = fmt.Sprintf("MTU %d", p.wire.MTU)
		if f.MSS > 0 { // the option is without the options that every segment carries (RFC 6691)
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

// isIPv6 reports whether an address of the data path is one of IPv6.
func isIPv6(address string) bool {
	return strings.Contains(address, ":") && !strings.HasPrefix(address, "::ffff:")
}

// vlanTags is how many tags the frames of a host's interface carry.
func vlanTags(f model.HostFacts) int {
	if len(f.NICs) > 0 && f.NICs[0].Kind.Or("") == "vlan" {
		return 1
	}
	return 0
}

// halfDuplex reports whether an end says that both directions share its wire.
func halfDuplex(s *model.Session) bool {
	return slices.ContainsFunc(s.Hosts, func(f model.HostFacts) bool {
		return len(f.NICs) > 0 && Duplex(f.NICs[0]) == "half"
	})
}

// Duplex is the duplex of a card, "" where it is not known. "half" of an emulated one without
// any link mode is its driver's default, as pcnet32's in QEMU: it has no wire to share.
func Duplex(n model.NIC) string {
	duplex := n.Media.Duplex.Or("")
	modes, known := n.Media.Supported.Get()
	if duplex == "half" && known && len(modes) == 0 && n.Bus.Kind.Or("") == "virtual" {
		return ""
	}
	return duplex
}

// carriesMore reports whether the runs of the baseline carried so much more in one direction
// than half duplex allows there that the wire cannot be shared, whatever its cards say: one
// of them more than may have waited before its window as well, or all of several.
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

// sharedRate is what half duplex carries in direction d, 0 where that is not known.
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

// HalfDuplexRefuted reports whether a card claims half duplex and more was carried than
// that allows.
func (c Ceiling) HalfDuplexRefuted() bool { return c.unshared }

// busses returns what the busses under the interfaces carry of such packets at
// most. A bus moves frames without preamble, checksum and gap, and has headers
// of its own, which are not taken off: 13 % of PCIe at payloads of 128 bytes
// (diagnosis.md section 2.4).
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

// summary is what a sender's kernel said of one direction of a run.
type summary struct {
	direction model.Direction
	tcp       *model.TCPSummary
}

// summaries returns what the senders' kernels said in valid runs of the
// baseline, or, where it has none, of any setting: a setting may change what a
// segment holds.
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

// LeastRTT returns the least round trip that a sender's kernel saw in any valid
// run of s.
func LeastRTT(s *model.Session) fact.Of[time.Duration] {
	least := fact.Unknown[time.Duration]("no kernel told it")
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
