package peer

import (
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/fault"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/program"
)

// Program describes iperf3 for linerate.
func Program() program.Program {
	p := program.Program{
		Name: "iperf3", Server: "an iperf3 server", Port: strconv.Itoa(iperf3.DefaultPort), Fit: program.FitBulk, Serve: listen,
		Start: func(port string) string { return "iperf3 -s" + program.At(" -p ", port) },
		Flags: []program.Flag{
			{Name: "username", Usage: "user of an iperf3 server that asks for one; the password is in $IPERF3_PASSWORD"},
			{Name: "rsa-public-key", Usage: "file with that server's public key (PEM)"},
			{Name: "use-pkcs1-padding", Usage: "encrypt for iperf3 servers older than 3.17", Switch: true},
			{Name: "get-server-output", Usage: "show what an iperf3 server printed", Switch: true},
		},
		ServerFlags: []program.Flag{
			{Name: "iperf3-users", Usage: "file of iperf3 users, name,hash a line (iperf3 --authorized-users-path)"},
			{Name: "iperf3-key", Usage: "file with the RSA private key that their passwords are encrypted for (PEM)"},
			{Name: "iperf3-pkcs1", Usage: "take logins of iperf3 before 3.17 too, whose padding (PKCS #1 v1.5) is weak", Switch: true},
		},
		CheckServe: func(given program.Values) error {
			_, err := access(given)
			return err
		},
		Help: "iperf3 can ask for a name and a password, and has the limits of those who have the\nlink then, and an hour.",
	}
	p.New = func(addr string, given program.Values, getenv func(string) string) (program.Client, error) {
		c := remote{program: p, addr: addr, output: given.On("get-server-output")}
		var err error
		if c.client.Rate, err = given.Pace(); err == nil {
			c.client.Login, err = login(given, getenv)
		}
		return c, err
	}
	return p
}

// remote is a server at an address.
type remote struct {
	program program.Program
	addr    string
	client  Client
	output  bool
}

// Run implements program.Client.
func (r remote) Run(ctx context.Context, f model.Flow, host program.Near, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	r.client.LinkRate, r.client.Met, r.client.Egress = host.LinkRate, host.Met, host.Egress
	if r.output {
		r.client.ServerOutput = func(text string, document json.RawMessage) {
			for line := range strings.Lines(cmp.Or(text, string(document))) {
				host.Said(strings.TrimRight(line, "\r\n"))
			}
		}
	}
	near, far, err = r.client.Run(ctx, r.addr, f, emit)
	refusal, refused := errors.AsType[*iperf3.ServerError](err)
	switch {
	case errors.Is(err, ErrIperf2):
		err = fault.New(fault.Unreachable, err, "use iperf2://%s", r.addr)
	case errors.Is(err, errors.ErrUnsupported) && f.Direction == model.Both:
		err = fault.New(fault.ByCause, err, "leave out --bidir: one direction is then measured after the other")
	case errors.Is(err, ErrBusy):
		err = fault.New(fault.Unreachable, err, "if it is an iperf3 server, wait for its test to end, or start one of your own: iperf3 -s -p PORT")
	case errors.Is(err, iperf3.ErrRefused):
		err = fault.New(fault.ByCause, err, "is the name known there, and is $IPERF3_PASSWORD its password? servers older than 3.17 need --use-pkcs1-padding")
	case refused:
		kind, hint := fault.Unreachable, map[iperf3.Code]string{
			iperf3.CodeDuration: "use a shorter --time", iperf3.CodeMaxDuration: "use a shorter --time", iperf3.CodeStreams: "use a smaller --parallel",
			iperf3.CodeBlockSize: "use a smaller --length", iperf3.CodeTotalRate: "use a lower --bitrate", iperf3.CodeTimeLimit: "use a shorter --time, or try again later",
		}[refusal.Code]
		if hint == "" {
			kind = fault.ByCause
		}
		err = fault.New(kind, err, "%s", hint)
	}
	return near, far, r.program.Unreachable(ctx, err, r.addr)
}

// login returns the login that the flags describe, nil if there are none.
func login(given program.Values, getenv func(string) string) (*Login, error) {
	user, file := given["username"], given["rsa-public-key"]
	switch {
	case user == "" && file == "":
		return nil, nil
	case user == "" || file == "":
		return nil, fault.Usagef("--username and --rsa-public-key belong together")
	}
	key, err := readKey(file, func(der []byte) (any, error) { return x509.ParsePKIXPublicKey(der) })
	if err != nil {
		return nil, fault.Usagef("--rsa-public-key: %w", err)
	}
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return nil, fault.Usagef("--rsa-public-key: %s holds a %T, not an RSA key", file, key)
	}
	password := getenv("IPERF3_PASSWORD")
	if password == "" {
		return nil, fault.New(fault.Usage, fmt.Errorf("no password for %s", user), "set the environment variable IPERF3_PASSWORD, as for iperf3 itself")
	}
	l := &Login{User: user, Password: password, Key: public, Padding: iperf3.OAEP}
	if given.On("use-pkcs1-padding") {
		l.Padding = iperf3.PKCS1v15
	}
	return l, nil
}

// readKey reads a key in the format of openssl.
func readKey(file string, parse func(der []byte) (any, error)) (any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", file)
	}
	key, err := parse(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

// access reads the users of a server and its key; nil if it requires no login. A fault in them
// is a Problem.
func access(given program.Values) (*Access, error) {
	a, err := readAccess(given)
	if err != nil {
		return nil, fault.WithKind(fault.Usage, err)
	}
	return a, nil
}

func readAccess(given program.Values) (*Access, error) {
	users, file := given["iperf3-users"], given["iperf3-key"]
	switch {
	case (users == "") != (file == ""):
		return nil, errors.New("--iperf3-users and --iperf3-key belong together")
	case users == "" && given.On("iperf3-pkcs1"):
		return nil, errors.New("--iperf3-pkcs1 is about logins: it needs --iperf3-users and --iperf3-key")
	case users == "":
		return nil, nil
	}
	list, err := os.Open(users)
	if err != nil {
		return nil, err
	}
	defer func() { _ = list.Close() }()
	a := &Access{}
	if a.Users, err = iperf3.ParseUsers(list); err != nil {
		return nil, fmt.Errorf("%s: %w", users, err)
	}
	key, err := readKey(file, func(der []byte) (any, error) {
		if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
			return key, nil
		}
		return x509.ParsePKCS8PrivateKey(der)
	})
	if err != nil {
		return nil, err
	}
	private, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds a %T, not an RSA key", file, key)
	}
	a.Key = private
	if given.On("iperf3-pkcs1") {
		a.Paddings = []iperf3.Padding{iperf3.OAEP, iperf3.PKCS1v15}
	}
	return a, nil
}

// listen implements program.Program.Serve.
func listen(_ context.Context, at program.Sockets, h program.Host) (func(context.Context) error, error) {
	one := budget.AnonymousRun()
	c := ServerConfig{
		Streams: one.Streams, Duration: one.Time, UDPRate: one.UDP, Block: one.Block, LinkRate: h.LinkRate,
		Budget: h.Budget, Unknown: h.Unknown, Event: func(e Event) { tell(h, e) }, Sampled: h.Sampled,
	}
	var err error
	if c.Access, err = access(h.Given); err != nil {
		return nil, err
	}
	if c.Access != nil {
		// A client with a password is not anonymous: the budget of key holders and the server's
		// hour limit its tests.
		c.Streams, c.Duration, c.UDPRate = 0, 0, 0
	}
	return func(ctx context.Context) error { return Serve(ctx, at.TCP, c) }, nil
}

// tell reports an event of a client.
func tell(h program.Host, e Event) {
	if e.Note != "" {
		h.Note(e.Note)
		return
	}
	// Without a valid address it is reported without one.
	at, _ := netip.ParseAddrPort(e.Remote)
	t := program.Test{From: at.Addr(), Key: e.User, Took: e.Took, Err: e.Err, Flow: flowOf(e.Params)}
	if e.Ran {
		t.Ends = []model.EndReport{e.Own, e.Theirs}
		h.Keep(t)
	}
	h.Tell(program.Event{Test: t, Port: at.Port(), Began: e.Begun || e.Ran, Over: !e.Begun})
}

// flowOf converts a client's request to a flow.
func flowOf(p iperf3.Params) model.Flow {
	f := model.Flow{
		Engine: bulk.Name, Direction: directions(p.Direction), Streams: int(p.Parallel), Nagle: !p.NoDelay,
		Duration: time.Duration(p.Seconds) * time.Second, Omit: time.Duration(p.OmitSeconds) * time.Second,
	}
	if p.Protocol == iperf3.UDP {
		f.Engine = udp.Name
	}
	return f
}
