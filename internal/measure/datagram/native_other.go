//go:build !linux && !freebsd

package datagram

import (
	"net"
	"runtime"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// newNative returns a portable socket: this system has no other.
func newNative(c *net.UDPConn, o Options, _ int) (socket, error) { return newPortable(c, o) }

func readRecvBuffer(*net.UDPConn) fact.Of[units.Bytes] {
	return fact.Unknown[units.Bytes]("not read on " + runtime.GOOS)
}

// sleep sleeps for about d.
func sleep(d time.Duration) { time.Sleep(d) }

// sharpen and blunt do nothing: timers are already as fine as they get.
func sharpen() {}
func blunt()   {}

// kernelClock is unused where the kernel does not pace.
func kernelClock() int64 { return 0 }
