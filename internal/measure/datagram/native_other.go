//go:build !linux && !freebsd

package datagram

import (
	"net"
	"runtime"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// newNative takes c over in the portable way: there is no other here.
func newNative(c *net.UDPConn, o Options, _ int) (socket, error) { return newPortable(c, o) }

func readRecvBuffer(*net.UDPConn) fact.Of[units.Bytes] {
	return fact.Unknown[units.Bytes]("not read on " + runtime.GOOS)
}

// sleep sleeps for about d.
func sleep(d time.Duration) { time.Sleep(d) }

// sharpen and blunt do nothing: timers are as fine as they get.
func sharpen() {}
func blunt()   {}

// kernelClock is of no use without pacing by the kernel.
func kernelClock() int64 { return 0 }
