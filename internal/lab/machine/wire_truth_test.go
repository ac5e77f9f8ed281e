//go:build truth

package machine

import (
	"testing"

	"linerate/internal/core/units"
	"linerate/internal/truth"
)

// TestTruthOfRoom: a wire loses no frame of ends that together offer what it can carry.
func TestTruthOfRoom(t *testing.T) {
	const n = 300
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		w, err := NewWire(try.TempDir(), "w")
		if err != nil {
			try.Fatal(err)
		}
		defer w.Close()
		both := ends(t, w)
		w.Set(units.BitRate(10e6), [2]bool{})
		arrived := make(chan int, 2)
		for i := range both {
			go func() { _ = push(both[i], n, 5e6) }()
			go func() {
				arrived <- pull(both[1-i])
			}()
		}
		for _, end := range []string{"one end", "the other end"} {
			try.Claim("frames that came to "+end, float64(<-arrived), n, n, "")
		}
	})
}
