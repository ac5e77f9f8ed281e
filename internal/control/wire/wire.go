// Package wire is the contract between a session and what carries its bytes.
//
// A transport turns a host into a Peer: one connection for control, and an
// address for the data connections, which go past the transport. Packages pipe,
// stdio and tls each make one.
package wire

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"linerate/internal/rescue"
)

// ErrEnded is wrapped by what Peer.Why returns of an end without a reason.
var ErrEnded = errors.New("ended")

// Peer is a way to the agent of one host. It is owned by whoever opened it, and
// handed to session.Open, whose Client then owns it.
type Peer struct {
	// Control carries the session, from its first byte on.
	Control net.Conn
	// Name is the host in messages, for example "nas" or "lab b".
	Name string
	// DataHost is the address, without a port, at which the other end of a run
	// reaches this host's data connections; "" when unknown.
	DataHost string
	// DataPort is the port for data connections where it does not depend on the
	// run, as with linerate serve. 0: the agent tells it for each run.
	DataPort int
	// Forwarded, where given, carries data connections in place of DataHost.
	Forwarded *Forwarding
	// Secret is presented to the agent; nil where none is needed.
	Secret []byte
	// Warnings are what the user should know of this way, one sentence each.
	Warnings []string
	// Why, where given, says what the transport knows of how Control ended, for
	// example the last words of a child process; nil for nothing. It may wait a
	// moment for them.
	Why func() error
	// Close, where given, ends the transport after Control, and waits for it. It
	// is idempotent.
	Close func() error
}

// Forwarding brings connections from this machine to a host's loopback address.
type Forwarding struct {
	Addr string // host:port to connect to, on this machine
	Port int    // of the host's loopback address: its agent accepts there
}

// joined is a net.Conn made of a reader and a writer.
type joined struct {
	net.Conn // this end of an in-memory pipe, for its deadlines
	close    sync.Once
}

// lastWords is how long a stream is still read whose other direction takes nothing any more.
const lastWords = time.Second

// Join makes one connection of a stream to read and one to write, with the
// deadlines that pipes and terminals lack on some systems. Closing it closes w
// once what was written has gone out. r is then still read, and what comes is
// dropped, until it ends: a program that writes to a pipe without a reader would
// be killed before it can put its host in order. done is closed when both
// streams are no longer used.
func Join(r io.Reader, w io.WriteCloser) (conn net.Conn, done <-chan struct{}) {
	outer, inner := net.Pipe()
	var both sync.WaitGroup
	broken := func(error) {
		_ = w.Close()
		_ = inner.Close()
	}
	both.Go(rescue.From(broken, func() {
		_, _ = io.Copy(inner, r)
		_ = inner.Close()
		_, _ = io.Copy(io.Discard, r)
	}))
	both.Go(rescue.From(broken, func() {
		_, err := io.Copy(w, inner)
		_ = w.Close()
		if err != nil { // a program that takes no more may have said why
			late := time.AfterFunc(lastWords, func() { _ = inner.Close() })
			_, _ = io.Copy(io.Discard, inner)
			late.Stop()
		}
		_ = inner.Close()
	}))
	finished := make(chan struct{})
	go func() {
		both.Wait()
		close(finished)
	}()
	return &joined{Conn: outer}, finished
}

// Close ends the connection; see Join.
func (j *joined) Close() error {
	j.close.Do(func() { _ = j.Conn.Close() })
	return nil
}
