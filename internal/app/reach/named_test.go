package reach

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"linerate/internal/app/apptest"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/wire/mdns"
	"linerate/internal/control/wire/tls"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// openServer is a server that anyone may measure to, and how the network tells of it.
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

// TestTrustOnFirstUse: a server that is named without a link is known by the pin that it
// showed the first time. Somebody who takes its name, its address or its place on the
// network afterwards is refused with both pins, whatever is announced.
func TestTrustOnFirstUse(t *testing.T) {
	right, announced := openServer(t)
	thief, stolen := openServer(t)
	dir := t.TempDir()
	t.Setenv(configVariable, dir)
	p := &apptest.Person{}
	env := apptest.Env(p)
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
	mitm.Pin = announced.Pin // says what the right one says, and has not its key
	refused("the right pin, another key", named("nas", mitm), right.Pin, thief.Pin)

	port := strconv.Itoa(announced.Port)
	if err := named("127.0.0.1:" + port); err != nil { // by address, without a word of the network
		t.Fatal(err)
	}
	must.Do(t, (notes{filepath.Join(dir, knownFile)}).set("127.0.0.1:"+port, thief.Pin))
	refused("another key at the address", named("127.0.0.1:"+port), right.Pin, thief.Pin)
	must.OK(t, named("nas", announced), "the others are remembered still")
	refused("nobody there", named("127.0.0.1:1"))
}

// TestMetAtTheSameTime: servers that are met for the first time at the same time are all
// remembered, and one that cannot be remembered is not used.
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
