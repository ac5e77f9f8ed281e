package machine

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"linerate/internal/core/units"
	"linerate/internal/must"
)

// ends returns two programs at a wire that use qemu's format.
func ends(t *testing.T, w *Wire) (both [2]net.Conn) {
	t.Helper()
	for i := range both {
		var d net.Dialer
		c := must.Get(d.DialContext(context.Background(), "unix", w.path))(t)
		t.Cleanup(func() { c.Close() })
		both[i] = c // the one that connects first is end 0
	}
	<-w.joined
	return both
}

// push writes numbered frames of 1514 bytes at a rate, and pull counts those that arrive until
// none does for a while.
func push(to io.Writer, frames int, rate units.BitRate) error {
	began := time.Now()
	for i := range frames {
		time.Sleep(time.Until(began.Add(time.Duration(float64(i) * 1514 * 8 / float64(rate) * float64(time.Second)))))
		b := make([]byte, 4+1514)
		binary.BigEndian.PutUint32(b, 1514)
		binary.BigEndian.PutUint32(b[4:], uint32(i))
		if _, err := to.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func pull(from net.Conn) (frames int) {
	b := make([]byte, 4+1514)
	for {
		_ = from.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := io.ReadFull(from, b); err != nil {
			return frames
		}
		frames++
	}
}

// TestWire: frames take their time at the rate, separately in each direction at full duplex,
// together at half duplex; faster ones overflow the queue; with mismatched ends frames are lost
// that would have had room.
func TestWire(t *testing.T) {
	t.Parallel()
	const n, rate = 300, units.BitRate(10e6)
	for name, c := range map[string]struct {
		half    [2]bool
		offered units.BitRate // by each end
		most    units.BitRate // of both together
		lost    bool
	}{
		"room":     {offered: 5e6, most: 10e6},
		"full":     {offered: 40e6, most: 20e6, lost: true},
		"half":     {half: [2]bool{true, true}, offered: 40e6, most: 10e6, lost: true},
		"disagree": {half: [2]bool{true, false}, offered: 4e6, most: 8e6, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := must.Get(NewWire(t.TempDir(), "w"))(t)
			defer w.Close()
			both := ends(t, w)
			w.Set(rate, c.half)
			began := time.Now()
			type got struct {
				frames int
				last   time.Duration
			}
			results := make(chan got, 2)
			for i := range both {
				go func() { _ = push(both[i], n, c.offered) }()
				go func() {
					frames := pull(both[1-i])
					results <- got{frames, time.Since(began) - time.Second} // pull waited that long
				}()
			}
			a, b := <-results, <-results
			took := max(a.last, b.last)
			rate := units.BitRate(float64((a.frames+b.frames)*(1514+between)*8) / took.Seconds())
			must.True(t, float64(rate) <= 1.05*float64(c.most), "%s were carried, at most %s can be", rate, c.most)
			// A busy machine may delay frames that have room.
			lost := a.frames < n && b.frames < n
			must.True(t, (!c.lost || lost) && a.frames+b.frames != 0, "%d and %d of %d frames arrived in %s", a.frames, b.frames, n, took)
		})
	}
}
