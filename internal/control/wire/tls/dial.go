package tls

import (
	"context"
	"crypto/subtle"
	ctls "crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"linerate/internal/control/wire"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
)

// alpn names the protocol inside TLS (RFC 7301), so that a web server or browser that uses the
// wrong port fails at once. It has no version: the greeting of a session compares versions, and
// can name the two that do not match.
const alpn = "linerate"

// handshakeTimeout is how long the other end may take for TLS.
const handshakeTimeout = 10 * time.Second

// Errors that Dial's error may wrap.
var (
	// ErrPin reports that the server is not the one of the link.
	ErrPin = errors.New("this is not the server of the link")
	// ErrNoPin reports that the link has no pin to verify the server with.
	ErrNoPin = errors.New("the link has no pin")
)

// Dial connects to a linerate serve, from an address and through an interface of this machine if
// from names them, and verifies that it is the one of the link. Only session.Open presents the
// secret, inside TLS. Dial retries if the server hangs up before that; see wire.Again.
func Dial(ctx context.Context, l Link, from model.Egress) (wire.Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	addrs := l.Addrs()
	var worst error // a server with the wrong pin counts more than one that does not answer
	for i, addr := range addrs {
		own, end := ctx, func() {}
		if i < len(addrs)-1 {
			own, end = context.WithTimeout(ctx, nextAfter)
		}
		p, err := dialOne(own, Link{Addr: addr, Pin: l.Pin, Secret: l.Secret}, from)
		end()
		if err == nil {
			return p, nil
		}
		if worst == nil || errors.Is(err, ErrPin) && !errors.Is(worst, ErrPin) {
			worst = err
		}
	}
	return wire.Peer{}, worst
}

// nextAfter is how long each of several addresses has to answer: long enough for one lost
// segment (RFC 6298 section 2).
const nextAfter = 2 * time.Second

// dialOne is Dial for a link with one address.
func dialOne(ctx context.Context, l Link, from model.Egress) (wire.Peer, error) {
	host, port, err := net.SplitHostPort(l.Addr)
	if err != nil {
		return wire.Peer{}, fmt.Errorf("connect to %s: %w", l.Addr, err)
	}
	if l.Pin == "" {
		return wire.Peer{}, fmt.Errorf("connect to %s: %w: use the whole link that linerate serve prints there", l.Addr, ErrNoPin)
	}
	secret, err := base64.RawURLEncoding.DecodeString(l.Secret)
	if err != nil {
		return wire.Peer{}, fmt.Errorf("connect to %s: the secret of the link is damaged: copy the whole link", l.Addr)
	}
	var raw net.Conn
	var conn *ctls.Conn
	err = wire.Again(ctx, func() (err error) {
		raw, conn, err = connect(ctx, l.Addr, from, clientConfig(alpn, exactly(l.Pin)))
		return err
	})
	if err != nil {
		return wire.Peer{}, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		number = raw.RemoteAddr().(*net.TCPAddr).Port // a service name
	}
	return wire.Peer{
		Control: conn, Name: host, DataHost: raw.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().String(),
		DataPort: number, Secret: secret,
	}, nil
}

// Pin connects to a server whose pin is unknown, and returns the pin that it shows. That proves
// only that the server has the key of that pin.
func Pin(ctx context.Context, addr string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	var shown string
	err := wire.Again(ctx, func() error {
		_, conn, err := connect(ctx, addr, model.Egress{}, clientConfig(alpn, func(string) error { return nil }))
		if err == nil {
			shown = pin(conn.ConnectionState().PeerCertificates[0])
			_ = conn.Close()
		}
		return err
	})
	return shown, err
}

// connect opens a TCP connection to the server, and a TLS session over it.
func connect(ctx context.Context, addr string, from model.Egress, config *ctls.Config) (net.Conn, *ctls.Conn, error) {
	raw, err := sockio.Dial(ctx, net.Dialer{}, "tcp", addr, engine.SocketOptions{Egress: model.Egress{Bind: from.Bind, Device: from.Device}})
	if err != nil {
		return nil, nil, err
	}
	conn := ctls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, nil, fmt.Errorf("connect to %s: %w", addr, explain(err))
	}
	return raw, conn, nil
}

// exactly returns a check that accepts only the pin want.
func exactly(want string) func(string) error {
	return func(got string) error {
		if subtle.ConstantTimeCompare([]byte(got), []byte(want)) != 1 {
			return fmt.Errorf("%w: its pin is %s; if its state was made anew, use the link that it prints now", ErrPin, got)
		}
		return nil
	}
}

// clientConfig trusts only keys whose pin is known, and no certificate authority.
func clientConfig(alpn string, known func(pin string) error) *ctls.Config {
	return &ctls.Config{
		MinVersion:         ctls.VersionTLS13,
		NextProtos:         []string{alpn},
		InsecureSkipVerify: true, // VerifyConnection verifies every handshake
		VerifyConnection: func(s ctls.ConnectionState) error {
			if s.NegotiatedProtocol != alpn {
				return errors.New("the server is not linerate")
			}
			return known(pin(s.PeerCertificates[0]))
		},
	}
}

// explain says what a failed handshake means.
func explain(err error) error {
	if _, ok := errors.AsType[ctls.RecordHeaderError](err); ok {
		return errors.New("what answers there is not linerate")
	}
	return err
}
