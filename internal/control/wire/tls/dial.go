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

	"linerate/internal/control/session"
	"linerate/internal/control/wire"
)

// alpn names the protocol inside TLS (RFC 7301), so that a web server or browser
// at the other end fails early. It has the number of the session protocol. Both
// ends take the old one too, to be able to tell an old end that it is one.
const (
	alpn    = "linerate/2"
	alpnOld = "linerate/1"
)

// handshakeTimeout is how long the other end may take for TLS.
const handshakeTimeout = 10 * time.Second

// What Dial's error may wrap.
var (
	// ErrPin says that the server is not the one of the link.
	ErrPin = errors.New("this is not the server of the link")
	// ErrNoPin says that there is nothing to know the server by.
	ErrNoPin = errors.New("the link has no pin")
)

// Dial connects to a linerate serve and proves that it is the one of the link.
// The secret is only presented by session.Open, inside TLS. A server that hangs up
// before that is asked again; see wire.Again.
func Dial(ctx context.Context, l Link) (wire.Peer, error) {
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
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	var raw net.Conn
	var conn *ctls.Conn
	err = wire.Again(ctx, func() (err error) {
		raw, conn, err = connect(ctx, l)
		return err
	})
	if err != nil {
		return wire.Peer{}, err
	}
	if conn.ConnectionState().NegotiatedProtocol == alpnOld {
		_ = conn.Close()
		return wire.Peer{}, fmt.Errorf("connect to %s: %w: the server is a linerate older than session protocol %d: install the same linerate on both hosts",
			l.Addr, session.ErrVersion, session.Protocol)
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

// connect makes a TCP connection to the server, and a TLS session over it.
func connect(ctx context.Context, l Link) (net.Conn, *ctls.Conn, error) {
	d := net.Dialer{}
	d.SetMultipathTCP(false)
	raw, err := d.DialContext(ctx, "tcp", l.Addr)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to linerate serve: %w", err)
	}
	conn := ctls.Client(raw, clientConfig(l.Pin))
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, nil, fmt.Errorf("connect to %s: %w", l.Addr, explain(err))
	}
	return raw, conn, nil
}

// clientConfig trusts exactly the key with that pin and no authority.
func clientConfig(want string) *ctls.Config {
	return &ctls.Config{
		MinVersion:         ctls.VersionTLS13,
		NextProtos:         []string{alpn, alpnOld},
		InsecureSkipVerify: true, // VerifyConnection does it, for every handshake
		VerifyConnection: func(s ctls.ConnectionState) error {
			if s.NegotiatedProtocol != alpn && s.NegotiatedProtocol != alpnOld {
				return errors.New("the server is not linerate serve")
			}
			got := pin(s.PeerCertificates[0])
			if subtle.ConstantTimeCompare([]byte(got), []byte(want)) != 1 {
				return fmt.Errorf("%w: its pin is %s; if its state was made anew, use the link that it prints now", ErrPin, got)
			}
			return nil
		},
	}
}

// explain says what a failed handshake means.
func explain(err error) error {
	if _, ok := errors.AsType[ctls.RecordHeaderError](err); ok {
		return errors.New("what answers there is not linerate serve")
	}
	return err
}
