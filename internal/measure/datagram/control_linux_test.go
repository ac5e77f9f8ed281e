package datagram

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"linerate/internal/must"
)

// controls puts control messages together as the kernel does.
func controls(parts ...func([]byte) []byte) []byte {
	var b []byte
	for _, p := range parts {
		b = p(b)
	}
	return b
}

func control(level, kind int32, data []byte) func([]byte) []byte {
	return func(b []byte) []byte {
		m := make([]byte, unix.CmsgSpace(len(data)))
		putControl(m, level, kind, len(data))
		copy(m[unix.CmsgLen(0):], data)
		return append(b, m...)
	}
}

func stamp(seconds, nanos uint64) []byte {
	b := binary.NativeEndian.AppendUint64(nil, seconds)
	return binary.NativeEndian.AppendUint64(b, nanos)
}

func TestParseControl(t *testing.T) {
	segment := control(unix.IPPROTO_UDP, unix.UDP_GRO, binary.NativeEndian.AppendUint32(nil, 1472))
	when := control(unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, stamp(1_700_000_000, 123))
	other := control(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, []byte{1, 2, 3, 4})
	for name, c := range map[string]struct {
		b    []byte
		each int
		wall int64
	}{
		"none":  {nil, 0, 0},
		"both":  {controls(when, other, segment), 1472, 1_700_000_000_000_000_123},
		"train": {controls(segment), 1472, 0},
		"short": {controls(control(unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, []byte{1})), 0, 0},
		"cut":   {controls(segment, when)[:unix.CmsgSpace(4)+10], 1472, 0},
	} {
		t.Run(name, func(t *testing.T) {
			each, wall := parseControl(c.b)
			must.True(t, each == c.each && wall == c.wall, "got %d, %d, want %d, %d", each, wall, c.each, c.wall)
		})
	}
}

func FuzzParseControl(f *testing.F) {
	f.Add(controls(control(unix.IPPROTO_UDP, unix.UDP_GRO, []byte{1, 0, 0, 0}),
		control(unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, stamp(1, 2))))
	f.Add([]byte{})
	f.Fuzz(func(_ *testing.T, in []byte) {
		// The kernel writes to aligned memory.
		words := make([]uint64, len(in)/8+1)
		b := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
		copy(b, in)
		parseControl(b[:len(in)])
	})
}

// TestTrains holds that trains are used where the kernel knows them.
func TestTrains(t *testing.T) {
	a, b := loopback(t, "udp4")
	f := newFlow(t, a, b, Options{}, SenderOptions{Size: 1000}, limits{count: 640})
	f.run()
	if !f.a.socket.cuts(1000) {
		t.Skip("this kernel has no UDP_SEGMENT")
	}
	must.True(t, f.send.Segmented() && f.receive.Coalesced(), "segmented %t, coalesced %t", f.send.Segmented(), f.receive.Coalesced())
	must.True(t, f.tally.Received == 640 && f.odd == 0, "received %d, %d odd ones", f.tally.Received, f.odd)
	known := f.b.Dropped().IsKnown() && f.b.RecvBuffer().IsKnown() && f.a.PathMTU().IsKnown()
	must.True(t, known, "dropped %v, buffer %v, mtu %v", f.b.Dropped(), f.b.RecvBuffer(), f.a.PathMTU())
}

// TestUncutFallsBack refuses a train: the rest goes one by one.
func TestUncutFallsBack(t *testing.T) {
	a, b := loopback(t, "udp4")
	f := newFlow(t, a, b, Options{}, SenderOptions{Size: 1000}, limits{count: 200})
	f.send.tx = &stubborn{f.send.tx}
	f.run()
	if f.send.Segmented() || f.tally.Received != 200 || f.sendErr != nil {
		t.Errorf("segmented %t, received %d, %v", f.send.Segmented(), f.tally.Received, f.sendErr)
	}
}

// stubborn is a kernel that cuts no trains.
type stubborn struct{ transmitter }

func (s *stubborn) send(n int, cut bool) (int, outcome, error) {
	if cut && n > 1 {
		return sendFailed(unix.EIO, true)
	}
	return s.transmitter.send(n, cut)
}

// TestOverflow lets a receiver sleep while more comes than its buffer holds:
// the kernel counts what is thrown away.
func TestOverflow(t *testing.T) {
	a, b := loopback(t, "udp4")
	f := newFlow(t, a, b, Options{Plain: true, RecvBuffer: 1 << 16}, SenderOptions{Size: 1000}, limits{count: 2000})
	must.Do(t, f.send.Run())
	f.run()
	dropped := f.b.Dropped().Or(-1)
	must.True(t, dropped > 0 && dropped+f.tally.Received == 2000, "dropped %d, received %d of 2000", dropped, f.tally.Received)
}
