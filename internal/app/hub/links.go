package hub

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"linerate/internal/app/serve"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fleet"
	"linerate/internal/fault"
	"linerate/internal/host/durable"
)

// Files of a hub, below its directory.
const (
	hubDir   = "hub"
	joinFile = "join.link"
	ViewFile = "view.link"
	// OperateFile holds the link of operators.
	OperateFile = "operate.link"
)

// linkFiles are the files of the links of a hub.
func linkFiles() map[fleet.Right]string {
	return map[fleet.Right]string{fleet.Joins: joinFile, fleet.Views: ViewFile, fleet.Operates: OperateFile}
}

// Init makes the key of a fleet and the links to its hubs, as far as they are missing: hubs that
// start with them later take them as they are.
func Init(c Config) error {
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil || c.Host == "" {
		return fault.WithHint(fault.Usagef("--init: the links need the names of the hubs"), "name them: --host hub1,hub2")
	}
	identity, err := tls.LoadKey(c.Dir)
	for _, file := range linkFiles() {
		path := filepath.Join(c.Dir, file)
		link, _ := ParseLink("@"+path, nil)
		if link.Secret == "" {
			link.Secret = newSecret()
		}
		if err == nil {
			link.Pin, link.Addr = identity.Pin(), tls.JoinAddrs(strings.Split(c.Host, ","), port)
			err = durable.Write(durable.OS{}, path, []byte(link.String()), 0o600)
		}
	}
	return err
}

// ParseLink returns the link of a hub in text: the link itself, @FILE, or @ for $LINERATE_LINK.
func ParseLink(text string, getenv func(string) string) (l tls.Link, err error) {
	if file, at := strings.CutPrefix(text, "@"); file != "" && at {
		var b []byte
		b, err = os.ReadFile(file)
		text = string(b)
	} else if at {
		text = getenv("LINERATE_LINK")
	}
	if err == nil {
		l, err = tls.ParseLinkTo(strings.TrimSpace(text), DefaultPort)
	}
	if err == nil && l.Pin == "" {
		err = tls.ErrNoPin
	}
	if err != nil {
		return tls.Link{}, fault.WithHint(fault.Usagef("--hub: %w", err), "use the whole link that linerate hub prints, or @FILE for a file with it")
	}
	return l, nil
}

func newSecret() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

// hashOf returns the hash of a secret as a link has it, "" for a damaged one.
func hashOf(text string) string {
	secret, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	return fleet.HashOf(secret)
}

// links makes the links of this hub, unless they exist and were not revoked. New ones also end all
// invitations, and the links of the other hubs.
func (h *Hub) links(ctx context.Context) error {
	if h.c.NewLinks {
		if err := errors.Join(h.store.Revoke(ctx), h.follow(ctx)); err != nil {
			return err
		}
	}
	for right, file := range linkFiles() {
		path := filepath.Join(h.c.Dir, file)
		link, _ := ParseLink("@"+path, nil)
		was := link
		k, known := h.keys[hashOf(link.Secret)]
		if link.Secret == "" || h.c.NewLinks || known && (k.Right != right || !k.Valid(h.now())) {
			link.Secret, known = newSecret(), false
		}
		if !known { // it is new, or that of Init
			if err := h.store.PutKey(ctx, fleet.Key{Hash: hashOf(link.Secret), Right: right, Expires: fleet.Endless, Left: fleet.Endless}); err != nil {
				return err
			}
		}
		link.Pin, link.Addr = h.identity.Pin(), h.address(right)
		if right == fleet.Joins {
			h.link = link.String()
		}
		if link == was {
			continue
		}
		// A link on a volume that is read-only serves as it is.
		if err := durable.Write(durable.OS{}, path, []byte(link.String()), 0o600); err != nil && (was.Secret == "" || h.c.NewLinks || !errors.Is(err, syscall.EROFS)) {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return h.follow(ctx)
}

// right returns the right of a secret as a link has it, "" for an unknown or expired one.
func (h *Hub) right(text string) fleet.Right {
	if k := h.keys[hashOf(text)]; k.Valid(h.now()) {
		return k.Right
	}
	return ""
}

// address returns the address in a link: people on this machine use its loopback address first.
func (h *Hub) address(r fleet.Right) string {
	_, port, _ := net.SplitHostPort(h.own.Addr().String())
	hosts := serve.LinkHosts("", h.own.Addr())
	if h.c.Host != "" {
		hosts = strings.Split(h.c.Host, ",")
	}
	if tcp, ok := h.own.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() && r != fleet.Joins {
		hosts = append([]string{"127.0.0.1"}, hosts...)
	}
	return tls.JoinAddrs(hosts, port)
}
