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
	"linerate/internal/app/here"
	"linerate/internal/control/access"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/host/durable"
	"linerate/internal/host/sandbox"
)

// serveDir is where a server has its key and the keys of its users, below the
// state directory.
const serveDir = "serve"

// addressFile is where a server notes how its link names it: HOST:PORT.
const addressFile = "serve-address.txt"

// longestLife bounds how long a key is valid; one without a time has no end.
const longestLife = 100 * 365 * 24 * time.Hour

// DefaultRight is what a key allows unless more is asked for.
const DefaultRight = string(access.Measure)

// Keys are the keys of the server of this machine whose state is in the directory
// State; "" is the system's.
type Keys struct {
	Env   app.Env
	State string
}

// Key is one key, as who manages them sees it.
type Key struct {
	Name     string    `json:"name"`
	Right    string    `json:"right"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`   // zero: never
	LastUsed time.Time `json:"last_used,omitzero"` // zero: not, or not known
	State    string    `json:"state"`
	Link     string    `json:"link,omitempty"` // of a new one
}

// keyStore is the keys of the server whose state is in state.
func keyStore(state string) (access.Store, error) {
	dir, err := here.StateDir(state)
	return access.Store{Dir: filepath.Join(dir, serveDir)}, err
}

// store is keyStore for who speaks about keys. Where root speaks of a server
// that runs as another user, such as a dynamic one of systemd, whose directory
// root does not trust, it becomes that user: the directory is entered first, since
// the way to it may be open to root only (/var/lib/private).
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
		return s, err // it is root's, and others may write to it
	}
	if err := sandbox.Drop(u); err != nil {
		return s, err
	}
	k.Env.Observe(app.Serving{Line: fmt.Sprintf("linerate: as %s, who owns this server's state", u)})
	return access.Store{Dir: serveDir}, nil
}

// Add makes a key with a right, measure or tune, that is valid for the time expires
// says, such as 12h, 30d or 8w; "" has no end. It returns the join link with the
// key's secret, which is nowhere kept. host is how the link names the server; "" is as
// the server said at its last start.
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

// List returns the keys, in the order of their making.
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

// Revoke takes a key back: a server that runs ends the sessions that use it.
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

// Link returns the join link of the key that the first start of a server made, the
// only one whose secret is kept. host is as in Add.
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

// parseLife reads a duration that may be days or weeks.
func parseLife(s string) (time.Duration, error) {
	d, err := units.ParseSpan(s)
	if err != nil || d <= 0 || d > longestLife {
		return 0, fmt.Errorf("--expires %.40q is not a time to come, like 12h, 30d or 2w", s)
	}
	return d, nil
}

// linkAddress is HOST:PORT for a link to the server whose files are in dir: what
// the user says, completed by what the server said at its last start.
func linkAddress(given, dir string) string {
	addr := tls.JoinAddrs(linkHosts("", nil), tls.DefaultPort)
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
