package side

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"
	"time"

	"linerate/internal/host/counters"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpinfo"
)

// Cost is the CPU time of one sampling.
type Cost struct {
	Host   time.Duration `json:"host_ns"`   // of all counters of a host
	Stream time.Duration `json:"stream_ns"` // of TCP_INFO of a connection
}

// Each returns the cost of one sampling at both ends with that many streams.
func (c Cost) Each(streams int) time.Duration {
	return 2*c.Host + time.Duration(streams)*c.Stream
}

// SamplingCost measures it, with the program self in the near namespace.
func SamplingCost(ctx context.Context, self, device string) (Cost, error) {
	var c Cost
	out, err := exec.CommandContext(ctx, "ip", "netns", "exec", "near", self, "cost", "-device", device).Output()
	if err == nil {
		err = json.Unmarshal(out, &c)
	}
	if err != nil {
		return c, fmt.Errorf("measure what sampling costs: %w", err)
	}
	return c, nil
}

// spell is how long each is read: long compared with the tick by which the kernel counts a
// running thread's time.
const spell = 200 * time.Millisecond

// RunCost writes a Cost to w as JSON.
func RunCost(device string, w io.Writer) error {
	watcher, err := counters.Open(device)
	if err != nil {
		return err
	}
	defer watcher.Close()
	c, end, err := loopback()
	if err != nil {
		return err
	}
	defer end()
	var out Cost
	out.Host, err = each(func() error { _, err := watcher.Read(time.Now()); return err })
	if err != nil {
		return err
	}
	if out.Stream, err = each(func() error { _, err := tcpinfo.Read(c); return err }); err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(out)
}

// each returns the CPU time that f takes, the mean of many calls.
func each(f func() error) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := sockio.ThreadCPU()
	if err != nil {
		return 0, err
	}
	calls := 0
	for until := time.Now().Add(spell); time.Now().Before(until); calls++ {
		if err := f(); err != nil {
			return 0, err
		}
	}
	after, err := sockio.ThreadCPU()
	return after.Sub(before).Total() / time.Duration(calls), err
}

// loopback returns a connection of this process to itself.
func loopback() (*net.TCPConn, func() error, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, nil, err
	}
	c, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return c, func() error { return errors.Join(c.Close(), l.Close()) }, nil
}
