//go:build truth

package tls_test

import (
	"fmt"
	"testing"

	"linerate/internal/truth"
)

// TestSoonAmongAnonymous has a thousand anonymous clients of every manner at the door:
// who has the right secret is served within 2 s.
func TestSoonAmongAnonymous(t *testing.T) {
	for manner, h := range hostiles() {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, from many addresses %t", manner, many), func(t *testing.T) {
				truth.Hold(t, truth.Tries, func(try *truth.Try) {
					took, err := entered(try, anonymousCrowd(try, 1000, h, many))
					if err != nil {
						try.Fatal(err)
					}
					try.Claim("served after", took.Seconds(), 0, 2, "s")
				})
			})
		}
	}
}
