// Package labtest measures what this machine adds to a delay of the lab's wire.
package labtest

import (
	"net"
	"slices"
	"testing"
	"time"
)

// Waking returns the median, over n exchanges of datagrams whose answer is delayed by d, of
// what the machine itself adds: the time until a timer and two sockets have woken their
// readers. Tests of a wire allow for it.
func Waking(t testing.TB, d time.Duration, n int) time.Duration {
	t.Helper()
	far, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = far.Close() }()
	near, err := net.DialUDP("udp4", nil, far.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = near.Close() }()
	go func() {
		var b [64]byte
		for {
			k, from, err := far.ReadFromUDP(b[:])
			if err != nil {
				return
			}
			<-time.After(d)
			_, _ = far.WriteToUDP(b[:k], from)
		}
	}()
	added := make([]time.Duration, n)
	var b [64]byte
	for i := range added {
		start := time.Now()
		if _, err := near.Write(b[:]); err != nil {
			t.Fatal(err)
		}
		if _, err := near.Read(b[:]); err != nil {
			t.Fatal(err)
		}
		added[i] = time.Since(start) - d
	}
	slices.Sort(added)
	return added[n/2]
}
