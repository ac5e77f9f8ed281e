package tls_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	ctls "crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/data"
	"linerate/internal/control/wire/tls"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
	"linerate/internal/measure/budget"
	"linerate/internal/must"
)

// sessions returns a budget of n sessions, all for clients with a key.
func sessions(n int) *budget.Budget {
	return budget.New(budget.Config{Server: budget.Limits{Sessions: n}, AllAnonymous: budget.Limits{Sessions: -1}})
}

// serve starts a server on loopback and returns its link.
func serve(t testing.TB, c tls.Config) tls.Link {
	t.Helper()
	return serveAgent(t, c, agenttest.Config(nil))
}

// serveAgent is serve with another agent.
func serveAgent(t testing.TB, c tls.Config, a agent.Config) tls.Link {
	t.Helper()
	c.Identity, c.Agent = must.Get(tls.LoadKey(t.TempDir()))(t), a
	c.Identity.Secret = bytes.Repeat([]byte{7}, 32)
	s := must.Get(tls.Listen(t.Context(), "127.0.0.1:0", c))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		must.OK(t, must.Wait(t, "the end of the server", done))
	})
	return s.Link("127.0.0.1")
}

func dial(t testing.TB, l tls.Link) wire.Peer {
	t.Helper()
	return must.Get(tls.Dial(t.Context(), l, model.Egress{}))(t)
}

func open(t testing.TB, l tls.Link) (*session.Client, error) {
	t.Helper()
	return session.Open(t.Context(), dial(t, l), session.Options{Host: model.Far, Version: "v1", Timeouts: agenttest.Timeouts()})
}

func TestConformance(t *testing.T) {
	wiretest.Run(t, wiretest.Transport{Dial: func(t *testing.T) wire.Peer { return dial(t, serve(t, tls.Config{})) }})
}

func TestConformanceOpen(t *testing.T) {
	wiretest.Run(t, wiretest.Transport{Strange: true, Dial: func(t *testing.T) wire.Peer { return dial(t, serve(t, tls.Config{Open: true})) }})
}

func TestLinkRoundTrip(t *testing.T) {
	for _, l := range []tls.Link{
		{Addr: "nas:5299", Pin: "p", Secret: "s-_"}, {Addr: "[2001:db8::1]:1", Pin: "p"}, {Addr: "10.0.0.2:5299,[2001:db8::1]:5299,nas:5299", Pin: "p", Secret: "s"},
	} {
		must.Equal(t, must.Get(tls.ParseLink(l.String()))(t), l, "%+v became", l)
	}
	for in, want := range map[string]tls.Link{
		"linerate://x.y@nas":       {Addr: "nas:5299", Pin: "x", Secret: "y"},
		"linerate://nas":           {Addr: "nas:5299"}, // incomplete, see reach
		"linerate://x@nas,desk:1/": {Addr: "nas:5299,desk:1", Pin: "x"},
	} {
		must.Equal(t, must.Get(tls.ParseLink(in))(t), want, "%s", in)
	}
	for _, s := range []string{
		"", "nas", "http://nas:5299/", "linerate://:5299", "linerate://%", "linerate://x@", "linerate://x@,nas", "linerate://x@nas/y", "linerate://x@nas?y=1", "linerate://nas:5299/?pin=x", "linerate://x@y@nas",
		"linerate://x y@nas", "linerate://x.y.z!@nas", "linerate://x@" + strings.Repeat("nas,", 8) + "nas",
	} {
		must.Fail(t, must.Err(tls.ParseLink(s)), "%q is a link", s)
	}
}

func TestIdentityIsKeptAndPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first := must.Get(tls.LoadKey(dir))(t)
	second, err := tls.LoadKey(dir)
	must.True(t, err == nil && first.Pin() == second.Pin(), "another identity: %v", err)
	other, err := tls.LoadKey(t.TempDir())
	must.True(t, err == nil && other.Pin() != first.Pin(), "the same identity twice: %v", err)
	files, err := os.ReadDir(dir)
	must.Need(t, err == nil && len(files) == 1, "%v, %v", files, err)
	for _, f := range files {
		i, err := f.Info()
		must.True(t, err == nil && (runtime.GOOS == "windows" || i.Mode().Perm() == 0o600), "%s has mode %v, %v", f.Name(), i.Mode(), err)
		must.Do(t, os.WriteFile(filepath.Join(dir, f.Name()), []byte("damaged"), 0o600))
		must.Fail(t, must.Err(tls.LoadKey(dir)), "a damaged %s is accepted", f.Name())
	}
}

func TestIdentityMadeTwiceAtOnce(t *testing.T) {
	dir := t.TempDir()
	pins := make([]string, 8)
	var all sync.WaitGroup
	for i := range pins {
		all.Go(func() {
			if id, err := tls.LoadKey(dir); err == nil {
				pins[i] = id.Pin()
			}
		})
	}
	all.Wait()
	for _, p := range pins {
		must.Need(t, p != "" && p == pins[0], "two servers that started at once differ")
	}
}

func TestRefusals(t *testing.T) {
	agenttest.NoLeaks(t)
	l := serve(t, tls.Config{})
	wrongPin, noPin, damaged, wrong, missing := l, l, l, l, l
	wrongPin.Pin = base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	noPin.Pin = ""
	damaged.Secret += "!"
	wrong.Secret = base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	missing.Secret = ""
	_, err := tls.Dial(t.Context(), wrongPin, model.Egress{})
	must.True(t, errors.Is(err, tls.ErrPin) && strings.Contains(err.Error(), l.Pin), "wrong pin: %v", err)
	must.Is(t, must.Err(tls.Dial(t.Context(), noPin, model.Egress{})), tls.ErrNoPin, "no pin")
	must.Fail(t, must.Err(tls.Dial(t.Context(), damaged, model.Egress{})), "a damaged secret is accepted")
	_, err = open(t, wrong)
	must.True(t, errors.Is(err, session.ErrRefused) && strings.Contains(err.Error(), "secret is wrong"), "wrong secret: %v", err)
	_, err = open(t, missing)
	must.True(t, errors.Is(err, session.ErrRefused) && strings.Contains(err.Error(), "wants the secret"), "missing secret: %v", err)
	// A right secret is accepted, whatever number of wrong ones came from its source.
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { must.Is(t, must.Err(open(t, wrong)), session.ErrRefused, "wrong secret") })
	}
	all.Wait()
	wiretest.Open(t, dial(t, l), model.Far)
}

// A server with the right key but an old TLS version is refused.
func TestClientWantsTLS13(t *testing.T) {
	id := must.Get(tls.LoadKey(t.TempDir()))(t)
	var lc net.ListenConfig
	l := must.Get(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	for _, version := range []uint16{ctls.VersionTLS12, ctls.VersionTLS13} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			server := ctls.Server(conn, &ctls.Config{
				Certificates: []ctls.Certificate{id.Certificate}, MaxVersion: version, NextProtos: []string{"linerate"},
			})
			_ = server.HandshakeContext(t.Context())
			_ = server.Close()
		}()
		p, err := tls.Dial(t.Context(), tls.Link{Addr: l.Addr().String(), Pin: id.Pin()}, model.Egress{})
		must.True(t, (err == nil) == (version == ctls.VersionTLS13), "%s: %v", ctls.VersionName(version), err)
		if err == nil {
			_ = p.Control.Close()
		}
		<-done
	}
}

func TestServerConnectsOnlyToItsController(t *testing.T) {
	c := wiretest.Open(t, dial(t, serve(t, tls.Config{})), model.Far)
	for _, to := range []string{"192.0.2.1:80", "localhost:80", "127.0.0.2:22"} {
		_, err := c.Prepare(t.Context(), session.Preparation{Run: 1, Flow: wiretest.Flow(model.To), Connect: to})
		must.True(t, errors.Is(err, session.ErrRefused), "connect to %s: %v", to, err)
	}
	near := wiretest.Near(t, agenttest.Config(nil)) // but it connects to this one
	run, _, err := runner.New(near, c, time.Now, nil).Run(t.Context(), runner.Spec{Number: 1, Flow: wiretest.Flow(model.From), Connector: model.Far}, nil)
	must.True(t, err == nil && run.State == model.RunValid, "%+v, %v", run, err)
}

func TestFirstBytesDiffer(t *testing.T) {
	must.True(t, data.FirstByte != 0x16, "data connections look like TLS")
}

// TestServerOpensNoOtherPort: a client's port settings are for agents that open a port per run.
// A server uses no other port, whatever the client asks.
func TestServerOpensNoOtherPort(t *testing.T) {
	l := serve(t, tls.Config{})
	c := wiretest.Open(t, dial(t, l), model.Far)
	port, err := c.Prepare(t.Context(), session.Preparation{
		Run: 1, Flow: wiretest.Flow(model.To), Token: data.Token{1}, Ports: model.Ports{First: 23450, Last: 23459}, Loopback: true,
	})
	must.True(t, err == nil && fmt.Sprint(port) == l.Addr[strings.LastIndexByte(l.Addr, ':')+1:], "port %d of a server at %s: %v", port, l.Addr, err)
	for p := 23450; p < 23460; p++ {
		if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", p)); err == nil {
			_ = conn.Close()
			t.Errorf("port %d is open", p)
		}
	}
}

// TestAddressesInTurn: a link with several addresses leads to its server, whichever of them is
// right. Another server at one of them gets neither the session nor the secret; if no address is
// right, the error names it.
func TestAddressesInTurn(t *testing.T) {
	agenttest.NoLeaks(t)
	right, other := serve(t, tls.Config{}), serve(t, tls.Config{})
	l := right
	l.Addr = strings.Join([]string{"127.0.0.1:1", other.Addr, right.Addr}, ",")
	wiretest.Open(t, dial(t, l), model.Far)
	l.Addr = strings.Join([]string{"127.0.0.1:1", other.Addr}, ",")
	_, err := tls.Dial(t.Context(), l, model.Egress{})
	must.True(t, errors.Is(err, tls.ErrPin) && strings.Contains(err.Error(), other.Pin), "two wrong ones: %v", err)
}

// TestPinOfALinkIsDemanded: no word in place of a pin accepts any server.
func TestPinOfALinkIsDemanded(t *testing.T) {
	l := serve(t, tls.Config{Open: true})
	must.Equal(t, must.Get(tls.Pin(t.Context(), l.Addr))(t), l.Pin, "shows")
	for _, word := range []string{"any", "*", "insecure", " ", strings.ToLower(l.Pin)} {
		l.Pin = word
		must.Is(t, must.Err(tls.Dial(t.Context(), l, model.Egress{})), tls.ErrPin, "%q", word)
	}
}

// TestWeb: one port carries sessions and HTTPS. Both ends prove their keys: a client finds only
// the server of its pin, and the handler learns the pin of the client. Until the handler knows a
// client, that client can send a few KiB.
func TestWeb(t *testing.T) {
	agenttest.NoLeaks(t)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "yes" {
			must.OK(t, tls.Admit(r))
		}
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%s %d %v", tls.PeerPin(r), n, err == nil)
	})
	l := serve(t, tls.Config{Web: handler})
	own := must.Get(tls.LoadKey(t.TempDir()))(t)
	var public *ecdsa.PublicKey
	post := func(l tls.Link, own tls.Identity, authorization string, bytes int) (string, error) {
		c := tls.Web(l, own, func(k *ecdsa.PublicKey) { public = k })
		defer c.CloseIdleConnections()
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://hub/x", strings.NewReader(strings.Repeat("x", bytes))))(t)
		r.Header.Set("Authorization", authorization)
		res, err := c.Do(r)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return string(b), err
	}
	must.Equal(t, must.Get(post(l, own, "yes", 1<<20))(t), own.Pin()+" 1048576 true", "a known client")
	must.True(t, public != nil, "the client does not learn the server's key")
	must.Equal(t, must.Get(post(l, tls.Identity{}, "", 100))(t), " 100 true", "an anonymous client")
	answer, err := post(l, tls.Identity{}, "", 1<<20)
	must.True(t, err != nil || !strings.Contains(answer, "1048576"), "an anonymous client sends a MiB: %s", answer)
	other := l
	other.Pin = own.Pin()
	must.Is(t, must.Err(post(other, own, "yes", 1)), tls.ErrPin, "another server")
	var first atomic.Int32 // of two addresses, one of which answers nothing
	dead := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	go func() {
		for c, err := dead.Accept(); err == nil; c, err = dead.Accept() {
			first.Add(1)
			_ = c.Close()
		}
	}()
	two := l
	two.Addr += "," + dead.Addr().String()
	for range 40 {
		must.Do(t, must.Err(post(two, must.Get(tls.LoadKey(t.TempDir()))(t), "yes", 1)))
	}
	must.Do(t, dead.Close())
	must.True(t, first.Load() > 0 && first.Load() < 40, "%d of 40 clients began with the second address", first.Load())
	wiretest.Open(t, dial(t, l), model.Far) // and a session
}
