package hops

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"linerate/internal/panics"
)

// sourcePorts is 1: echo requests have none.
const sourcePorts = 1

const (
	// mostCalls is the most calls that wait for an answer at once, each with a thread of its
	// own: those of a second under load.
	mostCalls = mostHops * int(time.Second/loadedGap)
	// echoPatience is how long a call waits for its answer.
	echoPatience = 2 * patience
)

var (
	helper     = windows.NewLazySystemDLL("iphlpapi.dll")
	createFour = helper.NewProc("IcmpCreateFile")
	createSix  = helper.NewProc("Icmp6CreateFile")
	sendFour   = helper.NewProc("IcmpSendEcho2Ex")
	sendSix    = helper.NewProc("Icmp6SendEcho2")
	closeEcho  = helper.NewProc("IcmpCloseHandle")
	kernel     = windows.NewLazySystemDLL("kernel32.dll")
	counter    = kernel.NewProc("QueryPerformanceCounter")
	frequency  = kernel.NewProc("QueryPerformanceFrequency")
)

// echoes sends ICMP echo requests, with a TTL that any user may choose. Each is a call that
// returns with the answer.
type echoes struct {
	near, far netip.Addr
	whole     bool
	fail      func(error)
	calls     chan struct{} // holds a value for each waiting call
	answers   chan answer
	closed    chan struct{}
}

func open(_ context.Context, c Config) (socket, error) {
	e := &echoes{
		near: c.Local.Unmap(), far: c.Peer.Addr().Unmap(), whole: c.whole, fail: c.Fail,
		calls: make(chan struct{}, mostCalls), answers: make(chan answer), closed: make(chan struct{}),
	}
	if !e.near.IsValid() {
		e.near = netip.IPv4Unspecified()
		if e.far.Is6() {
			e.near = netip.IPv6Unspecified()
		}
	}
	h, err := e.create()
	if err != nil {
		return nil, fmt.Errorf("open socket of the trace: %w", err)
	}
	_, _, _ = closeEcho.Call(h)
	return e, nil
}

func (e *echoes) create() (uintptr, error) {
	create, send := createFour, sendFour
	if e.far.Is6() {
		create, send = createSix, sendSix
	}
	if err := errors.Join(create.Find(), send.Find()); err != nil {
		return 0, err
	}
	h, _, err := create.Call()
	if windows.Handle(h) == windows.InvalidHandle {
		return 0, err
	}
	return h, nil
}

func (e *echoes) send(ttl int, b []byte) error {
	select {
	case e.calls <- struct{}{}:
	default:
		return errors.New("too many echo requests wait for an answer")
	}
	go panics.From(e.fail, func() {
		defer func() { <-e.calls }()
		if a, ok := e.ask(ttl, bytes.Clone(b)); ok {
			select {
			case e.answers <- a:
			case <-e.closed:
			}
		}
	})()
	return nil
}

// ask sends b and waits for the answer. It takes the time from the performance counter: the
// reply's own is in milliseconds, and the clock of package time may be as coarse [K].
func (e *echoes) ask(ttl int, b []byte) (answer, bool) {
	h, err := e.create()
	if err != nil {
		return answer{}, false
	}
	defer func() { _, _, _ = closeEcho.Call(h) }()
	options := struct { // IP_OPTION_INFORMATION of ipexport.h
		ttl, tos, flags, size uint8
		data                  uintptr
	}{ttl: uint8(ttl)}
	if e.whole {
		options.flags = 2 // IP_FLAG_DF
	}
	// Size of a reply: its 40 bytes, the data, an ICMP error and an IO_STATUS_BLOCK
	// (IcmpSendEcho2Ex, "ReplySize").
	reply := make([]byte, 40+len(b)+8+16)
	size, room, patience := uintptr(len(b)), uintptr(len(reply)), uintptr(echoPatience/time.Millisecond)
	began := ticks(counter)
	if e.far.Is6() {
		near := windows.RawSockaddrInet6{Family: windows.AF_INET6, Addr: e.near.As16()}
		far := windows.RawSockaddrInet6{Family: windows.AF_INET6, Addr: e.far.As16()}
		_, _, _ = sendSix.Call(h, 0, 0, 0, uintptr(unsafe.Pointer(&near)), uintptr(unsafe.Pointer(&far)), uintptr(unsafe.Pointer(&b[0])), size,
			uintptr(unsafe.Pointer(&options)), uintptr(unsafe.Pointer(&reply[0])), room, patience)
	} else {
		near, far := e.near.As4(), e.far.As4() // IPAddr is in network byte order
		_, _, _ = sendFour.Call(h, 0, 0, 0, uintptr(binary.NativeEndian.Uint32(near[:])), uintptr(binary.NativeEndian.Uint32(far[:])), uintptr(unsafe.Pointer(&b[0])), size,
			uintptr(unsafe.Pointer(&options)), uintptr(unsafe.Pointer(&reply[0])), room, patience)
	}
	took := ticks(counter) - began
	a, ok := echoed(reply, e.far.Is6()) // without an answer, the address is invalid
	a.quote = b
	a.took = time.Duration(float64(took) / float64(ticks(frequency)) * float64(time.Second))
	return a, ok
}

// ticks returns the value of a performance counter function; these do not fail (profileapi.h).
func ticks(of *windows.LazyProc) int64 {
	var n int64
	_, _, _ = of.Call(uintptr(unsafe.Pointer(&n)))
	return n
}

func (e *echoes) receive() (answer, error) {
	select {
	case a := <-e.answers:
		return a, nil
	case <-e.closed:
		return answer{}, net.ErrClosed
	}
}

// close waits for the calls, and admits no others.
func (e *echoes) close() error {
	close(e.closed)
	for range mostCalls {
		e.calls <- struct{}{}
	}
	return nil
}
