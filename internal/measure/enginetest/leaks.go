package enginetest

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"
)

// Untouched records the number of goroutines and open files of this process, and its runtime
// settings. Call check when all ends are closed: it waits until the numbers are back, and
// requires the same settings.
func Untouched(t testing.TB) (check func()) {
	t.Helper()
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	procs, percent := runtime.GOMAXPROCS(0), collectorPercent()
	return func() {
		t.Helper()
		poll, limit := time.NewTicker(time.Millisecond), time.NewTimer(Soon)
		defer poll.Stop()
		defer limit.Stop()
		for runtime.NumGoroutine() > goroutines || openFiles(t) > files {
			select {
			case <-poll.C:
			case <-limit.C:
				t.Fatalf("%d goroutines and %d files, %d and %d before", runtime.NumGoroutine(), openFiles(t), goroutines, files)
			}
		}
		if now := runtime.GOMAXPROCS(0); now != procs {
			t.Errorf("GOMAXPROCS is %d, was %d", now, procs)
		}
		if now := collectorPercent(); now != percent {
			t.Errorf("the collector's percentage is %d, was %d", now, percent)
		}
	}
}

// collectorPercent returns the garbage collector's percentage without setting it.
func collectorPercent() int {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(int32(s[0].Value.Uint64())) // as the runtime stores it: off is negative
}

// openFiles returns the number of this process's descriptors; 0 on systems without a directory
// of them.
func openFiles(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return len(all)
}

// Failing returns l with an Accept that fails times times with errno before each connection, as
// if no descriptor were free.
func Failing(l net.Listener, times int, errno error) net.Listener {
	f := &failing{Listener: l, times: int64(times), errno: errno}
	f.left.Store(f.times)
	return f
}

type failing struct {
	net.Listener
	times int64
	errno error
	left  atomic.Int64
}

// Accept fails, or accepts the next connection.
func (f *failing) Accept() (net.Conn, error) {
	if f.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: f.Addr(), Err: os.NewSyscallError("accept4", f.errno)}
	}
	c, err := f.Listener.Accept()
	if err == nil {
		f.left.Store(f.times)
	}
	return c, err
}
