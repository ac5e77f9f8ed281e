package main

import (
	"crypto/rand"
	endian "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/data"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

// intruder is a controller of linerate's own protocol that asks for what it
// likes: it has a session, prepares and starts runs as it wants, and holds the
// near end of their connections itself, without an engine.
type intruder struct {
	*session.Client
	addr  string // of the server's data connections
	runs  uint64
	token data.Token
	ended chan error // of the run that was prepared last
	ready chan struct{}
}

// intrude opens a session by a join link.
func intrude(t *testing.T, link string) *intruder {
	t.Helper()
	return must.Get(tryIntrude(t, link))(t)
}

func tryIntrude(t *testing.T, link string) (*intruder, error) {
	t.Helper()
	l, err := tls.ParseLink(link)
	must.Do(t, err)
	var peer wire.Peer
	if peer, err = tls.Dial(t.Context(), l, model.Egress{}); err != nil {
		return nil, err
	}
	c, err := session.Open(t.Context(), peer, session.Options{Host: model.Far, Version: "intruder"})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _, _ = c.Close(t.Context()) })
	return &intruder{Client: c, addr: l.Addr}, nil
}

// prepare prepares a run of f and opens its n connections.
func (i *intruder) prepare(t *testing.T, f model.Flow, n int) ([]*net.TCPConn, error) {
	t.Helper()
	i.runs++
	must.Get(rand.Read(i.token[:]))(t)
	if _, err := i.Prepare(t.Context(), session.Preparation{Run: i.runs, Flow: f, Token: i.token}); err != nil {
		return nil, err
	}
	var all []*net.TCPConn
	for k := range n {
		c, _, err := data.Dial(t.Context(), i.addr, i.token, k, engine.SocketOptions{})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = c.Close() })
		all = append(all, c)
	}
	i.ended, i.ready = make(chan error, 1), make(chan struct{})
	go func(run uint64) {
		i.ended <- i.Run(t.Context(), run, func(e session.Event) {
			if e.Kind == session.Ready {
				close(i.ready)
			}
		})
	}(i.runs)
	return all, nil
}

// start starts what was prepared, once it is ready.
func (i *intruder) start(t *testing.T) {
	t.Helper()
	select {
	case <-i.ready:
	case err := <-i.ended:
		t.Fatalf("the run ended before it was ready: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("the run is not ready")
	}
	must.Do(t, i.Start(t.Context(), i.runs))
}

// end waits for the end of the run.
func (i *intruder) end(t *testing.T, within time.Duration) error {
	t.Helper()
	select {
	case err := <-i.ended:
		return err
	case <-time.After(within):
		t.Fatalf("the run has not ended after %v", within)
		return nil
	}
}

// say writes a message of a copy, docs/wire/filecopy.md.
func say(t *testing.T, c io.Writer, kind string, bytes int64) {
	t.Helper()
	body := must.Get(json.Marshal(map[string]any{"kind": kind, "bytes": bytes}))(t)
	must.Get(c.Write(append(endian.BigEndian.AppendUint32(nil, uint32(len(body))), body...)))(t)
}

// hear reads a message of a copy.
func hear(c net.Conn, within time.Duration) string {
	_ = c.SetReadDeadline(time.Now().Add(within))
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err.Error()
	}
	body := make([]byte, endian.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return err.Error()
	}
	return string(body)
}

// publicServer starts linerate serve on loopback and returns it with its link.
func publicServer(t *testing.T, args ...string) (*process, string) {
	t.Helper()
	p := start(t, command(t, append([]string{"serve", "--json", "--listen", "127.0.0.1:0", "--state", t.TempDir()}, args...)...))
	t.Cleanup(func() { _ = p.cmd.Process.Signal(os.Interrupt); p.wait(t, 20*time.Second) })
	eventually(t, 10*time.Second, "the server's document", func() bool { return strings.HasSuffix(strings.TrimSpace(p.said()), "}") })
	return p, decode[struct {
		Link string `json:"link"`
	}](t, p.said()).Link
}

// peakMemory is the most that a process ever had resident, in MiB.
func peakMemory(t *testing.T, p *process) int {
	t.Helper()
	status := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)))(t)
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	kib := must.Get(strconv.Atoi(string(m[1])))(t)
	return kib >> 10
}
