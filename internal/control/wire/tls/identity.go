package tls

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	ctls "crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/plain"
)

// keyFile holds a private key (PKCS #8) and its certificate, in a state directory.
const keyFile = "serve-key.pem"

// Identity identifies a server: a key with a self-signed certificate, and the secret that its
// users share. Clients verify the certificate by its pin in the join link.
type Identity struct {
	Certificate ctls.Certificate
	Secret      []byte // 32 bytes; nil if links do not show it
}

// LoadKey reads the key in dir, and creates it if it is missing, in a file for the owner only.
// The identity has no secret, for a server that looks up its users with Config.Find.
func LoadKey(dir string) (Identity, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Identity{}, fmt.Errorf("make identity: %w", err)
	}
	key, err := loadOrMake(filepath.Join(dir, keyFile), makeKey)
	if err != nil {
		return Identity{}, err
	}
	cert, err := ctls.X509KeyPair(key, key)
	if err != nil {
		return Identity{}, fmt.Errorf("read %s: %w", filepath.Join(dir, keyFile), err)
	}
	return Identity{Certificate: cert}, nil
}

// loadOrMake reads path, and creates it first if it does not exist. If two servers start at
// once, both use what the first one wrote.
func loadOrMake(path string, makeIt func() ([]byte, error)) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err == nil {
		if err := os.Chmod(path, 0o600); err != nil && !errors.Is(err, syscall.EROFS) {
			return nil, fmt.Errorf("protect identity: %w", err)
		}
		return b, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read identity: %w", err)
	}
	if b, err = makeIt(); err != nil {
		return nil, fmt.Errorf("make identity: %w", err)
	}
	if err := writeNew(path, b); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("write identity: %w", err)
	}
	if b, err = os.ReadFile(path); err != nil {
		return nil, fmt.Errorf("read identity: %w", err)
	}
	return b, nil
}

// writeNew creates path atomically, and never replaces it.
func writeNew(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path)
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// makeKey makes a P-256 key and a certificate without expiry (RFC 5280 section 4.1.2.5), both as
// PEM.
func makeKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "linerate serve"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})...), nil
}

// Pin returns the base64url SHA-256 of the certificate's public key (SubjectPublicKeyInfo, as in
// RFC 7469 section 2.4 but with the URL alphabet).
func (i Identity) Pin() string { return pin(i.Certificate.Leaf) }

func pin(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// DefaultPort is the default port of linerate serve.
const DefaultPort = "5299"

// Link is a join link: linerate://PIN.SECRET@HOST:5299, with more hosts after commas. None of
// its characters is special to a shell.
type Link struct {
	Addr   string // host:port, or several separated by commas, tried in turn
	Pin    string // base64url SHA-256 of the server's public key; "" in a damaged link
	Secret string // base64url; "" if the server is open
}

// maxAddrs is how many addresses a link may have.
const maxAddrs = 8

// Addrs returns the addresses, host:port, in the order in which they are tried.
func (l Link) Addrs() []string { return strings.Split(l.Addr, ",") }

// String returns the link with its secret.
func (l Link) String() string {
	who := l.Pin
	if l.Secret != "" {
		who += "." + l.Secret
	}
	return scheme + who + "@" + l.Addr
}

// JoinAddrs returns the Addr of a link to hosts that listen on one port.
func JoinAddrs(hosts []string, port string) string {
	all := lists.Each(hosts[:min(len(hosts), maxAddrs)], func(h string) string { return net.JoinHostPort(h, port) })
	return strings.Join(all, ",")
}

const scheme = "linerate://"

// errLink shows what a link looks like.
var errLink = errors.New("not a join link: one looks like linerate://PIN.SECRET@HOST:5299")

// ParseLink parses a link; the port defaults to DefaultPort.
func ParseLink(s string) (Link, error) { return ParseLinkTo(s, DefaultPort) }

// ParseLinkTo is ParseLink with another default port.
func ParseLinkTo(s, defaultPort string) (Link, error) {
	rest, ok := strings.CutPrefix(s, scheme)
	if !ok {
		return Link{}, errLink
	}
	who, hosts, ok := strings.Cut(rest, "@")
	if !ok {
		who, hosts = "", rest
	}
	var l Link
	l.Pin, l.Secret, _ = strings.Cut(who, ".")
	var addrs []string
	for host := range strings.SplitSeq(strings.TrimSuffix(hosts, "/"), ",") {
		u, err := plain.ParseURL(scheme + host)
		if err != nil || u.Hostname() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			return Link{}, errLink
		}
		addrs = append(addrs, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), defaultPort)))
	}
	if len(addrs) > maxAddrs || strings.ContainsFunc(who, func(r rune) bool { return r != '.' && !isBase64URL(r) }) {
		return Link{}, errLink
	}
	l.Addr = strings.Join(addrs, ",")
	return l, nil
}

func isBase64URL(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_'
}

// RemoveKey removes the key in dir, so that LoadKey makes another one.
func RemoveKey(dir string) error {
	if err := os.Remove(filepath.Join(dir, keyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove identity: %w", err)
	}
	return nil
}
