package udpstp

import (
	"fmt"
	"time"

	"linerate/internal/core/units"
)

// Rate describes two transmitters that send side by side (section 3): Burst1 datagrams of
// Payload1 bytes in each Interval1, and in each Interval2 Burst2 datagrams of Payload2 bytes
// and one of Addon2 bytes. Intervals are in microseconds, 0 is never; sizes are of UDP payload
// over IPv4. A size with RandomSize is drawn anew for each burst, from MinLoad up to the rest
// of it.
type Rate struct{ Interval1, Payload1, Burst1, Interval2, Payload2, Burst2, Addon2 uint32 }

// RandomSize marks a size as random.
const RandomSize = 1 << 31

// Bounds of what a peer may make this end send.
const (
	minInterval = 100 // microseconds
	maxBurst    = 100
)

// Validate returns an error for values that no table has.
func (r Rate) Validate() error {
	for _, t := range []struct{ interval, burst uint32 }{{r.Interval1, r.Burst1}, {r.Interval2, r.Burst2}} {
		if t.interval != 0 && t.interval < minInterval || t.interval > uint32(time.Second.Microseconds()) || t.burst > maxBurst {
			return fmt.Errorf("%w: a burst of %d datagrams every %d µs", ErrPDU, t.burst, t.interval)
		}
	}
	for _, size := range []uint32{r.Payload1, r.Payload2, r.Addon2} {
		if size &^= RandomSize; size != 0 && size < MinLoad || size > jumboPacket-28 {
			return fmt.Errorf("%w: datagrams of %d bytes", ErrPDU, size)
		}
	}
	return nil
}

// IPRate returns the mean rate of r in bits of IP packets, which is the same over IPv4 and
// IPv6.
func (r Rate) IPRate() units.BitRate {
	mean := func(size uint32) float64 {
		if size&RandomSize != 0 {
			return float64(size&^RandomSize+MinLoad)/2 + 28
		}
		if size == 0 {
			return 0
		}
		return float64(size) + 28
	}
	sum := 0.0
	if r.Interval1 > 0 {
		sum += float64(r.Burst1) * mean(r.Payload1) / float64(r.Interval1)
	}
	if r.Interval2 > 0 {
		sum += (float64(r.Burst2)*mean(r.Payload2) + mean(r.Addon2)) / float64(r.Interval2)
	}
	return units.BitRate(sum * 8e6)
}

// The table: the number of its rows, and the last row with a whole number of Mbit/s, above
// which steps are slow.
const (
	Rows      = 1153
	HighSpeed = 1000
)

// Sizes of IP packets, bytes.
const (
	defaultPacket     = 1250
	traditionalPacket = 1500
	jumboPacket       = 9000
	jumboStep         = 125
)

// Row returns a row of the table of sending rates, from 0 to Rows-1.
func Row(row int, jumbo, traditional bool) Rate {
	packet, first := uint32(defaultPacket), 11
	if traditional {
		packet, first = traditionalPacket, 9
	}
	each := int(packet) * 8 / 100 // Mbit/s of one packet every 100 µs
	const fast, slow = 100, 1000  // µs
	switch payload := packet - 28; {
	case row <= 0:
		return Rate{Interval2: 50_000, Addon2: payload | RandomSize}
	case row <= HighSpeed:
		var r Rate
		if n := row / each; n > 0 {
			r.Interval1, r.Payload1, r.Burst1 = fast, payload, uint32(n)
		}
		rest := row % each
		if n := rest / (each / 10); n > 0 {
			r.Interval2, r.Payload2, r.Burst2 = slow, payload, uint32(n)
		}
		if n := rest % (each / 10); n > 0 {
			r.Interval2, r.Addon2 = slow, uint32(n)*jumboStep-28 // 125 bytes every millisecond are 1 Mbit/s
		}
		return r
	case jumbo:
		const grown = (jumboPacket - defaultPacket) / jumboStep // rows in which packets grow
		if n := row - HighSpeed; n <= grown {
			return Rate{Interval1: fast, Payload1: uint32(defaultPacket + n*jumboStep - 28), Burst1: 10}
		}
		return Rate{Interval1: fast, Payload1: jumboPacket - 28, Burst1: uint32(min(row-HighSpeed-grown+10, maxBurst))}
	default:
		return Rate{Interval1: fast, Payload1: payload, Burst1: uint32(min(row-HighSpeed-1+first, maxBurst))}
	}
}

// RowOf returns the highest row of that table whose rate is not more than rate.
func RowOf(rate units.BitRate, jumbo, traditional bool) int {
	row := 0
	for row+1 < Rows && Row(row+1, jumbo, traditional).IPRate() <= rate {
		row++
	}
	return row
}

func (r Rate) put(b []byte) {
	put32(b, r.Interval1, r.Payload1, r.Burst1, r.Interval2, r.Payload2, r.Burst2, r.Addon2)
}

func rateAt(b []byte) Rate {
	u := func(i int) uint32 { return be.Uint32(b[4*i:]) }
	return Rate{u(0), u(1), u(2), u(3), u(4), u(5), u(6)}
}
