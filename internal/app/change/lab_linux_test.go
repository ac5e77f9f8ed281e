package change

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/control/wire"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	"linerate/internal/host/watchdog"
	"linerate/internal/lab"
	"linerate/internal/must"
	"linerate/internal/ui/roletest"
)

// TestMain makes the test program serve as the lab's processes, as the agents and
// watchdogs in its hosts, and as a server there.
func TestMain(m *testing.M) {
	roletest.Main(m, knob.NewIndex(), map[string]func([]string) error{"watchdog": watchdogMain, "listen": listenMain})
}

// killNow in the file "die" means any moment.
const killNow = "now"

// watchdogMain is a watchdog that is killed after the step named in the file "die" beside its
// journal's directory.
func watchdogMain(args []string) error {
	cfg, err := watchdog.ParseArgs(args)
	if err != nil {
		return err
	}
	cfg.After = func(step string) {
		f, err := os.Open(cfg.Dir + ".die")
		if err != nil {
			return
		}
		defer f.Close()
		if text, err := io.ReadAll(f); err == nil && string(text) == step {
			_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX) // until this process is gone
			_ = os.Remove(cfg.Dir + ".die")
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	go func() {
		for ; ; time.Sleep(20 * time.Millisecond) {
			cfg.After(killNow)
		}
	}()
	return watchdog.Serve(context.Background(), os.Stdin, os.Stdout, cfg)
}

// listenMain accepts connections until its stdin ends.
func listenMain(args []string) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", args[0])
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_ = c.Close()
	}
}

// pair is two virtual hosts with agents, which a test can break.
type pair struct {
	t     *testing.T
	lab   *lab.Lab
	dir   string
	env   app.Env
	hosts Hosts
	*apptest.Person

	mu    sync.Mutex
	dials map[model.Host]int
	dying map[model.Host]*os.File // locked by the watchdog that will be killed
	// dialing, if set, may refuse the n-th connection to a host, where 1 is the one that the
	// change starts with.
	dialing func(side model.Host, n int) error
	// writing, if set, sees the data sent to a host over its n-th connection.
	writing func(side model.Host, n int, c *line, b []byte) error
}

// newPair starts a lab and opens both hosts.
func newPair(t *testing.T, spec string, both bool) *pair {
	t.Helper()
	s := must.Get(lab.ParseSpec(spec))(t)
	self := must.Get(os.Executable())(t)
	l, err := lab.Start(t.Context(), s, lab.Config{Command: []string{self, "lab-init"}, Stderr: os.Stderr})
	must.SkipIf(t, errors.Is(err, fs.ErrPermission), "virtual hosts need user namespaces or root: %v", err)
	must.Do(t, err)
	p := &pair{t: t, lab: l, dir: t.TempDir(), Person: &apptest.Person{}, dials: map[model.Host]int{}, dying: map[model.Host]*os.File{}}
	p.env = app.Env{Version: "v0.0-test", Self: []string{self}, Getenv: os.Getenv, Now: time.Now, Asker: p.Person, Observer: p.Person}
	t.Cleanup(func() { _ = l.Close() })
	p.hosts = Hosts{Near: p.open(model.Near), Both: both, Named: "root@b", State: filepath.Join(p.dir, "controller")}
	must.Do(t, os.Mkdir(p.hosts.State, 0o700))
	p.hosts.Far = p.open(model.Far)
	f := must.Get(p.hosts.Near.Client.Facts(t.Context(), l.Addr(model.Far).String()))(t)
	p.hosts.Near.Facts = f
	f = must.Get(p.hosts.Far.Client.Facts(t.Context(), f.Address))(t)
	p.hosts.Far.Facts, p.hosts.Far.Peer = f, p.hosts.Near.Facts.Address
	p.hosts.Near.Name, p.hosts.Far.Name = "near", "far"
	t.Cleanup(func() {
		p.dialing, p.writing = nil, nil
		p.env.HangUp(p.hosts.Far.Client)
		p.env.HangUp(p.hosts.Near.Client)
	})
	return p
}

func (p *pair) state(side model.Host) string { return filepath.Join(p.dir, string(side)) }

func (p *pair) open(side model.Host) *app.Host {
	p.t.Helper()
	other := map[model.Host]model.Host{model.Near: model.Far, model.Far: model.Near}[side]
	h := &app.Host{Side: side, Peer: p.lab.Addr(other).String(), Dial: func(ctx context.Context) (wire.Peer, error) { return p.dial(ctx, side) }}
	var err error
	h.Client, err = p.env.Again(p.t.Context(), h)
	must.Do(p.t, err)
	h.Facts = must.Get(h.Client.Facts(p.t.Context(), h.Peer))(p.t)
	return h
}

func (p *pair) dial(ctx context.Context, side model.Host) (wire.Peer, error) {
	p.mu.Lock()
	p.dials[side]++
	n, dialing := p.dials[side], p.dialing
	p.mu.Unlock()
	if dialing != nil {
		if err := dialing(side, n); err != nil {
			return wire.Peer{}, err
		}
	}
	conn, err := p.lab.Dial(ctx, side, []string{p.env.Self[0], "agent", "--state", p.state(side), "--interface", "eth0"})
	if err != nil {
		return wire.Peer{}, err
	}
	return wire.Peer{Control: &line{Conn: conn, pair: p, side: side, n: n}, Name: "lab host " + string(side), DataHost: p.lab.Addr(side).String()}, nil
}

// line is a connection to a host that a test watches and cuts.
type line struct {
	net.Conn
	pair *pair
	side model.Host
	n    int
	deaf atomic.Bool
}

func (l *line) Write(b []byte) (int, error) {
	if f := l.pair.writing; f != nil {
		if err := f(l.side, l.n, l, b); err != nil {
			_ = l.Close()
			return 0, err
		}
	}
	return l.Conn.Write(b)
}

// Read drops incoming data once the line is deaf.
func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if l.deaf.Load() {
		return 0, net.ErrClosed
	}
	return n, err
}

// kill makes a host's watchdog get killed after a step.
func (p *pair) kill(side model.Host, step string) {
	p.t.Helper()
	name := p.state(side) + ".die"
	must.OK(p.t, os.WriteFile(name+".new", []byte(step), 0o600))
	f, err := os.Open(name + ".new")
	must.OK(p.t, err)
	p.t.Cleanup(func() { _ = f.Close() })
	p.dying[side] = f
	must.OK(p.t, os.Rename(name+".new", name))
}

// dead waits until a watchdog has read that it will be killed, and is gone.
func (p *pair) dead(side model.Host) {
	p.t.Helper()
	must.Until(p.t, "the watchdog to read it", func() bool { return errors.Is(must.Err(os.Stat(p.state(side)+".die")), fs.ErrNotExist) })
	must.OK(p.t, syscall.Flock(int(p.dying[side].Fd()), syscall.LOCK_EX)) // the watchdog holds it until it is gone
}

// undone waits until a host has undone the change of tcp.sack.
func (p *pair) undone(side model.Host) {
	p.t.Helper()
	must.Until(p.t, string(side)+" to give up the change", func() bool { return p.sysctl(side, "tcp_sack") == "1" })
}

// again closes the sessions and opens new ones, which read the hosts.
func (p *pair) again() {
	p.t.Helper()
	for _, h := range []*app.Host{p.hosts.Near, p.hosts.Far} {
		var err error
		p.env.HangUp(h.Client)
		h.Client, err = p.env.Again(p.t.Context(), h)
		must.Do(p.t, err)
		h.Facts = must.Get(h.Client.Facts(p.t.Context(), h.Peer))(p.t)
	}
}

// confirming reports whether b tells the host to keep the change: it contains the name of the
// transaction.
func (p *pair) confirming(side model.Host, b []byte) bool {
	records, _, err := journal.Read(p.state(side))
	return err == nil && slices.ContainsFunc(records, func(r journal.Record) bool {
		return r.Transaction != "" && bytes.Contains(b, []byte(r.Transaction))
	})
}

// sysctl reads a kernel setting on a host.
func (p *pair) sysctl(side model.Host, name string) string {
	p.t.Helper()
	var out bytes.Buffer
	must.Do(p.t, p.lab.Command(p.t.Context(), side, []string{"cat", "/proc/sys/net/ipv4/" + name}, nil, &out, os.Stderr))
	return strings.TrimSpace(out.String())
}

// in runs a shell command on a host.
func (p *pair) in(side model.Host, script string) {
	p.t.Helper()
	must.OK(p.t, p.lab.Command(p.t.Context(), side, []string{"sh", "-c", script}, nil, nil, os.Stderr), "%s in %s", script, side)
}

// sacks returns net.ipv4.tcp_sack of both hosts, the near one first.
func (p *pair) sacks() string {
	return p.sysctl(model.Near, "tcp_sack") + p.sysctl(model.Far, "tcp_sack")
}

// do carries out a change of tcp.sack and more.
func (p *pair) do(ctx context.Context, within time.Duration, wanted ...model.Assignment) (Result, error) {
	if len(wanted) == 0 {
		wanted = []model.Assignment{{Knob: "tcp.sack", Value: "0"}}
	}
	return Do(ctx, p.env, p.hosts, Request{Wanted: wanted, Within: within})
}

func yes(context.Context, app.Question) (app.Answer, error) { return app.Answer{Yes: true}, nil }
func no(context.Context, app.Question) (app.Answer, error)  { return app.Answer{}, nil }

// silent never answers.
func silent(ctx context.Context, _ app.Question) (app.Answer, error) {
	<-ctx.Done()
	return app.Answer{}, ctx.Err()
}
