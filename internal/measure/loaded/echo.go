package loaded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"linerate/internal/panics"
)

// echo is the far end, which returns the probes.
type echo struct {
	*test
	running sync.WaitGroup
	load    chan struct{} // closed when the near end requests the load
	end     chan struct{} // closed when the near end has sent all probes
	gone    chan struct{} // closed when its connection has ended
	reason  error         // the reason, set before gone is closed
}

func newEcho(t *test) *echo {
	return &echo{test: t, load: make(chan struct{}), end: make(chan struct{}), gone: make(chan struct{})}
}

// begin announces that this end is ready, and starts to return probes.
func (e *echo) begin() error {
	if _, err := e.tcp.Write([]byte{letterReady}); err != nil {
		return fmt.Errorf("greet the near end: %w", err)
	}
	e.running.Go(panics.From(e.Fail, e.serveTCP))
	if e.udp != nil {
		e.running.Go(panics.From(e.Fail, e.serveUDP))
	}
	return nil
}

func (e *echo) serveTCP() {
	defer close(e.gone)
	b := make([]byte, 256)
	loaded, ended := false, false
	for {
		n, err := e.tcp.Read(b)
		if n > 0 {
			if _, err := e.tcp.Write(b[:n]); err != nil {
				e.reason = err
				return
			}
		}
		for _, letter := range b[:n] {
			switch {
			case letter == letterProbe:
			case letter == letterLoad && !loaded:
				loaded = true
				close(e.load)
			case letter == letterEnd && !ended:
				ended = true
				close(e.end)
			default:
				e.reason = fmt.Errorf("the near end sends %q", letter)
				return
			}
		}
		if err != nil {
			e.reason = err
			return
		}
	}
}

// serveUDP returns probes, and ignores other datagrams.
func (e *echo) serveUDP() {
	b := make([]byte, probeSize+1)
	for faults := 0; faults < maxFaults; {
		n, err := e.udp.Read(b)
		if err != nil {
			if e.over.Load() {
				return
			}
			faults++
			continue
		}
		if _, _, ok := parseDatagram(b[:n], e.cookie); !ok {
			continue
		}
		faults = 0
		binary.BigEndian.PutUint64(b[cookieSize+8:], e.arrived.Load())
		// What the kernel does not accept is lost, which the near end sees.
		_, _ = e.udp.Write(b[:n])
	}
}

// finish ends everything and waits for it.
func (e *echo) finish() {
	e.over.Store(true)
	e.wake()
	e.running.Wait()
}

// errGone reports that the other end's connection ended.
var errGone = errors.New("the other end went away")
