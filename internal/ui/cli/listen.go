package cli

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/control/audit"
	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/iperf2/peer"
	"linerate/internal/measure/iperf3"
	iperf3peer "linerate/internal/measure/iperf3/peer"
)

// listenFlags ask for servers of other protocols.
type listenFlags struct {
	iperf3, iperf2, netpipe string // addresses; "" is off
	users, key              string
	pkcs1                   bool
	netpipeOptions          string
	iperf2Reverse           bool
}

func (f *listenFlags) register(fl *pflag.FlagSet) {
	for _, l := range []struct {
		text *string
		name string
		port string
	}{{&f.iperf3, "iperf3", ":5201"}, {&f.iperf2, "iperf2", ":5001"}, {&f.netpipe, "netpipe", ":5002"}} {
		fl.StringVar(l.text, l.name, "", "answer "+l.name+" clients too, on "+l.port+" or --"+l.name+"=ADDRESS:PORT")
		fl.Lookup(l.name).NoOptDefVal = l.port
	}
	fl.StringVar(&f.netpipeOptions, "netpipe-options", "", "options of the NPtcp clients that both ends must share: -r, -s, -2, -i")
	fl.BoolVar(&f.iperf2Reverse, "iperf2-reverse-udp", false, "send UDP to any iperf 2 client that asks for it: whoever forges a source address can have this host send to it")
	fl.StringVar(&f.users, "iperf3-users", "", "file of iperf3 users, name,hash a line (iperf3 --authorized-users-path)")
	fl.StringVar(&f.key, "iperf3-key", "", "file with the RSA private key that their passwords are encrypted for (PEM)")
	fl.BoolVar(&f.pkcs1, "iperf3-pkcs1", false, "take logins of iperf3 before 3.17 too, whose padding (PKCS #1 v1.5) is weak")
}

// Limits of servers that ask for no secret: those of serve --open, whether it is
// given or not. A connection of iperf 2 is a session of its own, so that it may
// have as many as the streams of a test from one address, and as those of all
// sessions in all. iperf3 has one test at a time, and NPtcp too.
const (
	foreignTime     = time.Minute
	foreignStreams  = 16
	foreignSessions = 8
	foreignBlock    = units.Bytes(1 << 20)
	foreignUDPRate  = units.BitRate(100e6)
	foreignWaiting  = 8        // transmitters of NPtcp
	foreignLargest  = 16 << 20 // bytes of an NPtcp message; its own schedule ends at 10^7
)

// foreignServer is one listener of another protocol.
type foreignServer struct {
	name  string
	addr  net.Addr
	serve func(ctx context.Context) error
	close func()
}

// listenForeign opens the ports that were asked for. Nothing is answered before
// serve is called.
func (a *console) listenForeign(ctx context.Context, f listenFlags, link func() fact.Of[units.BitRate], shared *sharing) (servers []foreignServer, err error) {
	defer func() {
		if err != nil {
			for _, s := range servers {
				s.close()
			}
		}
	}()
	if (f.users == "") != (f.key == "") {
		return nil, usagef("--iperf3-users and --iperf3-key belong together")
	}
	if f.pkcs1 && f.users == "" {
		return nil, usagef("--iperf3-pkcs1 is about logins: it needs --iperf3-users and --iperf3-key")
	}
	for _, p := range []struct {
		name, addr, port string
		make             func(ctx context.Context, l net.Listener) (func(context.Context) error, error)
	}{
		{"iperf3", f.iperf3, "5201", func(_ context.Context, l net.Listener) (func(context.Context) error, error) {
			return a.iperf3Server(l, f, link, shared)
		}},
		{"iperf2", f.iperf2, "5001", func(ctx context.Context, l net.Listener) (func(context.Context) error, error) {
			return a.iperf2Server(ctx, l, f.iperf2Reverse, shared)
		}},
		{"netpipe", f.netpipe, "5002", func(_ context.Context, l net.Listener) (func(context.Context) error, error) {
			return a.netpipeServer(l, f.netpipeOptions, shared)
		}},
	} {
		if p.addr == "" {
			continue
		}
		lc := net.ListenConfig{}
		lc.SetMultipathTCP(false)
		l, err := lc.Listen(ctx, "tcp", p.addr)
		if err != nil {
			err = fmt.Errorf("--%s: %w", p.name, err)
			if _, ok := errors.AsType[*net.AddrError](err); ok {
				return servers, withHint(app.WithKind(app.Usage, err), "write it like --%s=10.0.0.2:%s or --%[1]s=:%[2]s", p.name, p.port)
			}
			return servers, withHint(err, "use --%s=ADDRESS:PORT for another port", p.name)
		}
		s := foreignServer{name: p.name, addr: l.Addr(), close: func() { _ = l.Close() }}
		if s.serve, err = p.make(ctx, l); err != nil {
			_ = l.Close()
			return servers, fmt.Errorf("--%s: %w", p.name, err)
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func (a *console) iperf3Server(l net.Listener, f listenFlags, link func() fact.Of[units.BitRate], shared *sharing) (func(context.Context) error, error) {
	c := iperf3peer.ServerConfig{
		Streams: foreignStreams, Duration: foreignTime, UDPRate: foreignUDPRate, Block: foreignBlock, LinkRate: link(),
		Budget: shared.budget, Unknown: shared.files.Listener, Event: a.iperf3Event,
	}
	if f.users != "" {
		access, err := loadAccess(f.users, f.key)
		if err != nil {
			return nil, app.WithKind(app.Usage, err)
		}
		if f.pkcs1 {
			access.Paddings = []iperf3.Padding{iperf3.OAEP, iperf3.PKCS1v15}
		}
		// Who has a password is no stranger: what the budget gives key holders
		// bounds a test, and the hour of a server.
		c.Access, c.Streams, c.Duration, c.UDPRate = access, 0, 0, 0
	}
	return func(ctx context.Context) error { return iperf3peer.Serve(ctx, l, c) }, nil
}

// loadAccess reads the users of an iperf3 server and its key.
func loadAccess(users, key string) (*iperf3peer.Access, error) {
	file, err := os.Open(users)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	known, err := iperf3.ParseUsers(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", users, err)
	}
	text, err := os.ReadFile(key)
	if err != nil {
		return nil, err
	}
	private, err := privateKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return &iperf3peer.Access{Key: private, Users: known}, nil
}

// privateKey reads an RSA key as openssl genrsa or genpkey writes it.
func privateKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("holds no PEM block")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	if private, ok := key.(*rsa.PrivateKey); ok {
		return private, nil
	}
	return nil, fmt.Errorf("holds a %T, not an RSA key", key)
}

func (a *console) iperf2Server(ctx context.Context, l net.Listener, anybody bool, shared *sharing) (func(context.Context) error, error) {
	pc, err := new(net.ListenConfig).ListenPacket(ctx, "udp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	c := peer.ServerConfig{
		Sessions: foreignSessions * foreignStreams, PerClient: foreignStreams,
		Time: foreignTime, UDPTime: foreignTime, UDPRate: foreignUDPRate, Block: foreignBlock,
		Budget: shared.budget, Unknown: shared.files.Listener,
		Log:  func(line string) { a.talk("iperf2: %s", line) },
		Done: a.iperf2Result, Begun: a.iperf2Begun,
	}
	if anybody {
		c.UDPTo = func(netip.Addr) bool { return true }
	}
	return func(ctx context.Context) error { return peer.Serve(ctx, l, pc, c) }, nil
}

// serveAll runs linerate's own server, and the foreign ones beside it, until ctx
// ends or the own one fails. What ends a foreign one, or a panic in it, is told,
// and the others go on.
func (a *console) serveAll(ctx context.Context, own func(context.Context) error, foreign []foreignServer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if a.audit == nil {
		a.audit = audit.New(audit.Config{Talk: func(line string) { a.talk("%s", line) }})
		defer func() { _ = a.audit.Close() }()
	}
	var all sync.WaitGroup
	defer all.Wait()
	for _, s := range foreign {
		all.Go(func() {
			accept.Guard(func(line string) { a.talk("%s", line) }, s.name, func() {
				if err := s.serve(ctx); err != nil && ctx.Err() == nil {
					a.talk("%s: answers no more: %v", s.name, err)
				}
			})
		})
	}
	err := own(ctx)
	cancel()
	return err
}
