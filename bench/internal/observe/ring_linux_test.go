package observe

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"linerate/internal/must"
)

// The observer records every arriving datagram of its size, and no other.
func TestObservesLoopback(t *testing.T) {
	const size, count = 1237, 400
	if r, err := open(options{device: "lo", size: size, most: 1}); errors.Is(err, fs.ErrPermission) {
		t.Skipf("packets may not be observed here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	} else {
		r.close()
	}
	in, stop := io.Pipe()
	result, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Run(t.Context(), Arguments("", "lo", size, 0, 10*count)[2:], in, out)
		ended <- errors.Join(err, out.CloseWithError(err))
	}()
	lines := bufio.NewReader(result)
	must.Equal(t, must.Get(lines.ReadString('\n'))(t), "ready\n")
	sink := must.Get(net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	defer sink.Close()
	c := must.Get(net.DialUDP("udp4", nil, sink.LocalAddr().(*net.UDPAddr)))(t)
	defer c.Close()
	begun := time.Now()
	for range count {
		for _, n := range []int{size, size + 1, 3} {
			must.Get(c.Write(make([]byte, n)))(t)
		}
	}
	took := time.Since(begun)
	must.Do(t, stop.Close())
	var r Report
	if err := json.NewDecoder(lines).Decode(&r); err != nil {
		t.Fatal(err, <-ended)
	}
	must.Do(t, <-ended)
	must.True(t, r.Packets == count && r.Missed == 0, "saw %d packets and missed %d, want %d and 0", r.Packets, r.Missed, count)
	// They arrived within the time in which they were sent.
	least := float64((count-1)*size*8) / took.Seconds()
	must.True(t, r.Rate >= least, "%.0f bit/s, but sending alone took %v, which is %.0f", r.Rate, took, least)
	must.True(t, r.P50 > 0 && r.P50 <= r.P99 && r.P99 <= r.Max && r.Max <= took, "gaps %v %v %v in %v", r.P50, r.P99, r.Max, took)
}

func TestRefusesAnUnknownInterface(t *testing.T) {
	must.Fail(t, Run(t.Context(), []string{"-device", "nosuch0", "-size", "9"}, nil, io.Discard), "no error")
}

// block returns a block as the kernel passes it on: header, then frames with their times.
func block(times []int64, length int, kind byte) []byte {
	const first, stride = 48, 144
	b := make([]byte, first+stride*len(times))
	order := binary.NativeEndian
	order.PutUint32(b[blockPackets:], uint32(len(times)))
	order.PutUint32(b[blockFirst:], first)
	for i, at := range times {
		f := b[first+i*stride:]
		order.PutUint32(f[frameNext:], stride)
		order.PutUint32(f[frameSec:], uint32(at/1e9))
		order.PutUint32(f[frameNsec:], uint32(at%1e9))
		order.PutUint32(f[frameLength:], uint32(length))
		f[frameType] = kind
	}
	return b
}

func TestFrames(t *testing.T) {
	times := []int64{1_700_000_000_123_456_789, 1_700_000_001_000_000_001}
	got, missed := frames(block(times, frameHeaders+100, 0), 100, make([]int64, 0, 9))
	must.True(t, slices.Equal(got, times) && missed == 0, "got %v, missed %d", got, missed)
	got, missed = frames(block(times, frameHeaders+100, 0), 100, make([]int64, 0, 1))
	must.True(t, len(got) == 1 && missed == 1, "without room: %v, missed %d", got, missed)
	got, _ = frames(block(times, frameHeaders+100, syscall.PACKET_OUTGOING), 100, make([]int64, 0, 9))
	must.True(t, len(got) == 0, "what left was counted: %v", got)
	got, _ = frames(block(times, frameHeaders+300, 0), 100, make([]int64, 0, 9))
	must.True(t, len(got) == 6, "two trains of three are %v", got)
}

func FuzzFrames(f *testing.F) {
	f.Add(block([]int64{1, 2}, frameHeaders+100, 0), uint16(100))
	f.Add(make([]byte, 64), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, size uint16) {
		if len(b) < 48 || size == 0 {
			return // a block is never shorter
		}
		got, _ := frames(b, int(size), make([]int64, 0, 8))
		must.True(t, len(got) <= 8, "%d times where there was room for 8", len(got))
	})
}
