package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/wire/mdns"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/fault"
	"linerate/internal/measure/program"
	"linerate/internal/must"
)

// The kind of an unreachable server's error decides on exit code and hint.
func TestUnreachable(t *testing.T) {
	server := program.Program{Server: "a KIND"}
	dial := func(addr net.Addr, err error) error {
		return fmt.Errorf("test: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: err})
	}
	at := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 5201}
	told := fault.New(fault.Unreachable, errors.New("busy"), "wait")
	for name, c := range map[string]struct {
		err        error
		kind       fault.Kind
		says, hint string
	}{
		"nothing":       {nil, 0, "", ""},
		"refused":       {dial(at, fmt.Errorf("connect: %w", syscall.ECONNREFUSED)), fault.Unreachable, "connect to 10.0.0.2:5201: ", "start it with: START"},
		"no such name":  {dial(nil, &net.DNSError{Err: "no such host", Name: "nas", IsNotFound: true}), fault.Unreachable, "lookup nas", "is the name right?"},
		"other program": {errors.New("state 0 was not due"), fault.Failed, "state 0", "is what answers there a KIND?"},
		"told already":  {told, fault.Unreachable, "busy", "wait"},
		"unsupported":   {errors.ErrUnsupported, fault.Unsupported, "unsupported", ""},
	} {
		got := server.Unreachable(t.Context(), c.err, "START")
		text := ""
		if got != nil {
			text = got.Error()
		}
		must.True(t, (got == nil || fault.KindOf(got) == c.kind) && strings.Contains(text, c.says) && strings.Contains(fault.HintOf(got), c.hint) && (c.hint != "" || fault.HintOf(got) == ""), "%s: %q, kind %d, hint %q", name, text, fault.KindOf(got), fault.HintOf(got))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := errors.New("cut")
	must.True(t, server.Unreachable(ctx, err, "START") == err, "a user who stopped is told what to do") //nolint:errorlint // the same value, unwrapped
}

// TestFit: unsupported traffic of a foreign program is reported before any host is asked,
// with alternatives, and the program's own flags are parsed.
func TestFit(t *testing.T) {
	for name, c := range map[string]struct {
		far                string
		flow               model.Flow
		given              program.Values
		engine, says, hint string
	}{
		"bulk":           {"iperf3://nas", model.Flow{Engine: bulk.Name}, nil, bulk.Name, "", ""},
		"requests":       {"iperf2://nas", model.Flow{Engine: requests.Name}, nil, "", "iperf2://nas answers no requests", "linerate serve"},
		"sizes of iperf": {"iperf3://nas", sizes.With(model.Flow{Engine: sizes.Name}, sizes.Params{}), nil, "", "no message sizes", "linerate test"},
		"sizes":          {"netpipe://nas", sizes.With(model.Flow{Engine: sizes.Name}, sizes.Params{}), program.Values{"max": "64"}, sizes.NetPIPE, "", ""},
		"bulk of NPtcp":  {"netpipe://nas", model.Flow{Engine: bulk.Name}, nil, "", "measures message sizes only", "linerate sweep"},
		"time of NPtcp":  {"netpipe://nas", model.Flow{Engine: sizes.Name, Duration: 1}, nil, "", "--time: an NPtcp receiver does not have it", ""},
		"small of NPtcp": {"netpipe://nas", sizes.With(model.Flow{Engine: sizes.Name}, sizes.Params{}), program.Values{"min": "64", "max": "1"}, "", "below the first size", ""},
		"half a login":   {"iperf3://nas", model.Flow{}, program.Values{"username": "x"}, "", "belong together", ""},
		"no rate":        {"iperf2://nas", model.Flow{}, program.Values{"bitrate": "fast"}, "", "--bitrate", ""},
	} {
		far := must.Get(Parse(c.far, testEnv()))(t)
		f, err := far.Fit(testEnv(), c.flow, c.given)
		switch {
		case c.says == "" && (err != nil || f.Engine != c.engine):
			t.Errorf("%s: engine %s, %v", name, f.Engine, err)
		case c.says != "" && (err == nil || fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), c.says) || !strings.Contains(fault.HintOf(err), c.hint)):
			t.Errorf("%s: %v, hint %q", name, err, fault.HintOf(err))
		}
	}
}

// TestFirstHour13SilentForeign: a foreign server that accepts a connection and stays silent
// times out like an agent, and the error says so.
func TestFirstHour13SilentForeign(t *testing.T) {
	t.Parallel()
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	env := app.Env{Timeout: time.Second, Asker: app.Nobody{}, Observer: app.Nobody{}, Getenv: func(string) string { return "" }}
	flow := model.Flow{Engine: bulk.Name, Direction: model.To, Streams: 1, Duration: time.Second, Interval: time.Second}
	back := flow
	back.Direction = model.From
	for scheme, flow := range map[string]model.Flow{"iperf3": flow, "iperf2": back, "netpipe": sizes.With(model.Flow{Engine: sizes.Name, Direction: model.To}, sizes.Params{})} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			target := must.Get(Parse(scheme+"://"+l.Addr().String(), env))(t)
			flow = must.Get(target.Fit(env, flow, program.Values{}))(t)
			peer := must.Get(target.foreignPeer(env, model.HostFacts{}, model.DataPath{}))(t)
			_, _, err := peer.Run(t.Context(), flow, func([]model.Sample) {})
			must.True(t, err != nil && strings.Contains(err.Error(), "no answer in 1 s") && fault.KindOf(err) == fault.Unreachable && fault.HintOf(err) != "", "%v, hint %q", err, fault.HintOf(err))
		})
	}
}

// TestFirstHour13SilentDatagrams: a server of iperf 2 that takes datagrams, or a header, and
// never answers counts as missing.
func TestFirstHour13SilentDatagrams(t *testing.T) {
	t.Parallel()
	c := must.Get(new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = c.Close() })
	env := app.Env{Timeout: 5 * time.Second, Asker: app.Nobody{}, Observer: app.Nobody{}, Getenv: func(string) string { return "" }}
	target := must.Get(Parse("iperf2://"+c.LocalAddr().String(), env))(t)
	flow := model.Flow{Engine: udp.Name, Direction: model.To, Streams: 1, Duration: 200 * time.Millisecond, Interval: 200 * time.Millisecond}
	flow.Params = traffic.Write(udp.Params{Rate: udp.DefaultRate})
	peer := must.Get(target.foreignPeer(env, model.HostFacts{}, model.DataPath{}))(t)
	_, _, err := peer.Run(t.Context(), flow, func([]model.Sample) {})
	must.True(t, err != nil && strings.Contains(err.Error(), "no answer") && fault.KindOf(err) == fault.Unreachable && strings.Contains(fault.HintOf(err), "iperf -s -u"), "%v, kind %d, hint %q", err, fault.KindOf(err), fault.HintOf(err))
}

// openServer returns a server that admits all clients, and its mDNS announcement.
func openServer(t *testing.T) (tls.Link, mdns.Server) {
	t.Helper()
	id := must.Get(tls.LoadKey(t.TempDir()))(t)
	id.Secret = make([]byte, 32)
	s := must.Get(tls.Listen(t.Context(), "127.0.0.1:0", tls.Config{Identity: id, Open: true, Agent: agenttest.Config(nil)}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	l := s.Link("127.0.0.1")
	return l, mdns.Server{Name: "nas", Port: s.Addr().(*net.TCPAddr).Port, Pin: l.Pin, Addr: netip.MustParseAddr("127.0.0.1")}
}

// TestTrustOnFirstUse: a server named without a link is known by the pin that it showed the
// first time. A host that later takes its name, its address or its place on the network is
// refused with both pins, whatever it announces.
func TestTrustOnFirstUse(t *testing.T) {
	right, announced := openServer(t)
	thief, stolen := openServer(t)
	dir := t.TempDir()
	t.Setenv(configVariable, dir)
	env := apptest.Env(&apptest.Person{})
	env.Getenv = os.Getenv
	named := func(text string, found ...mdns.Server) error {
		t.Helper()
		target := must.Get(Parse(text, testEnv()))(t)
		o := New(env, Options{})
		o.lookup = func(_ context.Context, name string) ([]mdns.Server, error) {
			must.Equal(t, name, "nas", "looked for")
			return found, nil
		}
		peer, err := o.Dial(t.Context(), target)
		if err == nil {
			must.Len(t, peer.Secret, 0, "a secret for somebody who was named without one")
			_ = peer.Control.Close()
		}
		return err
	}
	refused := func(what string, err error, says ...string) {
		t.Helper()
		must.Need(t, err != nil && fault.KindOf(err) == fault.Unreachable && fault.HintOf(err) != "",
			"%s: kind %d, hint %q: %v", what, fault.KindOf(err), fault.HintOf(err), err)
		for _, want := range says {
			must.True(t, strings.Contains(err.Error(), want), "%s: does not say %q: %v", what, want, err)
		}
	}
	refused("two servers of one name, none known", named("nas", stolen, announced), right.Pin, thief.Pin)
	must.Fail(t, must.Err(os.Stat(filepath.Join(dir, knownFile))), "somebody who was refused is remembered")
	must.Do(t, named("NAS", announced))
	b := must.Get(os.ReadFile(filepath.Join(dir, knownFile)))(t)
	must.True(t, string(b) == "nas "+right.Pin+"\n", "remembered %q", b)
	must.OK(t, named("nas", stolen, announced), "the known one of two")
	refused("another pin is announced", named("nas", stolen), right.Pin, thief.Pin)
	mitm := stolen
	mitm.Pin = announced.Pin // announces the right pin, but lacks the key
	refused("the right pin, another key", named("nas", mitm), right.Pin, thief.Pin)

	port := strconv.Itoa(announced.Port)
	must.Do(t, named("127.0.0.1:"+port)) // by address, without mDNS
	must.Do(t, (notes{filepath.Join(dir, knownFile)}).set("127.0.0.1:"+port, thief.Pin))
	refused("another key at the address", named("127.0.0.1:"+port), right.Pin, thief.Pin)
	must.OK(t, named("nas", announced), "the others are remembered still")
	refused("nobody there", named("127.0.0.1:1"))
}

// TestMetAtTheSameTime: servers first met at the same time are all remembered, and one that
// cannot be remembered is not used.
func TestMetAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(configVariable, dir)
	env := apptest.Env(&apptest.Person{})
	env.Getenv = os.Getenv
	o := New(env, Options{})
	var all sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		_, s := openServer(t)
		all.Go(func() {
			target := must.Get(Parse(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), env))(t)
			p, err := o.Dial(t.Context(), target)
			if errs[i] = err; err == nil {
				_ = p.Control.Close()
			}
		})
	}
	all.Wait()
	must.Do(t, errors.Join(errs...))
	must.Len(t, must.Get((notes{filepath.Join(dir, knownFile)}).lines())(t), len(errs), "remembered")
	nowhere := filepath.Join(dir, "nowhere")
	must.Do(t, os.Symlink(filepath.Join(dir, "gone"), nowhere))
	t.Setenv(configVariable, nowhere)
	_, s := openServer(t)
	_, err := o.Dial(t.Context(), must.Get(Parse(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), env))(t))
	must.Fail(t, err)
	must.Contain(t, fault.HintOf(err), configVariable, "hint")
}
