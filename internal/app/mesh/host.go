package mesh

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// host is a host of a mesh with its sessions. An agent is either near or far for the whole of
// a session, while a host is near in some pairs and far in others.
type host struct {
	Host
	name  string
	facts model.HostFacts
	gone  error // why it takes no part, or no longer does
	open  [2]*session.Client
}

func place(side model.Host) int {
	if side == model.Near {
		return 0
	}
	return 1
}

// session returns the host's session as an end, and opens it if it is not open or was lost. A
// host that cannot be reached takes no part from then on.
func (h *host) session(ctx context.Context, m *mesh, side model.Host) (*session.Client, error) {
	c := &h.open[place(side)]
	if *c != nil || h.gone != nil {
		return *c, h.gone
	}
	var err error
	if *c, err = m.opener.Alone(ctx, h.Target, side); err != nil && ctx.Err() == nil {
		h.gone = err
		m.env.Observe(app.Warning{Text: fmt.Sprintf("%s takes no part: %s", h.name, fault.Sentence(err))})
	}
	return *c, err
}

// drop closes a session that may no longer be usable.
func (h *host) drop(env app.Env, side model.Host) {
	if c := &h.open[place(side)]; *c != nil {
		env.HangUp(*c)
		*c = nil
	}
}

// stored returns the host as the session stores it.
func (h *host) stored() model.MeshHost {
	s := model.MeshHost{Name: h.name, Target: h.Target.Text, System: h.facts.OS, Kernel: h.facts.Kernel, Address: h.facts.Address, MTU: h.facts.MTU, Link: h.facts.LinkRate}
	if h.gone != nil {
		s.Problem = h.gone.Error()
	}
	return s
}

// open opens the sessions with all hosts in parallel, and reads their facts.
func (m *mesh) open(ctx context.Context) {
	for i, name := range m.names() {
		m.hosts = append(m.hosts, &host{Host: m.Hosts[i], name: name})
	}
	var all sync.WaitGroup
	var typing sync.Mutex // ssh may ask the user for a password
	for i, h := range m.hosts {
		all.Go(func() {
			if h.Target.Kind == target.SSH {
				typing.Lock()
				defer typing.Unlock()
			}
			if i < len(m.hosts)-1 { // the last host is near in no pair, the first one far in none
				_, _ = h.session(ctx, m, model.Near) // the error is in gone
			}
			if i > 0 && h.gone == nil {
				_, _ = h.session(ctx, m, model.Far)
			}
		})
	}
	all.Wait()
	m.read(ctx)
	m.unique()
}

// read asks each host for its facts on the path to another one.
func (m *mesh) read(ctx context.Context) {
	var all sync.WaitGroup
	here := ""
	for i, h := range m.hosts {
		c := h.open[0]
		if c == nil {
			c = h.open[1]
		}
		if c == nil {
			continue
		}
		peer := here
		for _, o := range m.hosts {
			if far := o.open[1]; o != h && far != nil && peer == "" {
				peer = far.DataHost()
			}
		}
		read := func() {
			facts, err := c.Facts(ctx, peer)
			if err != nil {
				return // go on without facts: a run that fails says why
			}
			if h.facts = facts; h.facts.Address == "" {
				h.facts.Address = c.DataHost()
			}
			if h.Target.Kind == target.Here && h.Name == "" && facts.Name != "" {
				h.name = facts.Name
			}
		}
		if i > 0 {
			all.Go(read)
			continue
		}
		read() // its address is the peer of all others
		if here = h.facts.Address; here == "" {
			here = c.DataHost()
		}
	}
	all.Wait()
}

// unique makes the names of hosts unique.
func (m *mesh) unique() {
	for i, h := range m.hosts {
		name := h.name
		for n := 2; slices.ContainsFunc(m.hosts[:i], func(o *host) bool { return o.name == h.name }); n++ {
			h.name = fmt.Sprintf("%s (%d)", name, n)
		}
	}
}

// hangUp closes all sessions in parallel.
func (m *mesh) hangUp() {
	var all sync.WaitGroup
	for _, h := range m.hosts {
		for _, side := range []model.Host{model.Near, model.Far} {
			all.Go(func() { h.drop(m.env, side) })
		}
	}
	all.Wait()
}
