package cli

import (
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"linerate/internal/app"
	"linerate/internal/control/runner"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/iperf2/peer"
	"linerate/internal/measure/iperf3"
	iperf3peer "linerate/internal/measure/iperf3/peer"
)

// foreignKind is a program of another kind at the far end.
type foreignKind struct {
	scheme  string
	program string // for people
	port    string // where it listens
	sweeps  bool   // measures message sizes, and nothing else
}

// foreignKinds are the programs that linerate measures with.
func foreignKinds() []foreignKind {
	return []foreignKind{
		{"iperf3", "iperf3 server", "5201", false},
		{"iperf2", "iperf 2 server", "5001", false},
		{"netpipe", "NPtcp receiver", "5002", true},
	}
}

// isForeign reports whether s begins with the name of such a program.
func isForeign(s string) bool {
	scheme, _, found := strings.Cut(s, "://")
	return found && slices.ContainsFunc(foreignKinds(), func(k foreignKind) bool { return k.scheme == scheme })
}

// parseForeign reads iperf3://HOST[:PORT] and its like.
func parseForeign(s string) (target, error) {
	scheme, rest, _ := strings.Cut(s, "://")
	for _, k := range foreignKinds() {
		if k.scheme != scheme {
			continue
		}
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return target{}, withHint(usagef("%q is not the address of an %s", rest, k.program),
				"write it like %s://10.0.0.2 or %s://nas:%s", k.scheme, k.scheme, k.port)
		}
		return target{kind: targetForeign, text: s, foreign: k, addr: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), k.port))}, nil
	}
	return target{}, usagef("no way to reach %s:// hosts", scheme)
}

// foreignPeer returns how to measure with a foreign server. What it says at the
// end goes to said.
func (a *console) foreignPeer(t target, f trafficFlags, link fact.Of[units.BitRate]) (runner.Peer, error) {
	switch t.foreign.scheme {
	case "iperf3":
		c := iperf3peer.Client{LinkRate: link}
		if f.rate != "" && !f.udp {
			rate, err := units.ParseBitRate(f.rate)
			if err != nil {
				return nil, usagef("--rate: %v", err)
			}
			c.Rate = rate
		}
		if f.serverOutput {
			c.ServerOutput = func(text string, document json.RawMessage) {
				for line := range strings.Lines(cmp.Or(text, string(document))) {
					a.talk("server: %s", strings.TrimRight(line, "\r\n"))
				}
			}
		}
		login, err := a.login(f)
		if err != nil {
			return nil, err
		}
		c.Login = login
		return iperf3Peer{c, t.addr}, nil
	case "iperf2":
		c := peer.Client{ConnectBack: f.dualPorts}
		if f.rate != "" && !f.udp {
			rate, err := units.ParseBitRate(f.rate)
			if err != nil {
				return nil, usagef("--rate: %v", err)
			}
			c.Rate = rate
		}
		return iperf2Peer{c, t.addr}, nil
	}
	return nil, withHint(usagef("an %s measures message sizes only", t.foreign.program), "use linerate sweep %s", t.text)
}

// login is who asks an iperf3 server; nil where no user is named.
func (a *console) login(f trafficFlags) (*iperf3peer.Login, error) {
	if f.user == "" && f.keyFile == "" {
		return nil, nil //nolint:nilnil // no login is a valid answer
	}
	if f.user == "" || f.keyFile == "" {
		return nil, usagef("--username and --rsa-public-key belong together")
	}
	key, err := publicKey(f.keyFile)
	if err != nil {
		return nil, app.WithKind(app.Usage, fmt.Errorf("--rsa-public-key: %w", err))
	}
	password := a.Getenv("IPERF3_PASSWORD")
	if password == "" {
		return nil, withHint(usagef("no password for %s", f.user), "set the environment variable IPERF3_PASSWORD, as for iperf3 itself")
	}
	l := &iperf3peer.Login{User: f.user, Password: password, Key: key, Padding: iperf3.OAEP}
	if f.pkcs1 {
		l.Padding = iperf3.PKCS1v15
	}
	return l, nil
}

// publicKey reads an RSA key as openssl rsa -pubout writes it.
func publicKey(path string) (*rsa.PublicKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", path)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if rsaKey, ok := key.(*rsa.PublicKey); ok {
		return rsaKey, nil
	}
	return nil, fmt.Errorf("%s holds a %T, not an RSA key", path, key)
}

// iperf3Peer and iperf2Peer fix the address of a client.
type iperf3Peer struct {
	client iperf3peer.Client
	addr   string
}

// unreachable says of a server that nobody could connect to, or that speaks of
// something else, what to do.
func unreachable(ctx context.Context, err error, kind, start string) error {
	op, ok := errors.AsType[*net.OpError](err)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case ok && op.Op == "dial" && op.Addr == nil: // its name was not found
		return withHint(app.WithKind(app.Unreachable, cmp.Or(op.Err, err)), "is the name right?")
	case ok && op.Op == "dial":
		return withHint(app.WithKind(app.Unreachable, fmt.Errorf("connect to %s: %w", op.Addr, cmp.Or(errors.Unwrap(op.Err), op.Err))), "is it running there? start it with: %s", start)
	case hintOf(err) == "" && exitCode(err) == exitFailed:
		return withHint(err, "is what answers there an %s? start one with: %s", kind, start)
	}
	return err
}

// Run implements runner.Peer.
func (p iperf3Peer) Run(ctx context.Context, f model.Flow, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	near, far, err = p.client.Run(ctx, p.addr, f, emit)
	switch {
	case errors.Is(err, iperf3peer.ErrIperf2):
		err = withHint(app.WithKind(app.Unreachable, err), "use iperf2://%s", p.addr)
	case errors.Is(err, errors.ErrUnsupported) && f.Direction == model.Both:
		err = withHint(err, "leave out --bidir: one direction is then measured after the other")
	case errors.Is(err, iperf3peer.ErrBusy):
		err = withHint(app.WithKind(app.Unreachable, err), "if it is an iperf3 server, wait for its test to end, or start one of your own: iperf3 -s -p PORT")
	case errors.Is(err, iperf3.ErrRefused):
		err = withHint(err, "is the name known there, and is $IPERF3_PASSWORD its password? servers older than 3.17 need --use-pkcs1-padding")
	}
	return near, far, unreachable(ctx, err, "iperf3 server", "iperf3 -s")
}

type iperf2Peer struct {
	client peer.Client
	addr   string
}

// Run implements runner.Peer.
func (p iperf2Peer) Run(ctx context.Context, f model.Flow, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	near, far, err = p.client.Run(ctx, p.addr, f, emit)
	if errors.Is(err, peer.ErrIperf3) {
		err = withHint(app.WithKind(app.Unreachable, err), "use iperf3://%s", p.addr)
	}
	return near, far, unreachable(ctx, err, "iperf 2 server", "iperf -s, or iperf -s -u for UDP")
}
