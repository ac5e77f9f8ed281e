package enginetest

import "testing"

// Tries is how often a test may repeat what other work on the machine can spoil.
const Tries = 3

// Try repeats measure until it returns "", up to Tries times, and fails the test
// with the last of what it said is wrong. It is for what depends on how soon the
// machine lets everybody run; what must be right in every run measure reports to
// the test itself.
func Try(t testing.TB, measure func() (wrong string)) {
	t.Helper()
	for try := 1; ; try++ {
		wrong := measure()
		if wrong == "" {
			return
		}
		if try == Tries {
			t.Errorf("try %d: %s", try, wrong)
			return
		}
		t.Logf("try %d: %s", try, wrong)
	}
}
