package main

import (
	"crypto/rand"
	endian "encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/confined"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/data"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

// intruder is a controller of linerate's own protocol that asks for anything: it has a session,
// prepares and starts any runs, and holds the near end of their connections itself, without an
// engine.
type intruder struct {
	*session.Client
	addr  string // of the server's data connections
	runs  uint64
	token data.Token
	ended chan error // of the run prepared last
	ready chan struct{}
}

// intrude opens a session with a join link.
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

// start starts the prepared run, once it is ready.
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
	must.Within(t, 10*time.Second, "the server's document", func() bool { return strings.HasSuffix(strings.TrimSpace(p.said()), "}") })
	return p, decode[struct {
		Link string `json:"link"`
	}](t, p.said()).Link
}

// peakMemory returns the most memory that a process ever had resident, in MiB.
func peakMemory(t *testing.T, p *process) int {
	t.Helper()
	_, most, err := confined.Memory(p.cmd.Process.Pid)
	must.Do(t, err)
	return int(most >> 20)
}

// bystander is a third host, which does not take part in the measurement, with a link to each
// of the two ends.
type bystander struct {
	*netns
	c string // name of its namespace
}

// newBystander adds the third host to n. Each end has the address by which the other end
// reaches the bystander, so that it can forge it.
func newBystander(t *testing.T, n *netns) bystander {
	t.Helper()
	b := bystander{n, strings.TrimSuffix(n.near, "near") + "by"}
	ip(t, "netns", "add", b.c)
	t.Cleanup(func() { removeNetns(t, b.c) })
	ip(t, "-n", b.c, "link", "set", "lo", "up")
	for _, l := range []struct{ end, dev, near, far string }{{n.near, "v1", "10.77.1.1", toNear}, {n.far, "v2", "10.77.2.2", toFar}} {
		ip(t, "link", "add", l.dev, "netns", l.end, "type", "veth", "peer", "name", l.dev, "netns", b.c)
		ip(t, "-n", l.end, "addr", "add", l.near+"/24", "dev", l.dev)
		ip(t, "-n", b.c, "addr", "add", l.far+"/24", "dev", l.dev)
		ip(t, "-n", l.end, "link", "set", l.dev, "up")
		ip(t, "-n", b.c, "link", "set", l.dev, "up")
		// A path that does not check sources, like many.
		for _, where := range []string{"all", "v0", l.dev} {
			ip(t, "netns", "exec", l.end, "sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/"+where+"/rp_filter")
		}
	}
	ip(t, "-n", n.near, "addr", "add", toFar+"/32", "dev", "lo")
	ip(t, "-n", n.far, "addr", "add", toNear+"/32", "dev", "lo")
	return b
}

// got returns how many bytes the bystander has received.
func (b bystander) got(t *testing.T) (sum int) {
	t.Helper()
	for _, dev := range []string{"v1", "v2"} {
		text := ip(t, "netns", "exec", b.c, "cat", "/sys/class/net/"+dev+"/statistics/rx_bytes")
		sum += must.Get(strconv.Atoi(strings.TrimSpace(text)))(t)
	}
	return sum
}

// chatter is the traffic of idle hosts: address resolution, IPv6 announcements.
const chatter = 8 << 10

// A client with the link sends greetings to a real server in the name of a bystander, and
// claims that all is well.
func TestServerIsNoCannon(t *testing.T) {
	b := newBystander(t, newNetns(t))
	server, link := b.serve(t)
	before := b.got(t)
	out, err := b.role(t, "near", "gunner "+link.String()).CombinedOutput()
	t.Logf("%s", out)
	n := b.got(t) - before
	must.True(t, n <= chatter, "the bystander got %d bytes for 300", n)
	must.True(t, err != nil && strings.Contains(string(out), "UDP comes from "+toFar), "the server let the client have it: %v\n%s", err, out)
	sane(t, b.look(t, link.String(), "--json"))
	server.signal(t, syscall.SIGTERM)
	server.wait(t, 10*time.Second)
}

// A server answers a real controller in the name of a bystander.
func TestControllerIsNoCannon(t *testing.T) {
	b := newBystander(t, newNetns(t))
	_, link := b.serve(t)
	const listen = farAddr + ":5300"
	aimer := start(t, b.role(t, "far", "aimer "+listen))
	must.Within(t, 10*time.Second, "the hostile server", func() bool { return aimer.said() != "" })
	before := b.got(t)
	p := start(t, b.inside(t, "near", "test", strings.Replace(link.String(), serverAddr, listen, 1), "--to", "-u", "-b", "100M", "-t", "4s", "--idle", "0s", "-q"))
	must.Within(t, 20*time.Second, "forged answers", func() bool {
		return strings.Count(aimer.said(), "answer") > 20 || len(p.done) > 0 || b.got(t)-before > 100*chatter
	})
	n, sent := b.got(t)-before, 60*strings.Count(aimer.said(), "answer")
	must.True(t, n <= chatter+3*sent, "the bystander got %d bytes for %d", n, sent)
	_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended
	r := p.wait(t, 60*time.Second)
	t.Logf("%s%s", r.out, r.err)
	must.True(t, r.code != 0, "the controller measured")
	aimer.signal(t, os.Kill)
	<-aimer.done
}
