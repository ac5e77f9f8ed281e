package faults

import (
	"fmt"
	"math/rand/v2"
	"time"

	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Machine is what a case does to two QEMU machines, which replace its lab: cards with real
// drivers, joined by a wire that carries Case.Rate.
type Machine struct {
	Card string `json:"card"` // of both, by QEMU's name
	// Half marks the ends of the wire that are at half duplex: near, far.
	Half [2]bool `json:"half,omitempty"`
	// Before is shell for near and far before linerate starts, and Back for both afterwards; $e
	// is the interface.
	Before [2]string `json:"before,omitempty"`
	Back   string    `json:"back,omitempty"`
	// Pulled is how long the wire is unplugged from both cards while data flows.
	Pulled time.Duration `json:"pulled,omitempty"`
	// Busy is the host whose linerate shares one core with a busy-looping program at priority
	// Nice.
	Busy model.Host `json:"busy,omitempty"`
	Nice int        `json:"nice,omitempty"`
}

// MachineKind is a kind of planted limit that needs whole machines. Draw never returns one:
// they are judged by name.
type MachineKind struct {
	Name     string
	Says     string
	Harmless bool
	plant    func(*setup)
}

// machineRate is the rate of a link in the slowest mode: two emulated machines carry it with
// much time to spare, so that neither is the limit unless planted.
const machineRate = units.BitRate(10e6)

// setup is a case of machines under construction.
type setup struct {
	rng    *rand.Rand
	c      *Case
	m      *Machine
	labels [2]Label
	way    model.Direction
}

func (s *setup) says(answers ...Answer) {
	for i := range s.labels {
		s.labels[i].Planted, s.labels[i].First = true, answers
	}
}

// beside adds a harmless condition that must be named.
func (s *setup) beside(answers ...Answer) {
	s.says(append([]Answer{{"ceiling", Any}}, answers...)...)
	for i := range s.labels {
		s.labels[i].Named = [][]Answer{answers}
	}
}

func (s *setup) may(answers ...Answer) {
	for i := range s.labels {
		s.labels[i].May = append(s.labels[i].May, answers...)
	}
}

// only restricts linerate test to one direction.
func (s *setup) only(args ...string) { s.c.Args = append([]string{alone(s.way)}, args...) }

// end draws near or far.
func (s *setup) end() int { return s.rng.IntN(2) }

// host returns the host of an end.
func host(end int) model.Host { return []model.Host{model.Near, model.Far}[end] }

// force returns shell that forces a card to that many Mbit/s without negotiation, which every
// card with modes supports, and turns off wake-on-LAN; negotiate undoes the former.
func force(speed int, duplex string) string {
	return fmt.Sprintf("ethtool -s $e wol d 2> /dev/null || true\nethtool -s $e autoneg off speed %d duplex %s\nsleep 4\n", speed, duplex)
}

const negotiate = "ethtool -s $e autoneg on\nsleep 3\n"

// forced forces the ends to 10 Mbit/s. Of the cards with modes only the emulated e1000e works:
// i82559er loses one frame in 25 at that rate and counts none.
func (s *setup) forced(near, far string) {
	s.m.Card = "e1000e"
	s.m.Before = [2]string{force(10, near), force(10, far)}
	s.m.Half = [2]bool{near == "half", far == "half"}
	s.m.Back = negotiate
	s.may(Answer{"B01", Any}) // both cards can do more, which is true
}

// MachineKinds lists the kinds in a fixed order.
func MachineKinds() []MachineKind {
	return []MachineKind{
		{Name: "machine-clean", Says: "two cards that can do no more than 10 Mbit/s, and a wire that carries it", Harmless: true, plant: func(s *setup) {
			s.m.Card = []string{"pcnet", "virtio-net-pci"}[s.rng.IntN(2)]
		}},
		{Name: "machine-slow-link", Says: "a link of 10 Mbit/s between cards that can do more", plant: func(s *setup) {
			s.forced("full", "full")
			s.beside(Answer{"B01", Any})
		}},
		{Name: "machine-half-duplex", Says: "both ends at half duplex", plant: func(s *setup) {
			s.forced("half", "half")
			s.beside(Answer{"B03", Any}, Answer{"B18", Any})
		}},
		{Name: "machine-duplex-mismatch", Says: "one end at half duplex and the other at full", plant: func(s *setup) {
			modes := [2]string{"full", "full"}
			i := s.end()
			modes[i] = "half"
			s.forced(modes[0], modes[1])
			s.says(Answer{"B02", host(i)})
			s.may(Answer{"B10", Any}) // frames that collided are lost
		}},
		{Name: "machine-mtu-mismatch", Says: "an MTU of 2000 to 4000 at one end and 1500 at the other", plant: func(s *setup) {
			s.forced("full", "full")
			i := s.end()
			s.m.Before[i] += larger(2000 + s.rng.IntN(2001))
			s.m.Back += lower
			s.beside(Answer{"M1", host(1 - i)})
		}},
		{Name: "machine-oversize", Says: "datagrams as long as the sender's MTU, which the receiver's card counts as too long", plant: func(s *setup) {
			s.forced("full", "full")
			from := place(s.way) // near sends in the first direction
			size := 2000 + s.rng.IntN(2001)
			s.m.Before[from] += larger(size)
			s.m.Back += lower
			s.only("-u", "-b", "2mbit", "-l", fmt.Sprint(size-28), "-t", "4s") // minus the headers of IP and UDP
			at := s.way.Receiver()
			s.says(Answer{"B04", at}, Answer{"B17", at}, Answer{"M1", at}, Answer{"M2", Any})
			s.may(Answer{"M1", at}, Answer{"B04", at})
		}},
		{Name: "machine-pulled", Says: "the wire is pulled out of both cards for three to four seconds of ten", plant: func(s *setup) {
			s.m.Card = "virtio-net-pci" // the driver of a forced emulated e1000e does not notice
			s.only("-t", "10s", "--omit", "0s")
			s.m.Pulled = time.Duration(3000+s.rng.IntN(1000)) * time.Millisecond
			s.says(Answer{"B25", Any})
		}},
		{Name: "machine-own-queue", Says: "a short queueing discipline of 2 to 5 Mbit/s at the sender's own card, which drops", plant: func(s *setup) {
			s.m.Card = []string{"pcnet", "virtio-net-pci"}[s.rng.IntN(2)]
			from := place(s.way)
			rate := 2000 + s.rng.IntN(3000)
			s.m.Before[from] = fmt.Sprintf("modprobe sch_tbf\ntc qdisc replace dev $e root tbf rate %dkbit burst 3200 limit 6400\n", rate)
			s.m.Back = "tc qdisc del dev $e root 2> /dev/null || true\n"
			l := &s.labels[place(s.way)]
			l.Planted, l.Bound = true, units.BitRate(rate)*1e3
			l.First = []Answer{{"B17", s.way.Sender()}, {"B06", s.way.Sender()}}
			l.May = append(l.May, l.First...)
		}},
		{Name: "machine-busy-core", Says: "linerate at one end shares its core with a program that gets nearly all of it", plant: func(s *setup) {
			s.m.Card, s.c.Rate = "e1000e", 100e6
			s.m.Before, s.m.Back = [2]string{force(100, "full"), force(100, "full")}, negotiate
			s.may(Answer{"B01", Any})
			i := s.end()
			s.m.Busy, s.m.Nice = host(i), -12-s.rng.IntN(6)
			h := Answer{"B16", s.m.Busy}
			s.says(h)
			back := &s.labels[1-place(s.way)] // how much it bites there depends on which end costs more
			back.Planted, back.First = false, []Answer{{"ceiling", Any}, h}
			s.may(h, Answer{"B23", s.m.Busy}, Answer{"B30", Any})
		}},
	}
}

// larger returns shell that raises the MTU of an interface.
func larger(mtu int) string { return fmt.Sprintf("ip link set $e mtu %d\nsleep 4\n", mtu) }

const lower = "ip link set $e mtu 1500\nsleep 3\n"

// OfMachines returns the case of a kind of MachineKinds for a seed.
func OfMachines(name string, seed uint64) (Case, bool) {
	for _, k := range MachineKinds() {
		if k.Name == name {
			return k.draw(seed), true
		}
	}
	return Case{}, false
}

// stream separates the draws of machines from those of labs.
const stream = 3

func (k MachineKind) draw(seed uint64) Case {
	c := Case{Seed: seed, Kind: k.Name, Clean: k.Harmless, Rate: machineRate, Machine: &Machine{}}
	s := &setup{rng: source(seed, stream), c: &c, m: c.Machine}
	s.way = []model.Direction{model.To, model.From}[s.rng.IntN(2)]
	for i, way := range []model.Direction{model.To, model.From} {
		// An emulated card is a finding, whatever was planted.
		s.labels[i] = Label{Direction: way, First: []Answer{{"ceiling", Any}}, May: []Answer{{"B31", Any}}}
	}
	k.plant(s)
	if len(c.Args) == 0 && c.Machine.Busy == "" {
		c.Check = s.rng.IntN(2) == 0
	}
	ceiling, err := limits.Wire{Rate: c.Rate, MTU: 1500, Timestamps: true}.Goodput()
	if err != nil {
		panic(err) // the rates are constants above
	}
	for i, way := range []model.Direction{model.To, model.From} {
		s.labels[i].Ceiling = ceiling
		if len(c.Args) == 0 || c.Args[0] == alone(way) {
			c.Labels = append(c.Labels, s.labels[i])
		}
	}
	if !c.Check && len(c.Args) < 2 {
		c.Args = append(c.Args, "-t", "4s", "--omit", "1s")
	}
	return c
}
