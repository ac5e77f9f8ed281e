package wire

import (
	"errors"
	"io"
	"testing"

	"linerate/internal/must"
)

// refusing is a stream to a program that takes nothing, and says so afterwards.
type refusing struct{ refused chan struct{} }

func (r refusing) Write([]byte) (int, error) {
	close(r.refused)
	return 0, errors.New("broken pipe")
}

func (refusing) Close() error { return nil }

// TestJoinHearsLastWords: what a program says before it ends is read, also where it had
// taken nothing of what it was sent.
func TestJoinHearsLastWords(t *testing.T) {
	said, says := io.Pipe()
	w := refusing{make(chan struct{})}
	conn, done := Join(said, w)
	must.Do(t, must.Err(conn.Write([]byte("hello"))))
	<-w.refused
	go func() {
		_, _ = says.Write([]byte("no room"))
		_ = says.Close()
	}()
	must.Equal(t, string(must.Get(io.ReadAll(conn))(t)), "no room", "said")
	must.Do(t, conn.Close())
	<-done
}
