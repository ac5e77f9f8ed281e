package serve

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/control/access"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/host/durable"
	"linerate/internal/host/sandbox"
)

// serveDir holds a server's key and the keys of its users, below the state directory.
const serveDir = "serve"

// addressFile is where a server stores the HOST:PORT of its link.
const addressFile = "serve-address.txt"

// longestLife bounds how long a key is valid; a key without a lifetime never expires.
const longestLife = 100 * 365 * 24 * time.Hour

// DefaultRight is the right of a key by default.
const DefaultRight = string(access.Measure)

// Keys manages the keys of the server of this machine with state directory State; "" is the
// system's.
type Keys struct {
	Env   app.Env
	State string
}

// Key is one key, for display.
type Key struct {
	Name     string    `json:"name"`
	Right    string    `json:"right"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`   // zero: never
	LastUsed time.Time `json:"last_used,omitzero"` // zero: never, or unknown
	State    string    `json:"state"`
	Link     string    `json:"link,omitempty"` // only for a new key
}

// keyStore returns the keys of the server with state directory state.
func keyStore(state string) (access.Store, error) {
	dir, err := local.StateDir(state)
	return access.Store{Dir: filepath.Join(dir, serveDir)}, err
}

// store is keyStore for managing keys. If root manages the keys of a server that runs as
// another user, such as a dynamic one of systemd, whose directory root does not trust, this
// process becomes that user. It enters the directory first, since only root may be able to
// get there (/var/lib/private).
func (k Keys) store() (access.Store, error) {
	s, err := keyStore(k.State)
	if !errors.Is(err, durable.ErrUntrusted) {
		return s, err
	}
	if os.Chdir(filepath.Dir(s.Dir)) != nil {
		return s, err
	}
	u, ok := sandbox.OwnerOf(".")
	if !ok {
		return s, err // it belongs to root, and others may write to it
	}
	if err := sandbox.Drop(u); err != nil {
		return s, err
	}
	k.Env.Observe(app.Serving{Line: fmt.Sprintf("linerate: as %s, who owns this server's state", u)})
	return access.Store{Dir: serveDir}, nil
}

// Add makes a key with a right, measure or tune. expires is its lifetime, such as 12h, 30d or
// 8w; "" never expires. Add returns the join link with the key's secret, which is not stored.
// host is the server's name in the link; "" means as the server noted at its last start.
func (k Keys) Add(name, right, expires, host string) (Key, string, error) {
	r, err := access.ParseRight(right)
	if err != nil {
		return Key{}, "", fault.WithKind(fault.Usage, err)
	}
	now, end := k.Env.Now(), time.Time{}
	if expires != "" {
		life, err := parseLife(expires)
		if err != nil {
			return Key{}, "", fault.New(fault.Usage, err, "write it like --expires 12h, --expires 30d or --expires 8w")
		}
		end = now.Add(life)
	}
	s, err := k.store()
	if err != nil {
		return Key{}, "", err
	}
	identity, err := tls.LoadKey(s.Dir)
	if err != nil {
		return Key{}, "", fault.WithHint(err, "use --state DIR for a directory of yours")
	}
	made, secret, err := s.Add(name, r, end)
	switch {
	case errors.Is(err, access.ErrName):
		return Key{}, "", fault.WithKind(fault.Usage, err)
	case errors.Is(err, access.ErrExists):
		return Key{}, "", fault.WithHint(err, "take it back first: linerate serve key revoke %s", name)
	case err != nil:
		return Key{}, "", err
	}
	return describe(made, now, time.Time{}), joinLink(host, s.Dir, identity, secret), nil
}

// List returns the keys, oldest first.
func (k Keys) List() ([]Key, error) {
	s, err := k.store()
	if err != nil {
		return nil, err
	}
	keys, err := s.List()
	if err != nil {
		return nil, err
	}
	used, all := s.Used(), []Key{}
	for _, key := range keys {
		all = append(all, describe(key, k.Env.Now(), used[key.Hash]))
	}
	return all, nil
}

// Revoke revokes a key: a running server ends the sessions that use it.
func (k Keys) Revoke(name string) (Key, error) {
	s, err := k.store()
	if err != nil {
		return Key{}, err
	}
	key, err := s.Revoke(name)
	if errors.Is(err, access.ErrUnknown) {
		return Key{}, fault.WithHint(err, "linerate serve key list shows those that there are")
	}
	if err != nil {
		return Key{}, err
	}
	return describe(key, k.Env.Now(), s.Used()[key.Hash]), nil
}

// Link returns the join link of the key that the server made at its first start, the only one
// whose secret is stored. host is as in Add.
func (k Keys) Link(host string) (string, error) {
	s, err := k.store()
	if err != nil {
		return "", err
	}
	secret, err := s.Shown()
	if err == nil && secret == nil {
		err = fault.WithHint(errors.New("there is no key default whose link can be printed"),
			"linerate serve makes one at its first start; linerate serve key add NAME makes another and prints its link")
	}
	if err != nil {
		return "", err
	}
	identity, err := tls.LoadKey(s.Dir)
	if err != nil {
		return "", err
	}
	return joinLink(host, s.Dir, identity, secret), nil
}

func joinLink(host, dir string, identity tls.Identity, secret []byte) string {
	return tls.Link{Addr: linkAddress(host, dir), Pin: identity.Pin(), Secret: base64.RawURLEncoding.EncodeToString(secret)}.String()
}

func describe(k access.Key, now, used time.Time) Key {
	return Key{Name: k.Name, Right: string(k.Right), State: string(k.State(now)), Created: k.Created, Expires: k.Expires, LastUsed: used}
}

// parseLife parses a duration, which may be in days or weeks.
func parseLife(s string) (time.Duration, error) {
	d, err := units.ParseSpan(s)
	if err != nil || d <= 0 || d > longestLife {
		return 0, fmt.Errorf("--expires %.40q is not a time to come, like 12h, 30d or 2w", s)
	}
	return d, nil
}

// linkAddress returns HOST:PORT for a link to the server whose files are in dir: what the
// user gave, completed by what the server noted at its last start.
func linkAddress(given, dir string) string {
	addr := tls.JoinAddrs(LinkHosts("", nil), tls.DefaultPort)
	if b, err := os.ReadFile(filepath.Join(dir, addressFile)); err == nil {
		if l, err := tls.ParseLink("linerate://@" + strings.TrimSpace(string(b))); err == nil {
			addr = l.Addr
		}
	}
	if given == "" {
		return addr
	}
	if h, p, err := net.SplitHostPort(given); err == nil {
		return net.JoinHostPort(h, p)
	}
	_, port, err := net.SplitHostPort(tls.Link{Addr: addr}.Addrs()[0])
	if err != nil {
		port = tls.DefaultPort
	}
	return net.JoinHostPort(strings.Trim(given, "[]"), port)
}

// NewKey gives the server of this machine another key, so that it is known as another one.
func NewKey(state string) error {
	s, err := keyStore(state)
	if err != nil {
		return err
	}
	return tls.RemoveKey(s.Dir)
}
