package tls_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/session"
	"linerate/internal/control/wire/data"
	"linerate/internal/control/wire/tls"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

// fewFiles is how many descriptors the server of TestInAChild has.
const fewFiles = 128

// TestInAChild is not a test but a server with few descriptors. Its standard input says what
// else uses some: "take" opens as many files as the budget gives to sessions, prints how many it
// got and closes them again; "seize" opens all that are left and keeps them, except for the
// number that follows.
func TestInAChild(t *testing.T) {
	must.SkipIf(t, os.Getenv("LINERATE_CHILD_SERVER") == "", "the server of other tests")
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: fewFiles, Max: fewFiles}))
	d := budget.Divide(fewFiles, 0)
	id := must.Get(tls.LoadKey(os.Getenv("LINERATE_CHILD_SERVER")))(t)
	id.Secret = bytes.Repeat([]byte{7}, 32)
	s := must.Get(tls.Listen(t.Context(), "127.0.0.1:0", tls.Config{
		Identity: id, Agent: agenttest.Config(nil), Unknown: d.Unknown, Friends: d.Friends, Budget: sessions(64),
	}))(t)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	must.Do(t, json.NewEncoder(os.Stderr).Encode(s.Link("127.0.0.1")))
	var kept []*os.File
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		most := d.Sessions
		if in.Text() == "seize" {
			most = fewFiles
		}
		var all []*os.File
		for range most {
			f, err := os.Open(os.DevNull)
			if err != nil {
				break
			}
			all = append(all, f)
		}
		fmt.Fprintln(os.Stderr, len(all))
		if in.Text() == "seize" {
			kept = append(kept, all...)
			continue
		}
		for _, f := range all {
			_ = f.Close()
		}
	}
	end()
	must.OK(t, <-done)
	for _, f := range kept {
		_ = f.Close()
	}
}

// childServer is a server with few descriptors, in a separate process.
type childServer struct {
	link tls.Link
	in   io.Writer
	out  *bufio.Reader
}

func startChild(t testing.TB) *childServer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInAChild$")
	cmd.Env = append(os.Environ(), "LINERATE_CHILD_SERVER="+t.TempDir()) // which a killed process would leave behind
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		err := cmd.Wait()
		must.True(t, err == nil || t.Context().Err() != nil, "the server: %v", err)
	})
	c := &childServer{in: in, out: bufio.NewReader(out)}
	must.Do(t, json.Unmarshal([]byte(c.line(t)), &c.link))
	return c
}

func (c *childServer) line(t testing.TB) string {
	t.Helper()
	return strings.TrimSpace(must.Get(c.out.ReadString('\n'))(t))
}

// ask makes the server open files, and returns how many it got.
func (c *childServer) ask(t testing.TB, what string) (n int) {
	t.Helper()
	must.Get(fmt.Fprintln(c.in, what))(t)
	must.Get(fmt.Sscan(c.line(t), &n))(t)
	return n
}

// silent holds n silent connections to addr, each from its own address, and replaces each one
// that is closed, until ctx ends. It returns once all have connected.
func silent(ctx context.Context, t testing.TB, addr string, n int) (wait func()) {
	t.Helper()
	var there, all sync.WaitGroup
	for i := range n {
		there.Add(1)
		all.Go(func() {
			arrived := sync.OnceFunc(there.Done)
			defer arrived()
			for ctx.Err() == nil {
				c := connectFrom(ctx, net.IPv4(127, 9, byte(i>>8), byte(i)), addr)
				if arrived(); c != nil {
					untilClosed(ctx, c)
				}
			}
		})
	}
	there.Wait()
	return all.Wait
}

// prepared prepares a run of four streams whose data connections are missing.
func prepared(t testing.TB, c *session.Client) data.Token {
	t.Helper()
	f := wiretest.Flow(model.To)
	f.Streams = 4
	token := data.Token{1}
	must.Get(c.Prepare(t.Context(), session.Preparation{Run: 1, Flow: f, Token: token}))(t)
	return token
}

// connect opens the four data connections of such a run.
func connect(t testing.TB, addr string, token data.Token) {
	t.Helper()
	for i := range 4 {
		conn, _, err := data.Dial(t.Context(), addr, token, i, engine.SocketOptions{})
		must.Dof(t, err, "data connection %d", i)
		t.Cleanup(func() { _ = conn.Close() })
	}
}

// TestDescriptorsAreReserved: while anonymous clients take all they can, a server has the
// descriptors that its budget gives to sessions.
func TestDescriptorsAreReserved(t *testing.T) {
	child := startChild(t)
	c := wiretest.Open(t, dial(t, child.link), model.Far)
	ctx, cancel := context.WithCancel(t.Context())
	defer silent(ctx, t, child.link.Addr, 300)()
	defer cancel()
	want := budget.Divide(fewFiles, 0).Sessions - 1 // one belongs to the session
	for range 20 {
		n := child.ask(t, "take")
		must.Need(t, n >= want, "only %d of %d descriptors for sessions are left", n, want)
	}
	connect(t, child.link.Addr, prepared(t, c))
}

// turnedAway returns the longest time after which child turned an anonymous client away.
func turnedAway(t testing.TB, child *childServer) (most time.Duration) {
	t.Helper()
	for i := range 20 {
		conn := connectFrom(t.Context(), net.IPv4(127, 9, 0, byte(1+i)), child.link.Addr)
		must.Need(t, conn != nil, "no connection")
		began := time.Now()
		_ = conn.SetReadDeadline(began.Add(time.Minute))
		_, err := io.ReadAll(conn)
		_ = conn.Close()
		must.Need(t, !errors.Is(err, os.ErrDeadlineExceeded), "anonymous client %d was never turned away", i)
		most = max(most, time.Since(began))
	}
	return most
}

// TestDataConnectionsWithoutDescriptors takes all descriptors of a server: those of anonymous
// clients at its door go to a session's data connections. Without any of those, the server
// keeps one descriptor for data connections and turns anonymous clients away at once.
func TestDataConnectionsWithoutDescriptors(t *testing.T) {
	t.Run("anonymous clients at the door", func(t *testing.T) {
		child := startChild(t)
		c := wiretest.Open(t, dial(t, child.link), model.Far)
		ctx, cancel := context.WithCancel(t.Context())
		defer silent(ctx, t, child.link.Addr, 300)()
		defer cancel()
		token := prepared(t, c)
		child.ask(t, "seize")
		connect(t, child.link.Addr, token)
	})
	t.Run("nobody there", func(t *testing.T) {
		child := startChild(t)
		token := prepared(t, wiretest.Open(t, dial(t, child.link), model.Far))
		child.ask(t, "seize")
		turnedAway(t, child)
		conn, _, err := data.Dial(t.Context(), child.link.Addr, token, 0, engine.SocketOptions{})
		must.Dof(t, err, "a data connection")
		_ = conn.Close()
	})
}
