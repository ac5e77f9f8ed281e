//go:build truth

package tls_test

import (
	"fmt"
	"testing"
	"time"

	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestSoonAmongAnonymous: with a thousand anonymous clients of every kind at the door, a client
// with the right secret is served within 2 s.
func TestSoonAmongAnonymous(t *testing.T) {
	for manner, h := range hostiles() {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, from many addresses %t", manner, many), func(t *testing.T) {
				truth.Hold(t, truth.Tries, func(try *truth.Try) {
					l, began := anonymousCrowd(try, 1000, h, many), time.Now()
					for {
						_, err := entered(try, l)
						if err == nil {
							break
						}
						try.Log(err)
						must.Need(try, time.Since(began) <= time.Minute, "never served")
					}
					try.Claim("served after", time.Since(began).Seconds(), 0, 2, "s")
				})
			})
		}
	}
}
