package tcpbulk

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/plane"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpinfo"
	"linerate/internal/panics"
)

// A mover moves payload with one way of waiting for the kernel.
type mover interface {
	// waiting returns the name of the way, for the report.
	waiting() string
	// threads returns how many threads that keep their processor move n streams.
	threads(n int) int
	// attach takes over c. If it fails the caller still owns c.
	attach(c *net.TCPConn) (link, error)
	// uncopied has w's payload sent, or received, without a copy.
	uncopied(w *work) error
	// move starts workers for w's streams with w.worker, which waits for the clock. They call
	// w.finish for each stream when it has ended.
	move(w *work) error
}

// A link is a connection that a plane owns.
type link interface {
	// interrupt wakes the sender or receiver on the connection, according to role. A receiver's
	// peer does not notice; a sender can send no more.
	interrupt(role model.Role)
	info() (tcpinfo.Info, error)
	subflows(out []tcpinfo.Subflow) ([]tcpinfo.Subflow, error)
	bbr() (tcpinfo.BBR, error)
	congestion() (string, error)
	granted() (sockio.Granted, error)
	close() error
}

// noWay is the error of a system on which the payload cannot be moved without a copy.
func noWay() error { return errors.New(runtime.GOOS + " has no way without a copy") }

// unlimited is the quota of a stream that sends until it is stopped.
const unlimited int64 = -1

// stream is one connection with its counters. A worker writes them, the sampler reads them. The
// padding keeps the counters of two streams out of one cache line, and out of the pair of lines
// that CPUs prefetch.
type stream struct {
	link  link
	quota int64     // bytes to send, or unlimited
	paths *subflows // of a Multipath TCP sender, else nil
	_     [128]byte
	count atomic.Int64 // bytes of payload sent or received
	first atomic.Int64 // when the first byte arrived, since the start; 0 before
	last  atomic.Int64 // when the stream ended, since the start
	over  atomic.Bool  // the stream has ended; reason is set
	_     [128]byte
	// reason is why the stream ended: nil if it was stopped or had moved its quota, io.EOF if
	// the peer closed it, or the error.
	reason error
}

// work is the shared state of one direction's workers.
type work struct {
	role    model.Role
	streams []*stream
	block   []byte  // the payload of a write; as long as a read
	confirm bool    // the receiver answers the sender's FIN with its own
	file    int     // holds the payload that is sent without a copy, -1 for none
	discard uintptr // flag of recv(2) that drops what arrives, 0 for none
	pace    float64 // bytes a second per stream; 0 is as fast as possible
	stop    atomic.Bool
	start   time.Time // set before go is closed
	ready   sync.WaitGroup
	release chan struct{} // closed to start
	running sync.WaitGroup
	fail    func(error) // ends the run because of a bug in a worker
}

func newWork(role model.Role, streams []*stream, spec model.Flow) *work {
	return &work{
		role: role, streams: streams, block: plane.Payload(int(spec.Block)), confirm: spec.Bytes != 0, file: -1,
		release: make(chan struct{}),
	}
}

// worker runs f in a goroutine of its own, once the clock runs.
func (w *work) worker(f func()) {
	w.ready.Add(1)
	w.running.Go(panics.From(w.fail, func() {
		w.ready.Done()
		<-w.release
		f()
	}))
}

// arrive records the stream's first byte.
func (w *work) arrive(s *stream) { s.first.Store(max(1, int64(time.Since(w.start)))) }

// finish records the end of a stream. A requested stop is no reason.
func (w *work) finish(s *stream, reason error) {
	if !w.stop.Load() {
		s.reason = reason
	}
	s.last.Store(int64(time.Since(w.start)))
	s.over.Store(true)
}
