// Package wire is the contract between a session and its transport.
//
// A transport turns a host into a Peer: one connection for control, and an address for the data
// connections, which bypass the transport. Pipe and the packages stdio and tls each implement one.
package wire

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"linerate/internal/panics"
)

// ErrEnded is wrapped by Peer.Why's error for an end without a known reason.
var ErrEnded = errors.New("ended")

// Peer is a connection to the agent of one host. The function that opened it owns it until
// session.Open, whose Client then owns it.
type Peer struct {
	// Control carries the session, from its first byte on.
	Control net.Conn
	// Name is the host in messages, for example "nas" or "lab b".
	Name string
	// DataHost is the address, without a port, at which the other end of a run reaches this
	// host's data connections; "" if unknown.
	DataHost string
	// DataPort is the port for data connections if it is the same for every run, as with
	// linerate serve. 0: the agent reports it for each run.
	DataPort int
	// Forwarded, if set, carries data connections in place of DataHost.
	Forwarded *Forwarding
	// Secret is presented to the agent; nil if none is needed.
	Secret []byte
	// Warnings are what the user should know about this connection, one sentence each.
	Warnings []string
	// Why, if set, returns what the transport knows about the end of Control, for example the
	// last words of a child process; nil for nothing. It may wait a moment for them.
	Why func() error
	// Close, if set, ends the transport after Control, and waits for it. It is idempotent.
	Close func() error
}

// Forwarding forwards connections from this machine to a host's loopback address.
type Forwarding struct {
	Addr string // host:port to connect to, on this machine
	Port int    // on the host's loopback address, where its agent accepts
}

// joined is a net.Conn made of a reader and a writer.
type joined struct {
	net.Conn // this end of an in-memory pipe, for its deadlines
	close    sync.Once
}

// lastWords is how long the read stream is still read after the write stream has broken.
const lastWords = time.Second

// Join makes one connection from a stream to read and one to write, with the deadlines that
// pipes and terminals lack on some systems. Closing it closes w after pending writes. r is then
// read to its end and the data dropped: a program that writes to a pipe without a reader would
// be killed before it can restore its host. done is closed when both streams are no longer used.
func Join(r io.Reader, w io.WriteCloser) (conn net.Conn, done <-chan struct{}) {
	outer, inner := net.Pipe()
	var both sync.WaitGroup
	broken := func(error) {
		_ = w.Close()
		_ = inner.Close()
	}
	both.Go(panics.From(broken, func() {
		_, _ = io.Copy(inner, r)
		_ = inner.Close()
		_, _ = io.Copy(io.Discard, r)
	}))
	both.Go(panics.From(broken, func() {
		_, err := io.Copy(w, inner)
		_ = w.Close()
		if err != nil { // a program that reads no more may have sent the reason
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
