package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	wirefleet "linerate/internal/control/fleet"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fleet"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// operate does what an operator asks for. Nothing of it changes a setting, or goes beyond the
// limits of an owner.
func (h *Hub) operate(r *http.Request) (any, error) {
	if right, _ := h.shows(r); right != fleet.Operates {
		return nil, fmt.Errorf("%w: this link may only look; the one in %s of the hub may do that", wirefleet.ErrDenied, OperateFile)
	}
	var o fleet.Operation
	if err := wirefleet.Read(r.Body, &o); err != nil {
		return nil, err
	}
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", wirefleet.ErrInvalid, err)
	}
	return h.do(r.Context(), o)
}

// do does an operation.
func (h *Hub) do(ctx context.Context, o fleet.Operation) (fleet.Operated, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch o.Do {
	case fleet.Drain, fleet.Resume:
		return h.drain(ctx, o)
	case fleet.Remove:
		return h.remove(ctx, o)
	case fleet.Test:
		return h.test(ctx, o)
	case fleet.Invite:
		return h.invite(ctx, o)
	case fleet.Apply:
		return h.apply(ctx, o.Setup)
	}
	return fleet.Operated{}, fmt.Errorf("%w: %q is no operation of this version", wirefleet.ErrCannot, o.Do)
}

// named returns the host of that name.
func (h *Hub) named(name string) (*fleet.Host, error) {
	if one := h.host(func(one *fleet.Host) bool { return one.Name == name && !one.Removed }); one != nil {
		return one, nil
	}
	return nil, fmt.Errorf("%w: the fleet has no host %q; linerate fleet --json names them", wirefleet.ErrCannot, name)
}

// resumes is what a host does after a drain.
const resumes = " measures again"

func (h *Hub) drain(ctx context.Context, o fleet.Operation) (out fleet.Operated, err error) {
	one, err := h.named(o.Host)
	if err != nil {
		return out, err
	}
	until, text := h.now()+o.Seconds, one.Name+resumes
	switch {
	case o.Do == fleet.Resume:
		until = 0
	case o.Seconds == 0:
		until, text = fleet.Endless, fmt.Sprintf("%s measures nothing until linerate fleet resume %s", one.Name, one.Name)
	default:
		text = fmt.Sprintf("%s measures nothing until %s", one.Name, h.at(until).Format("2006-01-02 15:04"))
	}
	return h.operated(ctx, one, text, h.store.Drain(ctx, one.ID, until))
}

func (h *Hub) remove(ctx context.Context, o fleet.Operation) (out fleet.Operated, err error) {
	one, err := h.named(o.Host)
	if err != nil {
		return out, err
	}
	return h.operated(ctx, one, one.Name+" is removed", h.store.Remove(ctx, one.ID))
}

// operated has agents hear of what was stored about a host, and people.
func (h *Hub) operated(ctx context.Context, one *fleet.Host, text string, err error) (out fleet.Operated, _ error) {
	if err == nil {
		err = h.follow(ctx)
	}
	if err != nil {
		return out, fmt.Errorf("%w: %w", wirefleet.ErrLater, err)
	}
	h.wake(one.ID)
	h.alert(fleet.Alert{Kind: "operator", Subject: one.Name, Text: text})
	return fleet.Operated{Text: text}, nil
}

// test plans a look at two hosts as soon as both are free.
func (h *Hub) test(ctx context.Context, o fleet.Operation) (out fleet.Operated, err error) {
	var two [2]*fleet.Host
	now := h.now()
	for i, name := range []string{o.Host, o.Far} {
		if two[i], err = h.named(name); err != nil {
			return out, err
		}
		switch {
		case now < two[i].Drained:
			return out, fmt.Errorf("%w: %s: %s; linerate fleet resume %s ends that", wirefleet.ErrCannot, name, fleet.Drained, name)
		case !two[i].Measures(now):
			return out, fmt.Errorf("%w: %s has not been heard of since %s", wirefleet.ErrCannot, name, h.at(two[i].Seen).Format("15:04:05"))
		}
	}
	if two[0] == two[1] {
		return out, fmt.Errorf("%w: %s and %s are one host", wirefleet.ErrCannot, o.Host, o.Far)
	}
	f := h.fleetOf(now, two[0].ID, two[1].ID)
	w, err := f.Earliest(0, 1, now+soon, window, horizon)
	if err != nil {
		return out, fmt.Errorf("%w: no time in the next hour: %w", wirefleet.ErrCannot, err)
	}
	l := h.lease(two[0].ID, two[1].ID, w, rand.New(rand.NewPCG(rand.Uint64(), 0)))
	if err := h.plan(ctx, []fleet.Lease{l}); err != nil {
		return out, fmt.Errorf("%w: %w", wirefleet.ErrLater, err)
	}
	begins := "now"
	if in := time.Duration(w.From-now) * time.Second; in > soon*time.Second {
		begins = "in " + units.FormatDuration(in)
	}
	return fleet.Operated{Text: fmt.Sprintf("%s and %s measure %s, for about %d s; linerate fleet queue shows the result", o.Host, o.Far, begins, window)}, nil
}

// apply takes a setup in the place of the one before, and says what it holds for.
func (h *Hub) apply(ctx context.Context, s *fleet.Setup) (out fleet.Operated, err error) {
	if err := errors.Join(h.store.Apply(ctx, s), h.follow(ctx)); err != nil {
		return out, fmt.Errorf("%w: %w", wirefleet.ErrLater, err)
	}
	lines := []string{fmt.Sprintf("applied: %s, %s", plain.Count(len(s.Groups), "group"), plain.Count(len(s.Shared), "shared link"))}
	for _, g := range s.Groups {
		n := 0
		for _, one := range h.hosts {
			if !one.Removed && g.Has(one.Name) {
				n++
			}
		}
		lines = append(lines, strings.Join(g.Hosts, ", ")+": "+count(n, "host"))
	}
	for _, one := range h.shared() {
		line := one.String()
		if one.Pairs == 0 {
			line = one.Name + ": " + count(0, "pair")
		}
		lines = append(lines, line)
	}
	out.Text = strings.Join(lines, "\n")
	h.alert(fleet.Alert{Kind: "operator", Subject: "setup", Text: out.Text})
	return out, nil
}

// count counts what an entry of a setup holds for: no host may be a mistake in its patterns.
func count(n int, what string) string {
	if n == 0 {
		return "no " + what + " matches, now"
	}
	return plain.Count(n, what)
}

// shared returns what paths share, with how many do.
func (h *Hub) shared() (all []fleet.SharedStatus) {
	all = []fleet.SharedStatus{}
	for _, s := range h.setup.Shared {
		low, high, either := 0, 0, 0
		for _, x := range h.hosts {
			a, b := s.Ends(x.Name)
			for of, is := range map[*int]bool{&low: a, &high: b, &either: a && b} {
				if is && !x.Removed {
					*of++
				}
			}
		}
		// Two hosts that can be at either end are one pair, and not two; none is a pair with itself.
		one := fleet.SharedStatus{Name: s.Name, AtOnce: s.AtOnce, Pairs: low*high - either*(either+1)/2}
		all = append(all, one)
	}
	return all
}

// invite makes a join link that expires.
func (h *Hub) invite(ctx context.Context, o fleet.Operation) (out fleet.Operated, err error) {
	secret := newSecret()
	k := fleet.Key{Hash: hashOf(secret), Right: fleet.Joins, Expires: h.now() + o.Seconds, Left: cmp.Or(o.Uses, fleet.Endless)}
	err = h.store.PutKey(ctx, k)
	if err == nil {
		err = h.follow(ctx)
	}
	if err != nil {
		return out, fmt.Errorf("%w: %w", wirefleet.ErrLater, err)
	}
	join, err := tls.ParseLink(h.link)
	join.Secret = secret
	who := "hosts"
	if o.Uses > 0 {
		who = plain.Count(int(o.Uses), "host")
	}
	return fleet.Operated{Text: fmt.Sprintf("%s may join with it until %s", who, h.at(k.Expires).Format("2006-01-02 15:04")), Link: join.String()}, err
}
