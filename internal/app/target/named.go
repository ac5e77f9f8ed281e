package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/control/wire"
	"linerate/internal/control/wire/mdns"
	"linerate/internal/control/wire/ssh"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// The user can name a server without its link. linerate then looks for the name on the local
// network, or else resolves it, and trusts the pin that the server showed the first time, as
// ssh does with host keys. It sends the server no secret, as there is none.

// lookFor is how long to wait for a multicast answer to a name.
const lookFor = 2500 * time.Millisecond

// mdnsVariable, set to "off", turns off the search on the local network.
const mdnsVariable = "LINERATE_MDNS"

// errPinChanged reports that a server has another key than before.
var errPinChanged = fmt.Errorf("%w that was there before", tls.ErrPin)

// dialNamed connects to a server that was named without a link.
func (o *Opener) dialNamed(ctx context.Context, t Target, from model.Egress) (wire.Peer, error) {
	n, err := note(o.env.Getenv, knownFile)
	if err != nil {
		return wire.Peer{}, fault.New(fault.Unreachable, err, "use the join link of %s, or set %s", t.Named, configVariable)
	}
	known, err := n.of(t.Named)
	if err != nil {
		return wire.Peer{}, err
	}
	link, err := o.find(ctx, t, known, n.path)
	if err != nil {
		return wire.Peer{}, err
	}
	p, err := tls.Dial(ctx, link, from)
	if err := otherFamily(link.Addr, from, err); err != nil {
		return p, err
	}
	if errors.Is(err, tls.ErrPin) && len(known) > 0 {
		if shown, perr := tls.Pin(ctx, link.Addrs()[0]); perr == nil {
			return p, changed(t.Named, known, []string{shown}, n.path)
		}
	}
	if err != nil {
		return p, o.notThere(ctx, t, err)
	}
	if len(known) == 0 {
		o.mu.Lock() // several hosts may be met at the same time
		err := n.set(t.Named, link.Pin)
		o.mu.Unlock()
		if err != nil {
			_ = p.Control.Close()
			return wire.Peer{}, fault.WithHint(err, "use the join link of %s, or set %s to a folder of yours", t.Named, configVariable)
		}
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s (%s) is known from now on by its pin %s: the host that answered to that name this time is trusted to measure (%s)",
			t.Named, link.Addr, link.Pin, n.path))
	}
	return p, nil
}

// find returns the link of the server that t names: with the known pin, or, if none is known,
// with the one that the server shows now.
func (o *Opener) find(ctx context.Context, t Target, known []string, file string) (tls.Link, error) {
	host, port, err := net.SplitHostPort(t.Link.Addr)
	if err != nil {
		return tls.Link{}, err
	}
	if _, err := netip.ParseAddr(host); err != nil && o.env.Getenv(mdnsVariable) != "off" && t.Named == strings.ToLower(host) && mdns.Label(host) != "" {
		link, err := o.onNetwork(ctx, mdns.Label(t.Named), t.Named, known, file)
		if err != nil || link.Pin != "" {
			return link, err
		}
	}
	link := tls.Link{Addr: net.JoinHostPort(host, port)}
	if len(known) > 0 {
		link.Pin = known[0]
		return link, nil
	}
	if link.Pin, err = tls.Pin(ctx, link.Addr); err != nil {
		return link, o.notThere(ctx, t, err)
	}
	return link, nil
}

// onNetwork looks for a server on the local network; its pin is "" if there is none. Any host
// there can claim any name: of several that claim this one, onNetwork takes the one with a
// known pin, and if no pin is known it returns an error.
func (o *Opener) onNetwork(ctx context.Context, name, named string, known []string, file string) (tls.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	found, err := o.lookup(ctx, name)
	if err != nil || len(found) == 0 {
		return tls.Link{}, nil // ordinary name resolution may find it
	}
	var pins, addrs []string
	for _, s := range found {
		pins = lists.Once(pins, s.Pin)
	}
	link := tls.Link{Pin: pins[0]}
	switch i := slices.IndexFunc(pins, func(p string) bool { return slices.Contains(known, p) }); {
	case i >= 0:
		link.Pin = pins[i]
	case len(known) > 0:
		return link, changed(named, known, pins, file)
	case len(pins) > 1:
		return link, fault.New(fault.Unreachable, fmt.Errorf("%d servers on this network say that they are %s, with the pins %s",
			len(pins), named, strings.Join(pins, ", ")), "use the join link that the right one prints: linerate serve link")
	}
	// Try link-local addresses last.
	slices.SortStableFunc(found, func(a, b mdns.Server) int {
		return boolInt(a.Addr.IsLinkLocalUnicast()) - boolInt(b.Addr.IsLinkLocalUnicast())
	})
	for _, s := range found {
		if s.Pin == link.Pin {
			addrs = append(addrs, net.JoinHostPort(s.Addr.String(), strconv.Itoa(s.Port)))
		}
	}
	link.Addr = strings.Join(addrs, ",")
	return link, nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// changed returns the error for a server whose pin has changed.
func changed(named string, known, shown []string, file string) error {
	return fault.New(fault.Unreachable, fmt.Errorf("%s: %w: its pin was %s and is %s now: another host may answer in its place",
		named, errPinChanged, strings.Join(known, " or "), strings.Join(shown, " or ")),
		"ask who runs it whether its state was made anew; if so, remove its line from %s,\nor use the join link that it prints now", file)
}

// notThere returns the error for a name that leads nowhere, with the ssh spelling if ssh's
// configuration knows the name.
func (o *Opener) notThere(ctx context.Context, t Target, err error) error {
	if errors.Is(err, tls.ErrPin) {
		return fault.WithKind(fault.Unreachable, err)
	}
	host := hostOf(t.Link.Addr)
	if is := ssh.Alias(context.WithoutCancel(ctx), strings.Fields(o.env.Getenv("LINERATE_SSH")), host); is != "" {
		return fault.New(fault.Unreachable, fmt.Errorf("no linerate serve answers to %s, a name that only ssh's configuration knows (%s)", t.Named, is),
			"reach it over ssh: ssh://%s", host)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		why := ""
		if !dns.IsNotFound {
			why = " (" + dns.Err + ")"
		}
		err = fmt.Errorf("no linerate serve on this network says that it is %s, and that name has no address%s", t.Named, why)
	} else {
		err = plainDial(t.Link.Addr, err)
	}
	return fault.New(fault.Unreachable, err, "start linerate serve --open there, or use the join link that linerate serve prints there;\nor reach it over ssh: ssh://%s", host)
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
