package must

import (
	"runtime"
	"time"
)

// Patience is how long Until and Wait wait for what happens at once on an idle machine. It only
// matters if the program is broken.
const Patience = 2 * time.Minute

// Until ends t if ok does not become true within Patience.
func Until(t TB, what string, ok func() bool) {
	t.Helper()
	Within(t, Patience, what, ok)
}

// Within ends t if ok does not become true within d.
func Within(t TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	late := time.After(d)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			never(t, d, what)
		}
	}
}

// Wait returns what c delivers, the zero value if it is closed, and ends t if that takes longer
// than Patience.
func Wait[T any](t TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(Patience):
		never(t, Patience, what)
	}
	return v
}

// never ends t with what all goroutines do: which of them hangs is hardly ever seen twice.
func never(t TB, d time.Duration, what string) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	t.Fatal("not within " + d.String() + ": " + what + "\n" + string(stacks[:runtime.Stack(stacks, true)]))
}
