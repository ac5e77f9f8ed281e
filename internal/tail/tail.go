// Package tail keeps the end of a program's output.
package tail

import "sync"

// Tail keeps the end of what is written to it: a program's last output, for an error message.
// It is safe for concurrent use.
type Tail struct {
	Keep int // bytes

	mu  sync.Mutex
	b   []byte
	cut bool
}

// Write implements io.Writer. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - t.Keep; over > 0 {
		t.b, t.cut = append(t.b[:0], t.b[over:]...), true
	}
	return len(p), nil
}

// String returns what was kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

// Cut reports whether earlier output was dropped, so that the first line may be incomplete.
func (t *Tail) Cut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cut
}
