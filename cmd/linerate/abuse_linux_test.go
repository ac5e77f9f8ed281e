//go:build slow

package main

import (
	"context"
	"crypto/rand"
	endian "encoding/binary"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"linerate/internal/confined"
	"linerate/internal/must"
)

// abuseVar is how long a server is attacked; the default is a minute.
const abuseVar = "LINERATE_ABUSE"

// How much more a server may use at the end than after the first part.
const (
	moreDescriptors = 4
	moreMemory      = 24 << 20 // bytes: Go returns memory late
	mostGoroutines  = 60
	parts           = 6 // of the attack, with a rest after each
)

// victim is a server with every listener.
type victim struct {
	*process
	link     string
	control  string
	protocol map[string]string // addresses
}

// startVictim starts linerate serve on free ports of loopback.
func startVictim(t *testing.T) victim {
	t.Helper()
	p := start(t, command(t, "serve", "--json", "--listen", "127.0.0.1:0", "--iperf3=127.0.0.1:0", "--iperf2=127.0.0.1:0",
		"--netpipe=127.0.0.1:0", "--state", t.TempDir()))
	must.Within(t, 10*time.Second, "the server's document", func() bool { return strings.HasSuffix(strings.TrimSpace(p.said()), "}") })
	d := decode[struct {
		Link    string            `json:"link"`
		Address string            `json:"address"`
		Foreign map[string]string `json:"foreign"`
	}](t, p.said())
	return victim{p, d.Link, d.Address, d.Foreign}
}

// addresses returns all TCP ports; each is a UDP port too.
func (v victim) addresses() []string {
	all := []string{v.control}
	for _, a := range v.protocol {
		all = append(all, a)
	}
	return all
}

// weight is the server's resource usage.
type weight struct{ descriptors, memory int }

func (v victim) weigh(t *testing.T) weight {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(v.cmd.Process.Pid))
	fds := must.Get(os.ReadDir(filepath.Join(dir, "fd")))(t)
	now, _, err := confined.Memory(v.cmd.Process.Pid)
	must.Do(t, err)
	return weight{len(fds), int(now)}
}

// settled waits until all deadlines have passed.
func (v victim) settled(t *testing.T, most int) weight {
	t.Helper()
	must.Within(t, 90*time.Second, "descriptors to be closed", func() bool { return v.weigh(t).descriptors <= most })
	return v.weigh(t)
}

// openings returns the first bytes that a real client of each protocol sends, as far as they can
// be sent without it.
func openings() map[string][]byte {
	cookie := []byte("abcdefghijklmnopqrstuvwxyz0123456789\x00")
	params := `{"tcp":true,"omit":0,"time":10,"num":0,"blockcount":0,"parallel":1,"len":131072,"pacing_timer":1000,"client_version":"3.12"}`
	return map[string][]byte{
		"iperf3":  append(cookie, append(endian.BigEndian.AppendUint32(nil, uint32(len(params))), params...)...),
		"iperf2":  append([]byte{0x80, 0, 0, 0, 0, 0, 0, 1}, make([]byte, 60)...),
		"netpipe": []byte("SyncMe"),
	}
}

// abuse runs a crowd of bad clients until ctx ends, and counts their attempts.
func (v victim) abuse(ctx context.Context, done *atomic.Int64) {
	var crowd sync.WaitGroup
	for _, addr := range v.addresses() {
		crowd.Go(func() { repeat(ctx, done, func() { noise(ctx, "tcp", addr) }) })
		crowd.Go(func() { repeat(ctx, done, func() { noise(ctx, "udp", addr) }) })
		crowd.Go(func() { silent(ctx, addr, 40) })
		crowd.Go(func() {
			all := openings()
			names := []string{"iperf3", "iperf2", "netpipe"}
			repeat(ctx, done, func() { vanish(ctx, addr, all[names[mathrand.IntN(len(names))]]) })
		})
	}
	for name, opening := range openings() {
		crowd.Go(func() { repeat(ctx, done, func() { vanish(ctx, v.protocol[name], opening) }) })
		crowd.Go(func() { slowReader(ctx, v.protocol[name], opening) })
	}
	for _, argv := range [][]string{
		{"iperf3", "-c", "127.0.0.1", "-p", port(v.protocol["iperf3"]), "-t", "30"},
		{"iperf3", "-c", "127.0.0.1", "-p", port(v.protocol["iperf3"]), "-t", "30", "-R", "-P", "4"},
		{"iperf", "-c", "127.0.0.1", "-p", port(v.protocol["iperf2"]), "-t", "30"},
		{"NPtcp", "-h", "127.0.0.1", "-P", port(v.protocol["netpipe"]), "-o", os.DevNull},
	} {
		if _, err := exec.LookPath(argv[0]); err == nil {
			crowd.Go(func() { repeat(ctx, done, func() { killed(ctx, argv) }) })
		}
	}
	crowd.Wait()
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// repeat calls f again and again, with a pause so that the machine also runs the server.
func repeat(ctx context.Context, done *atomic.Int64, f func()) {
	for ctx.Err() == nil {
		f()
		done.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// noise sends random bytes and hangs up.
func noise(ctx context.Context, network, addr string) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	b := make([]byte, mathrand.IntN(2000))
	_, _ = rand.Read(b)
	_ = c.SetDeadline(time.Now().Add(200 * time.Millisecond))
	_, _ = c.Write(b)
	if network == "tcp" {
		_, _ = io.CopyN(io.Discard, c, 64)
	}
}

// silent opens connections, sends nothing, and holds them.
func silent(ctx context.Context, addr string, n int) {
	var held []net.Conn
	for range n {
		if c, err := new(net.Dialer).DialContext(ctx, "tcp", addr); err == nil {
			held = append(held, c)
		}
	}
	<-ctx.Done()
	for _, c := range held {
		_ = c.Close()
	}
}

// vanish begins like a client and resets the connection.
func vanish(ctx context.Context, addr string, opening []byte) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	_, _ = c.Write(opening[:mathrand.IntN(len(opening)+1)])
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// slowReader begins like a client, asks for everything and reads a byte now and then.
func slowReader(ctx context.Context, addr string, opening []byte) {
	for ctx.Err() == nil {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			continue
		}
		_ = c.(*net.TCPConn).SetReadBuffer(1 << 10)
		_, _ = c.Write(opening)
		for ctx.Err() == nil {
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := c.Read(make([]byte, 1)); err != nil && !os.IsTimeout(err) {
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		_ = c.Close()
	}
}

// killed is a real client that dies in the middle.
func killed(ctx context.Context, argv []string) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(100+mathrand.IntN(900))*time.Millisecond)
	defer cancel()
	_ = exec.CommandContext(ctx, argv[0], argv[1:]...).Run() // it ends by SIGKILL
}

// TestAbuse attacks a server with every listener. Afterwards it uses no more resources than
// before, and still works.
func TestAbuse(t *testing.T) {
	length := time.Minute
	if text := os.Getenv(abuseVar); text != "" {
		length = must.Get(time.ParseDuration(text))(t)
	}
	v := startVictim(t)
	idle := v.weigh(t).descriptors
	var done atomic.Int64
	part := func(d time.Duration) weight {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		v.abuse(ctx, &done)
		return v.settled(t, idle+moreDescriptors)
	}
	// Memory that tests hold at their peak comes and goes; a leak grows from part to part.
	var memory []int
	for range parts {
		memory = append(memory, part(length/parts).memory)
	}
	t.Logf("%d bad clients in %v; memory after each part, MiB: %v", done.Load(), length, mebibytes(memory))
	must.True(t, done.Load() >= 500, "only %d clients came", done.Load())
	first, last := slices.Max(memory[:parts/2]), slices.Min(memory[parts/2:])
	must.True(t, last <= first+moreMemory, "memory grew with each part, MiB: %v", mebibytes(memory))
	v.stillWorks(t)
	v.settled(t, idle+moreDescriptors)
	v.signal(t, syscall.SIGQUIT) // Go prints every goroutine
	r := v.wait(t, 10*time.Second)
	if n := strings.Count(r.err, "\ngoroutine "); n > mostGoroutines {
		t.Errorf("%d goroutines are left:\n%s", n, r.err[:min(len(r.err), 20000)])
	}
}

func mebibytes(bytes []int) (out []int) {
	for _, n := range bytes {
		out = append(out, n>>20)
	}
	return out
}

// stillWorks runs an ordinary test of each kind.
func (v victim) stillWorks(t *testing.T) {
	t.Helper()
	r := run(t, command(t, "test", v.link, "-t", "0.5s", "-i", "0.5s", "--omit", "0s", "--json", "-q", "--db", ":memory:"))
	sane(t, r)
	for name, argv := range map[string][]string{
		"iperf3":  {"iperf3", "-c", "127.0.0.1", "-p", port(v.protocol["iperf3"]), "-t", "1"},
		"iperf2":  {"iperf", "-c", "127.0.0.1", "-p", port(v.protocol["iperf2"]), "-t", "1"},
		"netpipe": {"NPtcp", "-h", "127.0.0.1", "-P", port(v.protocol["netpipe"]), "-u", "64", "-o", os.DevNull},
	} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			t.Logf("skipped: no %s on this machine", argv[0])
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
		cancel()
		must.True(t, err == nil, "%s: %v\n%s", name, err, out)
	}
}

// hostileVar is how long the hostile suite takes; the default is ten minutes.
const hostileVar = "LINERATE_HOSTILE"

// hostileTime is the time of the suite.
func hostileTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(hostileVar)
	if text == "" {
		return 10 * time.Minute
	}
	return must.Get(time.ParseDuration(text))(t)
}

// TestAbuseHostile attacks a server with each attack of a crowd, one after the other and all at
// once, with a secret, which the greedy clients have, and open, in a cgroup of 512 MiB. make
// truth checks a friend's longest wait.
func TestAbuseHostile(t *testing.T) {
	needRoot(t)
	ways := append(attackNames(), "everything")
	servers := hostileServers()
	each := hostileTime(t) / time.Duration(len(servers)*(len(ways)+4)) // "everything" takes longer
	for name, args := range servers {
		t.Run(name, func(t *testing.T) {
			s := newSiege(t, smallMachine, args...)
			for _, way := range ways {
				d := max(each, 12*time.Second) // the longest timeout of silent clients is 10 s
				if way == "everything" {
					d = max(5*each, 12*time.Second)
				}
				s.under(t, way, d)
			}
			s.stillServes(t)
		})
	}
}
