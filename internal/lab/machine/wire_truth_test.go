//go:build truth

package machine

import (
	"testing"

	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestTruthOfRoom: a wire loses no frame if the ends together offer no more than it carries.
func TestTruthOfRoom(t *testing.T) {
	const n = 300
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		w := must.Get(NewWire(try.TempDir(), "w"))(try)
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
