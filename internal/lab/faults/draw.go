package faults

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// draw is a case under construction: a clean path, and the additions of the kinds.
type draw struct {
	rng        *rand.Rand
	rates      [2]units.BitRate // of the link, by direction: to, from
	trip       time.Duration
	mtu        int
	queues     [2]units.Bytes // 0 is a harmless queue
	cubic      bool           // linerate test uses it, in both directions
	keys       []string       // of the spec, beside rates, delay, queues and MTU
	flags      []string       // of linerate test
	omit, time time.Duration
	full       bool
	plants     []Plant
	labels     [2]Label
	way        model.Direction // of the plant
}

// place returns the index of a direction.
func place(d model.Direction) int {
	if d == model.From {
		return 1
	}
	return 0
}

// wire returns the prefix of the wire's keys in a direction.
func wire(d model.Direction) string { return string(d) + "." }

func opposite(d model.Direction) model.Direction {
	if d == model.From {
		return model.To
	}
	return model.From
}

// between draws log-uniformly from a range.
func (d *draw) between(low, high float64) float64 {
	return low * math.Pow(high/low, d.rng.Float64())
}

// pick draws one of a list.
func pick[T any](d *draw, of ...T) T { return of[d.rng.IntN(len(of))] }

func (d *draw) key(format string, args ...any) { d.keys = append(d.keys, fmt.Sprintf(format, args...)) }

// knob sets a setting of a host.
func (d *draw) knob(h model.Host, id, value string) { d.key("%s=%s", h.Of(model.KnobID(id)), value) }

func (d *draw) sender() model.Host   { return d.way.Sender() }
func (d *draw) receiver() model.Host { return d.way.Receiver() }

// rate returns the link's rate in the planted direction.
func (d *draw) rate() units.BitRate { return d.rates[place(d.way)] }

// ceiling returns the link's payload rate in a direction (diagnosis.md 2.1).
func (d *draw) ceiling(way model.Direction) units.BitRate {
	c, err := limits.Wire{Rate: d.rates[place(way)], MTU: d.mtu, Timestamps: true}.Goodput()
	if err != nil {
		return 0
	}
	return c
}

// held returns the bandwidth-delay product of the planted direction, in bytes.
func (d *draw) held() float64 { return float64(d.rate()) / 8 * d.trip.Seconds() }

// allows plants a limit with a formula and its right answers; it reports whether the limit
// bites, and leaves enough to be measured.
func (d *draw) allows(bound units.BitRate, first ...Answer) bool {
	c := d.ceiling(d.way)
	if float64(bound) > bites*float64(c) || bound < 300e3 {
		return false
	}
	l := &d.labels[place(d.way)]
	l.Planted, l.First = true, first
	l.Bound = bound
	return true
}

// says plants a limit without a formula.
func (d *draw) says(way model.Direction, first ...Answer) *Label {
	l := &d.labels[place(way)]
	l.Planted, l.First = true, first
	return l
}

// may adds answers that are true in all directions.
func (d *draw) may(answers ...Answer) {
	for i := range d.labels {
		d.labels[i].May = append(d.labels[i].May, answers...)
	}
}

// named adds a required finding of a direction.
func (d *draw) named(way model.Direction, answers ...Answer) {
	l := &d.labels[place(way)]
	l.Named = append(l.Named, answers)
}

// newDraw draws a path.
func newDraw(rng *rand.Rand) *draw {
	d := &draw{rng: rng, mtu: 1500}
	rate := units.BitRate(round(d.between(float64(LeastRate), float64(MostRate))))
	d.rates = [2]units.BitRate{rate, rate}
	d.trip = time.Duration(round(d.between(float64(LeastTrip), float64(MostTrip)))) / 1000 * 1000
	d.way = pick(d, model.To, model.From)
	if rate > packetRate(1500) && rng.IntN(2) == 0 {
		d.mtu = 9000
	}
	// The direction without a plant must be filled.
	d.rates[place(opposite(d.way))] = min(rate, packetRate(d.mtu))
	for i, way := range []model.Direction{model.To, model.From} {
		d.labels[i] = Label{Direction: way, First: []Answer{{"ceiling", Any}}}
	}
	return d
}

// round keeps three digits, so that specs are readable.
func round(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return math.Round(v/unit) * unit
}

// packetRate returns the rate of MostPackets of that size.
func packetRate(mtu int) units.BitRate {
	return min(mostJumbo, units.BitRate(MostPackets*8*(mtu+38)))
}

// need returns the rate that a direction has to carry in this case.
func (d *draw) need(i int) units.BitRate {
	if b := d.labels[i].Bound; b > 0 {
		return min(b*2, d.rates[i]) // a connection may be faster than its limit at first
	}
	return d.rates[i]
}

// startTime returns how long slow start takes to fill the path, plus half of that for the
// queue: it doubles in each round trip, from ten segments (RFC 6928).
func (d *draw) startTime() time.Duration {
	most := 0.0
	for i := range d.rates {
		most = max(most, float64(d.rates[i])/8*d.trip.Seconds())
	}
	trips := 2 + math.Log2(max(1, most/float64(10*(d.mtu-52))))
	return time.Duration(1.5 * trips * float64(d.trip))
}

// mostHeld is the largest bandwidth-delay product that default buffers fill: 6 MiB of receive
// and 4 MiB of send buffer hold about half of that as payload (Linux 6.18).
const mostHeld = 1_500_000

// carried reports whether this wire, and a good TCP, carry what the case needs.
func (d *draw) carried() bool {
	for i := range d.rates {
		if d.need(i) > packetRate(d.mtu) {
			return false
		}
		if d.labels[i].Bound == 0 && float64(d.rates[i])/8*d.trip.Seconds() > mostHeld {
			return false
		}
	}
	return d.startTime() < 6*time.Second
}

// quickStart is how long slow start may take for linerate check, whose warm-up is 0.5 s with
// --quick, with the probes before it.
const quickStart = 400 * time.Millisecond

// cubicTrip is the longest round trip of a direction that cubic must fill during a test: on
// longer ones it may leave slow start early (HyStart, RFC 9406) and then grows slowly.
const cubicTrip = 10 * time.Millisecond

// finish converts the draw to a case.
func (d *draw) finish(seed uint64, kind string, clean bool) Case {
	if d.cubic {
		d.flags = append(d.flags, "-C", "cubic")
		if back := opposite(d.way); d.trip > cubicTrip && !d.labels[place(back)].Planted {
			d.flags = append(d.flags, alone(d.way))
		}
	}
	c := Case{Seed: seed, Kind: kind, Clean: clean, Rate: d.rate(), Trip: d.trip, Plants: d.plants, Full: d.full}
	d.mended()
	keys := []string{fmt.Sprintf("rtt=%s", d.trip)}
	for i, way := range []model.Direction{model.To, model.From} {
		d.labels[i].Ceiling = d.ceiling(way)
		if !slices.Contains(d.flags, alone(opposite(way))) {
			c.Labels = append(c.Labels, d.labels[i])
		}
		q := d.queues[i]
		if q == 0 {
			q = kindQueue(d.rates[i], d.trip, d.mtu)
		}
		keys = append(keys, fmt.Sprintf("%srate=%.0fbit", wire(way), float64(d.rates[i])), fmt.Sprintf("%squeue=%d", wire(way), q))
	}
	keys = append(keys, fmt.Sprintf("mtu=%d", d.mtu), fmt.Sprintf("seed=%d", seed+1))
	c.Spec = strings.Join(append(keys, d.keys...), ",")
	d.command(&c)
	return c
}

// mended adds a right answer for each direction if selective acknowledgements are off: the
// segments lost at the end of slow start are then retransmitted one by one, which may take the
// whole test, so that no other limit is ever reached. 0.1 Mbit/s were observed where a send
// buffer allowed 1.2.
func (d *draw) mended() {
	if !slices.ContainsFunc(d.keys, func(k string) bool { return strings.HasSuffix(k, ".tcp.sack=0") }) {
		return
	}
	for i, way := range []model.Direction{model.To, model.From} {
		if a := (Answer{"B10", way.Sender()}); !slices.Contains(d.labels[i].First, a) {
			d.labels[i].First = append(slices.Clone(d.labels[i].First), a)
		}
	}
}

// alone returns the flag of linerate test for one direction only.
func alone(way model.Direction) string {
	if way == model.From {
		return "-R"
	}
	return "--to"
}

// kindQueue returns a harmless queue: a round trip, at least twenty packets, and at least 4 ms
// or 256 KiB, whichever is less, so that bursts fit and waits are short.
func kindQueue(rate units.BitRate, trip time.Duration, mtu int) units.Bytes {
	return max(units.Bytes(float64(rate)/8*trip.Seconds()), units.Bytes(20*(mtu+14)), min(256*1024, units.Bytes(float64(rate)/8*0.004)))
}

// command chooses the measurement: check or, if slow start would take too much of its time or a
// flag is the plant, a test with a warm-up of its own.
func (d *draw) command(c *Case) {
	start := d.startTime()
	if len(d.flags) == 0 && d.time == 0 && (start < quickStart || d.full && start < 2*quickStart) {
		c.Check = true
		return
	}
	omit, length := d.omit, d.time
	if length == 0 {
		length = 5 * time.Second
		omit = max(time.Second, (2 * start).Round(100*time.Millisecond))
	}
	c.Args = append(slices.Clone(d.flags), "-t", length.String(), "--omit", omit.String())
}

// tries is how many draws a kind gets to find one that bites.
const tries = 5_000

// Of returns the case of a kind by name for a seed. ok is false for a name that is not in the
// catalogue, and for a kind that cannot be planted here.
func Of(name string, seed uint64) (c Case, ok bool) {
	if name == "clean" {
		return one(Kind{Name: name, Harmless: true, plant: func(*draw) bool { return true }}, seed)
	}
	for _, k := range Catalogue() {
		if k.Name == name && k.Skip == "" {
			return one(k, seed)
		}
	}
	return Case{}, false
}

// one draws until the kind bites.
func one(k Kind, seed uint64) (Case, bool) {
	rng := source(seed, 1)
	for range tries {
		d := newDraw(rng)
		if k.plant(d) && d.carried() {
			return d.finish(seed, k.Name, k.Harmless), true
		}
	}
	return Case{}, false
}

func source(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// laterShare is the share of seeds that select a later kind, by a separate draw, so that all
// other seeds keep their cases.
const laterShare = 0.05

// Draw returns the case of a seed.
func Draw(seed uint64) Case {
	rng := source(seed, 0)
	var limiting, harmless, pairing, late []Kind
	for _, k := range Catalogue() {
		switch {
		case k.Skip != "":
		case k.later:
			late = append(late, k)
		case k.Harmless:
			harmless = append(harmless, k)
		default:
			limiting = append(limiting, k)
			if !k.lone {
				pairing = append(pairing, k)
			}
		}
	}
	if rng := source(seed, 3); rng.Float64() < laterShare {
		if c, ok := one(late[rng.IntN(len(late))], seed); ok {
			return c
		}
	}
	var c Case
	ok := false
	switch p := rng.Float64(); {
	case p < 0.20:
		c, ok = Of("clean", seed)
	case p < 0.30:
		c, ok = one(harmless[rng.IntN(len(harmless))], seed)
	case p < 0.45:
		for range 20 { // some pairs of kinds are incompatible
			if c, ok = two(pairing[rng.IntN(len(pairing))], pairing[rng.IntN(len(pairing))], seed); ok {
				break
			}
		}
	default:
		c, ok = one(limiting[rng.IntN(len(limiting))], seed)
	}
	if !ok { // a test checks that this does not happen
		c, _ = Of("clean", seed)
	}
	return c
}

// two plants a kind in each direction, or both in one direction if one of them is clearly the
// smaller limit.
func two(a, b Kind, seed uint64) (Case, bool) {
	rng := source(seed, 2)
	same := rng.IntN(2) == 0 && a.Name != b.Name
	for range tries {
		d := newDraw(rng)
		if !a.plant(d) {
			continue
		}
		ways := [2]int{place(d.way), place(opposite(d.way))}
		first := d.labels[ways[0]]
		if same {
			ways[1] = ways[0]
			d.labels[ways[0]] = Label{Direction: first.Direction, First: []Answer{{"ceiling", Any}}}
		} else {
			d.way = opposite(d.way)
		}
		if !b.plant(d) || !d.carried() || d.clash() {
			continue
		}
		if same && !d.dominates(first) {
			continue
		}
		return d.finish(seed, a.Name+" + "+b.Name, false), true
	}
	return Case{}, false
}

// dominates joins two labels of one direction if one allows less than half of the other: that
// one is the first, and the other may be named.
func (d *draw) dominates(first Label) bool {
	l := &d.labels[place(d.way)]
	if first.Bound == 0 || l.Bound == 0 {
		return false
	}
	small, large := first, *l
	if large.Bound < small.Bound {
		small, large = large, small
	}
	if 2*small.Bound > large.Bound {
		return false
	}
	small.May = append(append(append([]Answer{}, small.May...), large.May...), large.First...)
	*l = small
	return true
}

// clash reports whether a key occurs twice, or cubic is required of a host whose plant sets
// another congestion control.
func (d *draw) clash() bool {
	seen := map[string]bool{}
	for _, k := range d.keys {
		name, _, _ := strings.Cut(k, "=")
		if seen[name] || d.cubic && strings.HasSuffix(name, congestion) {
			return true
		}
		seen[name] = true
	}
	return false
}
