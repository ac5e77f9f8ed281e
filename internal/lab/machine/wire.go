package machine

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"linerate/internal/core/units"
)

// Wire is a cable with the capacity of a real one: each frame takes its time, after a queue of
// a few frames in each direction, as in a switch, and an end at half duplex waits while the
// other one sends. Either machine may be started first.
type Wire struct {
	*Cable
	listener net.Listener
	mu       sync.Mutex
	rate     units.BitRate
	half     [2]bool
	free     [2]time.Time // when an end's last frame has left it
	spoiled  [2]bool      // that frame collided with another one
	ends     [2]net.Conn
	queued   [2]int        // waiting bytes
	joined   chan struct{} // closed when both ends have connected
	all      sync.WaitGroup
}

const (
	// between is what a frame adds on an Ethernet wire: preamble, check sequence and the
	// following gap (IEEE 802.3, clauses 3 and 4.4.2).
	between = 8 + 4 + 12
	// leastFrame is the smallest frame without its check sequence.
	leastFrame = 60
	// mostFrame is more than any card sends: qemu passes at most 64 KiB.
	mostFrame = 1 << 17
	// slack is how far a wire may fall behind with waiting frames, and catch up: sleepers wake
	// late.
	slack = 200 * time.Millisecond
)

// NewWire creates a wire whose socket is in dir. It is unlimited until Set, and ends with
// Close.
func NewWire(dir, name string) (*Wire, error) {
	c := NewCable(dir, name)
	if err := os.Remove(c.path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "unix", c.path) // Close ends it
	if err != nil {
		return nil, err
	}
	c.used = true // both machines connect
	w := &Wire{Cable: c, listener: l, joined: make(chan struct{})}
	w.all.Go(w.join)
	return w, nil
}

// Set sets the wire's rate from now on: for each direction, or for both together if both ends
// are at half duplex; 0 is unlimited. If only one end is at half duplex, frames that collide
// are lost, as on a real wire with mismatched ends.
func (w *Wire) Set(rate units.BitRate, half [2]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate, w.half = rate, half
}

// Close closes the wire, and waits for its goroutines.
func (w *Wire) Close() {
	w.listener.Close()
	w.mu.Lock()
	for _, c := range w.ends {
		if c != nil {
			c.Close()
		}
	}
	w.mu.Unlock()
	w.all.Wait()
}

// join accepts both ends: the machine that connects first is end 0.
func (w *Wire) join() {
	for i := range w.ends {
		conn, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.mu.Lock()
		w.ends[i] = conn
		w.mu.Unlock()
		w.all.Go(func() { w.read(i) })
	}
	close(w.joined)
}

// frame is a frame in qemu's format: the length in four bytes, then the frame.
type frame struct {
	text []byte
	came time.Time
}

// read reads the frames of an end. It drops frames when the queue is full, and before the other
// end has connected.
func (w *Wire) read(from int) {
	queue := make(chan frame, 4096)
	defer close(queue)
	w.all.Go(func() { w.carry(from, queue) })
	in := bufio.NewReaderSize(w.ends[from], mostFrame)
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(head))
		if n > mostFrame {
			return
		}
		f := frame{append(head, make([]byte, n)...), time.Now()}
		if _, err := io.ReadFull(in, f.text[4:]); err != nil {
			return
		}
		if w.waits(from, n) {
			queue <- f
		}
	}
}

// waits reports whether there is room in the queue for a frame of n bytes.
func (w *Wire) waits(from, n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	room := max(20*1514, int(float64(w.rate)/8*0.004)) // as in labs, see package faults
	if w.ends[1-from] == nil || w.rate > 0 && w.queued[from]+n > room {
		return false
	}
	w.queued[from] += n
	return true
}

// carry sends frames to the other end, each at its time.
func (w *Wire) carry(from int, queue <-chan frame) {
	for f := range queue {
		if lost := w.send(from, f); lost {
			continue
		}
		if _, err := w.ends[1-from].Write(f.text); err != nil {
			for range queue { // the other end is gone
				continue
			}
		}
	}
}

// send waits until a frame has passed, and reports whether it was lost.
func (w *Wire) send(from int, f frame) (lost bool) {
	n := len(f.text) - 4
	w.mu.Lock()
	w.queued[from] -= n
	if w.rate == 0 {
		w.mu.Unlock()
		return false
	}
	begin := f.came
	if w.free[from].After(begin) {
		begin = w.free[from] // the previous one is still on the wire
	}
	if least := time.Now().Add(-slack); begin.Before(least) {
		begin = least
	}
	if other := w.free[1-from]; w.half[from] {
		if other.After(begin) {
			begin = other // it hears the other end, and waits
		}
	} else if w.half[1-from] && other.After(begin) {
		lost, w.spoiled[1-from] = true, true
	}
	took := time.Duration(float64(max(n, leastFrame)+between) * 8 / float64(w.rate) * float64(time.Second))
	end := begin.Add(took)
	w.free[from], w.spoiled[from] = end, false
	w.mu.Unlock()
	time.Sleep(time.Until(end))
	w.mu.Lock()
	defer w.mu.Unlock()
	return lost || w.spoiled[from]
}
