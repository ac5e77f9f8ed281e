package serve

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
	"time"

	"linerate/internal/app"
	"linerate/internal/app/here"
	"linerate/internal/core/units"
	"linerate/internal/measure/iperf2/peer"
	"linerate/internal/measure/iperf3"
	iperf3peer "linerate/internal/measure/iperf3/peer"
)

// Foreign asks for servers of other protocols.
type Foreign struct {
	IPerf3, IPerf2, NetPIPE string // addresses; "" is off
	// IPerf3Users and IPerf3Key are files: names with hashes, and the RSA private key
	// that passwords are encrypted for. IPerf3PKCS1 takes logins with a weak padding too.
	IPerf3Users, IPerf3Key string
	IPerf3PKCS1            bool
	NetPIPEOptions         string // of NPtcp, that both ends must share
	IPerf2ReverseUDP       bool   // send UDP to addresses that nothing has proven
}

// count is how many listeners are asked for.
func (f *Foreign) count() (n int) {
	for _, addr := range []string{f.IPerf3, f.IPerf2, f.NetPIPE} {
		if addr != "" {
			n++
		}
	}
	return n
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

// listenForeign opens the ports that were asked for. Nothing is answered before
// serve is called.
func (s *Server) listenForeign(ctx context.Context) (servers []Listener, err error) {
	f := s.c.Foreign
	defer func() {
		if err != nil {
			for _, l := range servers {
				l.Close()
			}
		}
	}()
	if (f.IPerf3Users == "") != (f.IPerf3Key == "") {
		return nil, app.Usagef("--iperf3-users and --iperf3-key belong together")
	}
	if f.IPerf3PKCS1 && f.IPerf3Users == "" {
		return nil, app.Usagef("--iperf3-pkcs1 is about logins: it needs --iperf3-users and --iperf3-key")
	}
	for _, p := range []struct {
		name, addr, port string
		make             func(ctx context.Context, l net.Listener) (func(context.Context) error, error)
	}{
		{"iperf3", f.IPerf3, "5201", func(_ context.Context, l net.Listener) (func(context.Context) error, error) {
			return s.iperf3Server(l, f)
		}},
		{"iperf2", f.IPerf2, "5001", func(ctx context.Context, l net.Listener) (func(context.Context) error, error) {
			return s.iperf2Server(ctx, l, f.IPerf2ReverseUDP)
		}},
		{"netpipe", f.NetPIPE, "5002", func(_ context.Context, l net.Listener) (func(context.Context) error, error) {
			return s.netpipeServer(l, f.NetPIPEOptions)
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
				return servers, app.WithHint(app.WithKind(app.Usage, err), "write it like --%s=10.0.0.2:%s or --%[1]s=:%[2]s", p.name, p.port)
			}
			return servers, app.WithHint(err, "use --%s=ADDRESS:PORT for another port", p.name)
		}
		one := Listener{Name: p.name, Addr: l.Addr(), Close: func() { _ = l.Close() }}
		if one.Serve, err = p.make(ctx, l); err != nil {
			_ = l.Close()
			return servers, fmt.Errorf("--%s: %w", p.name, err)
		}
		servers = append(servers, one)
	}
	return servers, nil
}

func (s *Server) iperf3Server(l net.Listener, f Foreign) (func(context.Context) error, error) {
	c := iperf3peer.ServerConfig{
		Streams: foreignStreams, Duration: foreignTime, UDPRate: foreignUDPRate, Block: foreignBlock, LinkRate: new(here.Machine).LinkRate(),
		Budget: s.budget, Unknown: s.files.Listener, Event: s.iperf3Event,
	}
	if f.IPerf3Users != "" {
		access, err := loadAccess(f.IPerf3Users, f.IPerf3Key)
		if err != nil {
			return nil, app.WithKind(app.Usage, err)
		}
		if f.IPerf3PKCS1 {
			access.Paddings = []iperf3.Padding{iperf3.OAEP, iperf3.PKCS1v15}
		}
		// Who has a password is no anonymous client: what the budget gives key holders
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

func (s *Server) iperf2Server(ctx context.Context, l net.Listener, anybody bool) (func(context.Context) error, error) {
	pc, err := new(net.ListenConfig).ListenPacket(ctx, "udp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	c := peer.ServerConfig{
		Sessions: foreignSessions * foreignStreams, PerClient: foreignStreams,
		Time: foreignTime, UDPTime: foreignTime, UDPRate: foreignUDPRate, Block: foreignBlock,
		Budget: s.budget, Unknown: s.files.Listener,
		Log:  s.say("iperf2: "),
		Done: s.iperf2Result, Begun: s.iperf2Begun,
	}
	if anybody {
		c.UDPTo = func(netip.Addr) bool { return true }
	}
	return func(ctx context.Context) error { return peer.Serve(ctx, l, pc, c) }, nil
}
