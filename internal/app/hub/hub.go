// Package hub plans which hosts of a fleet measure with each other and when, takes their results,
// and tells what has changed. It orders measurements and nothing else. All its state is in its
// store; a hub that is started again goes on.
package hub

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/app/serve"
	"linerate/internal/control/agent"
	wirefleet "linerate/internal/control/fleet"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/fault"
	"linerate/internal/host/sandbox"
)

// Store is what the hubs of a fleet keep. A call either takes effect as a whole or not at all, and
// News tells every hub of it, in one order; see tables.Fleet.
type Store interface {
	Clock(ctx context.Context) (time.Time, error)
	Claim(ctx context.Context, pin string, anew bool) (is string, err error)
	Lead(ctx context.Context, hub string, now, until int64) (leads bool, err error)
	News(ctx context.Context, since fleet.Mark) (fleet.News, error)
	Join(ctx context.Context, h *fleet.Host, key string, now int64) error
	PutHosts(ctx context.Context, hosts ...*fleet.Host) error
	Remove(ctx context.Context, host int64) error
	Drain(ctx context.Context, host, until int64) error
	Apply(ctx context.Context, s *fleet.Setup) error
	PutKey(ctx context.Context, k fleet.Key) error
	PutAlert(ctx context.Context, a *fleet.Alert) error
	Revoke(ctx context.Context) error
	Plan(ctx context.Context, leases []fleet.Lease) (planned int, err error)
	Finish(ctx context.Context, near, now int64, results []fleet.Lease) (fresh []int64, err error)
	Forget(ctx context.Context, before int64) error
}

// Defaults of a hub (fleet.md section 4; all (p)).
const (
	DefaultPort   = "5300"
	DefaultRounds = 6    // an hour
	MostHosts     = 50   // with SQLite
	MostOnServer  = 1000 // with PostgreSQL
	DefaultMargin = 0.0953101798

	window    = fleet.Window     // s, of a look
	settle    = 150              // s, of a confirmation
	soon      = 5                // s, to the next possible window: its ticket has to arrive
	horizon   = 3600             // s, planned ahead: agents go on without a hub for so long
	filling   = 20               // hosts a second, for which gaps in the plan are filled: a thousand have half a million pairs
	gathering = 600              // s, after a host joins, in which one round is planned ahead
	grace     = 120              // s, after a window, until a result counts as lost
	kept      = 28 * 24 * 3600   // s, as long as a reference uses them
	patient   = 25 * time.Second // that an agent waits for news
	every     = time.Second      // between two looks at what is due
	noted     = 60               // s, between two writes of when hosts were seen, and two looks at the clock
	leading   = 15               // s, after which another hub plans in the place of one that is silent
	drift     = 5 * time.Second  // a larger difference means that a clock was set
	astray    = 300              // s, from which a host's clock is called wrong
	shown     = 50               // entries of a list
	hour      = 3600             // s
)

// Config says how a hub works.
type Config struct {
	Dir      string // of its files; see Dir
	Listen   string
	Host     string // name or address in its links; "" is what LinkHosts finds
	NewLinks bool   // makes new join and view links, and revokes those before
	Most     int    // hosts; 0 is MostHosts
	Rounds   int    // an hour
	Margin   float64
	User     string                               // to become, of root
	Metrics  string                               // address of the metrics; "" for none
	Measured func(io.Writer, *fleet.Status) error // writes the metrics as OpenMetrics
	Tell     func(context.Context, fleet.Alert)
}

// Dir returns the directory of the hub's files below a state directory; "" is the system's.
func Dir(state string) (string, error) {
	dir, err := local.StateDir(state)
	if err != nil {
		return "", err
	}
	dir, err = filepath.Abs(filepath.Join(dir, hubDir))
	return dir, errors.Join(err, os.MkdirAll(dir, 0o700))
}

// Hub is an open hub.
type Hub struct {
	env      app.Env
	c        Config
	store    Store
	id       string            // random
	key      *ecdsa.PrivateKey // signs tickets; its pin is in the links
	own      *tls.Server
	metrics  net.Listener // nil if not requested
	identity tls.Identity
	link     string // with which hosts join
	alerts   chan fleet.Alert

	mu      sync.Mutex
	base    time.Time // with its monotonic clock: the hub's time goes on whatever this machine's clock says
	wall    time.Time // the time of the database at base
	asked   int64     // when the database was asked for it
	mark    fleet.Mark
	keys    map[string]fleet.Key
	setup   fleet.Setup
	leads   int64                   // until when this hub plans
	mine    map[int64]bool          // results that this hub has stored and not taken yet
	news    map[int64]chan struct{} // of each host that waits: closed when it may have new orders
	hosts   map[int64]*fleet.Host
	dirty   map[int64]bool // hosts to be stored
	silent  map[int64]bool
	orders  map[int64]map[int64]*fleet.Lease // leases without a result, by their near host
	taken   map[int64][]fleet.Span           // by resource, of which the hosts are the first
	paths   fleet.Paths
	pairs   fleet.Grid[pair]
	halves  map[string]*half // the conditions that hosts have had, by their hash
	planned int64            // the rounds before this time are
	round   int64
	windows []fleet.Span // of rounds to come
	joined  bool         // a host has come since they were planned
	filled  int64        // when gaps were filled last
	stored  int64        // when hosts were stored
	swept   int64        // when old results were removed
	recent  []fleet.Lease
	changes []fleet.Change
	raised  []fleet.Alert
	fault   error // of the store, since the last call that worked
	refused error // why the newest results were not stored
}

// pair is what is known of two hosts together beside their path.
type pair struct {
	last    int64          // when they measured
	next    int64          // when that was planned for last
	now     series.Numbers // at present, in base units
	tried   bool
	problem *problem // of the last look; nil if it counts
	prints  []printed
}

// problem is why a look does not count.
type problem struct {
	text    string
	blocked int64 // the host that could not connect to the other one
}

// pair returns what is known of two hosts.
func (h *Hub) pair(way fleet.Way) *pair {
	p := h.pairs.Get(way)
	if p == nil {
		p = &pair{}
		h.pairs.Put(way, p)
	}
	return p
}

// between returns a copy of what is known of two hosts. Plans ask for all of them, most of which have
// not measured with each other.
func (h *Hub) between(way fleet.Way) pair {
	if p := h.pairs.Get(way); p != nil {
		return *p
	}
	return pair{}
}

// ready returns a hub that has read its store, without a port.
func ready(ctx context.Context, env app.Env, st Store, c Config) (*Hub, error) {
	c.Most = cmp.Or(c.Most, MostHosts)
	h := &Hub{
		env: env, c: c, store: st, id: fmt.Sprint(rand.Uint64()), alerts: make(chan fleet.Alert, 100), news: map[int64]chan struct{}{},
		hosts: map[int64]*fleet.Host{}, dirty: map[int64]bool{}, silent: map[int64]bool{}, orders: map[int64]map[int64]*fleet.Lease{}, taken: map[int64][]fleet.Span{},
		keys: map[string]fleet.Key{}, mine: map[int64]bool{}, paths: fleet.Paths{Margin: c.Margin, Zone: env.Now().Location()}, round: 3600 / int64(cmp.Or(c.Rounds, DefaultRounds)),
		halves: map[string]*half{},
	}
	at, err := st.Clock(ctx)
	h.base, h.wall, h.asked = time.Now(), at, at.Unix()
	if err == nil {
		err = h.load(ctx)
	}
	return h, fault.WithKind(fault.Store, err)
}

// Open opens the hub's port and reads its store.
func Open(ctx context.Context, env app.Env, st Store, c Config) (_ *Hub, err error) {
	h, err := ready(ctx, env, st, c)
	if err != nil {
		return nil, err
	}
	if h.identity, err = tls.LoadKey(c.Dir); err != nil {
		return nil, err
	}
	key, ok := h.identity.Certificate.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds no key that signs tickets", c.Dir)
	}
	h.key = key
	pin, err := st.Claim(ctx, h.identity.Pin(), c.NewLinks)
	if err != nil {
		return nil, fault.WithKind(fault.Store, err)
	}
	if pin != h.identity.Pin() {
		return nil, fault.New(fault.Usage, fmt.Errorf("the hosts in this database know their hub by another key than the one in %s", c.Dir),
			"copy the directory of the hub that uses it to %s; if its key is lost, --new-links makes this hub the one, and all hosts have to join again", c.Dir)
	}
	h.own, err = tls.Listen(ctx, c.Listen, tls.Config{
		Identity: h.identity, Find: func([]byte) (tls.Key, bool) { return tls.Key{}, false }, Agent: agent.Config{Version: env.Version, Catalogue: env.Catalogue}, Web: h.handler(), Log: h.say,
	})
	if err != nil {
		return nil, fault.WithHint(err, "use --listen ADDRESS:PORT for another address or port")
	}
	if c.Metrics != "" {
		h.metrics, err = serve.ListenMetrics(ctx, c.Metrics)
	}
	if err = cmp.Or(err, errors.Join(h.links(ctx), h.become())); err != nil {
		_ = h.own.Close()
		return nil, err
	}
	return h, nil
}

// become gives up root.
func (h *Hub) become() error {
	if !sandbox.IsRoot() {
		return nil
	}
	u, err := sandbox.Choose(h.c.User, h.c.Dir)
	if h.c.User == "" && (errors.Is(err, sandbox.ErrNoOtherUser) || errors.Is(err, errors.ErrUnsupported)) {
		return nil
	}
	if err != nil {
		return fault.New(fault.Usage, err, "name a user without rights: --user NAME")
	}
	if err := serve.Give(h.c.Dir, u); err != nil {
		return err
	}
	// SQLite opens its files by their full paths: the folders above let u pass.
	if err := errors.Join(os.Chmod(filepath.Dir(h.c.Dir), 0o711), h.own.GiveTo(u.UID, u.GID), sandbox.Drop(u)); err != nil {
		return fault.WithHint(err, "start the hub as that user, or name another: --user NAME")
	}
	h.say("runs as " + u.String())
	return nil
}

// Link returns the link with which hosts join.
func (h *Hub) Link() string { return h.link }

// Addr returns the address that the hub listens on.
func (h *Hub) Addr() net.Addr { return h.own.Addr() }

// MetricsAddr returns the address of the metrics; "" if there are none.
func (h *Hub) MetricsAddr() string {
	if h.metrics == nil {
		return ""
	}
	return h.metrics.Addr().String()
}

func (h *Hub) say(line string) { h.env.Observe(app.Serving{Line: line}) }

// now returns the hub's time, in seconds since 1970.
func (h *Hub) now() int64 { return h.clock().Unix() }

func (h *Hub) clock() time.Time { return h.wall.Add(time.Since(h.base)) }

// Run answers agents and people until ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	if h.metrics != nil { // a failure does not end the hub
		all.Go(func() {
			err := serve.Metrics(ctx, h.metrics, func(w io.Writer, _ bool) { // one text for both formats: it has gauges alone
				s := h.whole()
				_ = h.c.Measured(w, &s) // a client that is gone does not need it
			})
			if err != nil {
				h.env.Observe(app.Trouble{Err: err})
			}
		})
	}
	all.Go(func() { h.work(ctx) })
	all.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case a := <-h.alerts:
				h.c.Tell(ctx, a)
			}
		}
	})
	err := h.own.Serve(ctx)
	cancel()
	all.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	err = errors.Join(err, h.putHosts(ctx), h.putAlerts(ctx))
	if h.leads > 0 { // the next hub need not wait; it does if this fails
		_, _ = h.store.Lead(ctx, h.id, h.now(), 0)
	}
	return err
}

// open yields the leases without a result.
func (h *Hub) open() iter.Seq[*fleet.Lease] {
	return func(yield func(*fleet.Lease) bool) {
		for _, of := range h.orders {
			for _, l := range of {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// order returns the message of an open lease for its near host, and false if it is for another.
func (h *Hub) order(l *fleet.Lease, near *fleet.Host) (wirefleet.Order, bool) {
	far := h.hosts[l.Far]
	if l.Near != near.ID || far == nil || far.Removed {
		return wirefleet.Order{}, false
	}
	o := wirefleet.Order{Lease: *l, Far: far.Name, Addr: tls.JoinAddrs(far.Addrs, fmt.Sprint(far.Port)), Pin: far.Pin}
	for _, r := range []fleet.Limits{h.setup.Limits(near), h.setup.Limits(far)} {
		if r.Rate > 0 && (o.Rate == 0 || r.Rate < o.Rate) {
			o.Rate = r.Rate
		}
	}
	if l.Kind == fleet.Confirm {
		d := h.paths.Doubts[l.Look]
		if d == nil {
			return o, false
		}
		stream, doubt := d.Stream, d.Suspicion
		if l.Near > l.Far {
			stream.Direction = fleet.Turned(stream.Direction)
		}
		o.Stream, o.Doubt, o.Runs = &stream, &doubt, d.Most()
	}
	ticket, err := wirefleet.Ticket{Lease: l.ID, Near: l.Near, Far: l.Far, Span: l.Span, Confirm: l.Kind == fleet.Confirm, Rate: o.Rate}.Sign(h.key)
	o.Ticket = ticket
	return o, err == nil
}
