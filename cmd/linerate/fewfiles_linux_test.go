package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/budget"
)

// silentCrowd holds n silent connections to addr, each from an address of its
// own, and makes a new one for each that the server closes, until ctx ends. It
// returns when each has connected once.
func silentCrowd(ctx context.Context, t testing.TB, addr string, n int) (wait func()) {
	t.Helper()
	var all, there sync.WaitGroup
	for i := range n {
		there.Add(1)
		all.Go(func() {
			arrived := sync.OnceFunc(there.Done)
			defer arrived()
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, byte(i>>8), byte(i))}, Timeout: 5 * time.Second}
			for ctx.Err() == nil {
				c, err := d.DialContext(ctx, "tcp", addr)
				arrived()
				if err == nil {
					stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
					hold(c)
					stop()
				}
			}
		})
	}
	there.Wait()
	return all.Wait
}

// TestOwnListenerOutOfDescriptors: where anonymous clients who say nothing take all
// descriptors, a session that runs gets its data connections, who has the secret
// gets in, and the server lives.
func TestOwnListenerOutOfDescriptors(t *testing.T) {
	server := command(t, "serve", "--json", "--listen", "127.0.0.1:0", "--state", t.TempDir())
	limited := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -n 96 && exec "$@"`, "sh"}, server.Args...)...)
	limited.Env = server.Env
	p := start(t, limited)
	t.Cleanup(func() { _ = p.cmd.Process.Signal(os.Interrupt); p.wait(t, 20*time.Second) })
	eventually(t, 10*time.Second, "the server's document", func() bool { return strings.HasSuffix(strings.TrimSpace(p.said()), "}") })
	link := decode[struct {
		Link string `json:"link"`
	}](t, p.said()).Link
	first := intrude(t, link)
	const files = 96
	door := budget.Divide(files, 0)
	held := func() int {
		list, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "fd"))
		if err != nil {
			t.Fatalf("the server is gone: %v", err)
		}
		return len(list)
	}
	before := held()
	ctx, cancel := context.WithCancel(t.Context())
	wait := silentCrowd(ctx, t, first.addr, 300)
	defer wait()
	defer cancel()
	eventually(t, 10*time.Second, "anonymous clients at the door", func() bool { return held() >= before+door.Unknown-1 })
	if n := held(); n > files-door.Sessions {
		t.Errorf("anonymous clients left %d descriptors of %d, and sessions should have %d", files-n, files, door.Sessions)
	}
	f := model.Flow{Engine: "tcpbulk", Direction: model.To, Streams: 4, Duration: 300 * time.Millisecond, Interval: 100 * time.Millisecond}
	inTime(t, "four data connections", func() error {
		conns, err := first.prepare(t, f, f.Streams)
		if err != nil {
			return err
		}
		select {
		case <-first.ready:
		case err := <-first.ended:
			err = fmt.Errorf("the run ended: %w", err)
			return err
		case <-time.After(5 * time.Second):
			return context.DeadlineExceeded
		}
		for _, c := range conns {
			_ = c.Close()
		}
		return first.Stop(t.Context(), first.runs)
	})
	inTime(t, "a new session", func() error {
		_, err := tryIntrude(t, link)
		return err
	})
	cancel()
	wait()
	measured(t, func() []string { return briefly(link) }, bothWays)
	if strings.Contains(p.said(), "panic") {
		t.Error(p.said())
	}
}

// inTime demands that f works within the time that a friend of a server may wait,
// in one of some tries: a machine with other work has slow moments.
func inTime(t testing.TB, what string, f func() error) {
	t.Helper()
	var said []string
	for range 4 {
		began := time.Now()
		err := f()
		took := time.Since(began)
		if err == nil && took < 2*time.Second {
			t.Logf("%s: %v, after %q", what, took.Round(time.Millisecond), said)
			return
		}
		said = append(said, fmt.Sprintf("%v after %v", err, took))
	}
	t.Errorf("%s: not within 2 s: %q", what, said)
}
