package hub

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	wirefleet "linerate/internal/control/fleet"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/store/sqlite"
)

// bed is a hub with agents whose traffic is simulated. Each keeps a log of its own.
type bed struct {
	t      *testing.T
	dir    string // of the hub's key
	store  *sqlite.Fleet
	hub    *Hub
	others []*Hub // on the same store; nil if it is down
	begun  []*Hub
	link   string // the hash of a join key
	env    app.Env
	ahead  time.Duration // of the database's clock, set while the hub runs
	key    *ecdsa.PublicKey
	agents map[int64]*simulated
	cut    map[fleet.Way]bool // pairs that cannot reach each other
	slow   int64              // a host that sends at 60 %
	less   [2]int64           // sender and receiver of a path that carries 60 %
	kernel string             // of that host
	rng    *rand.Rand
	stop   func()
}

// clocked is a store whose clock is set.
type clocked struct {
	Store
	ahead *time.Duration
}

func (c clocked) Clock(context.Context) (time.Time, error) { return time.Now().Add(*c.ahead), nil }

// simulated is an agent: what it measured when, from its own point of view.
type simulated struct {
	about    wirefleet.Sync
	pin      string
	log      []fleet.Span
	finished map[int64]int64 // lease: when
	orders   map[int64]wirefleet.Order
	limits   fleet.Limits
}

func newBed(t *testing.T) *bed {
	st := must.Get(sqlite.OpenFleet(t.Context(), sqlite.Memory))(t)
	b := &bed{t: t, dir: t.TempDir(), store: st, link: "of a link", agents: map[int64]*simulated{}, cut: map[fleet.Way]bool{}, kernel: "6.1", rng: rand.New(rand.NewPCG(3, 3))}
	b.env = apptest.Env(&apptest.Person{})
	t.Cleanup(func() { must.OK(t, st.Close()) })
	must.Do(t, st.PutKey(t.Context(), fleet.Key{Hash: b.link, Right: fleet.Joins, Expires: fleet.Endless, Left: fleet.Endless}))
	b.start()
	return b
}

// start starts a hub on the store, as after its process was killed.
func (b *bed) start() {
	if b.stop != nil {
		b.stop()
	}
	b.hub, b.stop = b.another()
	b.key = &b.hub.key.PublicKey
}

// another starts a hub on the store, and returns what kills it.
func (b *bed) another() (h *Hub, stop func()) {
	h = must.Get(ready(b.t.Context(), b.env, clocked{b.store, &b.ahead}, Config{Margin: DefaultMargin, Tell: func(context.Context, fleet.Alert) {}}))(b.t)
	h.key = must.Get(tls.LoadKey(b.dir))(b.t).Certificate.PrivateKey.(*ecdsa.PrivateKey)
	b.begun = append(b.begun, h)
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.work(ctx)
	}()
	return h, func() { cancel(); <-done }
}

// at returns the hub that an agent asks: each second one another, if it is up.
func (b *bed) at(s *simulated) *Hub {
	if n := len(b.others); n > 0 && len(s.pin)%(n+1) < n && b.others[len(s.pin)%(n+1)] != nil {
		return b.others[len(s.pin)%(n+1)]
	}
	return b.hub
}

// join adds an agent that takes part until the test ends.
func (b *bed) join(name string, more ...string) *simulated {
	s := &simulated{pin: "pin of " + name, finished: map[int64]int64{}, orders: map[int64]wirefleet.Order{}, limits: fleet.Limits{Share: fleet.DefaultShare}}
	s.about = wirefleet.Sync{Protocol: wirefleet.Protocol, Name: name, Boot: "boot of " + name, Addrs: []string{"10.0.0.1"}, Port: 5299, First: true}
	out := must.Get(b.sync(s))(b.t)
	b.agents[out.Host], s.about.First = s, false
	if len(more) > 0 {
		b.join(more[0], more[1:]...)
	}
	return s
}

func (b *bed) sync(s *simulated) (*wirefleet.Synced, error) {
	in := s.about
	in.Clock, in.Limits = in.Clock+time.Now().UnixNano(), s.limits
	for id := range s.orders {
		in.Have = append(in.Have, id)
	}
	return b.at(s).sync(b.t.Context(), caller{pin: s.pin, addr: "10.0.0.1", key: b.link}, &in)
}

// run lets all agents take part for a time.
func (b *bed) run(d time.Duration) {
	end := time.Now().Add(d)
	for time.Now().Before(end) {
		for _, s := range b.agents {
			s.about.First = true
			if out, err := b.sync(s); err == nil {
				b.obey(s, out)
			}
		}
		b.wait(20 * time.Second)
	}
}

// wait lets the hubs work for a time. The test may look at them before and after without a lock.
func (b *bed) wait(d time.Duration) {
	for _, h := range b.begun {
		h.mu.Lock()   // what the test has read comes before what the hub writes from here on
		h.mu.Unlock() //nolint:staticcheck // an empty section is the point
	}
	time.Sleep(d)
	synctest.Wait()
}

// obey carries out the orders of an agent whose windows have come, and delivers the results.
func (b *bed) obey(s *simulated, out *wirefleet.Synced) {
	for _, o := range out.Orders {
		s.orders[o.Lease.ID] = o
	}
	for id, o := range s.orders {
		l := o.Lease
		if l.From > time.Now().Unix() {
			continue
		}
		delete(s.orders, id)
		if _, done := s.finished[id]; done || l.Until < time.Now().Unix() {
			continue
		}
		t := must.Get(wirefleet.ReadTicket(o.Ticket, b.key))(b.t)
		must.True(b.t, t.Near == out.Host && t.Far == l.Far && t.Span == l.Span, "ticket %+v of %+v", t, l)
		l.State, l.Reason = fleet.Done, ""
		if b.cut[l.Way()] {
			l.State, l.Reason = fleet.Unreachable, "no answer"
		} else {
			s.log, b.agents[l.Far].log = append(s.log, l.Span), append(b.agents[l.Far].log, l.Span)
			l.Runs = b.measured(o)
			l.Print = fingerprint.Print{"near.kernel": "6.1", "far.kernel": "6.1"}
			switch b.slow {
			case l.Near:
				l.Print["near.kernel"] = b.kernel
			case l.Far:
				l.Print["far.kernel"] = b.kernel
			}
		}
		s.finished[l.ID] = l.From
		s.deliver(b, l)
	}
}

func (s *simulated) deliver(b *bed, l fleet.Lease) {
	for range 2 { // an answer may have been lost
		kept, err := b.at(s).push(b.t.Context(), caller{pin: s.pin}, &wirefleet.Push{Results: []fleet.Lease{l}})
		must.True(b.t, err == nil && slices.Contains(kept.Kept, l.ID), "%v, %v", kept, err)
	}
}

// measured returns the runs of an order in the simulated world: 941 Mbit/s with 3 % of noise.
func (b *bed) measured(o wirefleet.Order) (runs []fleet.Run) {
	add := func(part string, d model.Direction) {
		noise, rate, trip, loss := 1+.03*b.rng.NormFloat64(), 941e6, .01, 0.0
		sender, receiver := o.Lease.Near, o.Lease.Far
		if d == model.From {
			sender, receiver = receiver, sender
		}
		if sender == b.slow || b.less == [2]int64{sender, receiver} {
			rate *= .6
		}
		rate, trip = rate*noise, trip*noise
		r := fleet.Run{Part: part, Direction: d}
		if part == series.Bulk {
			r.Goodput = &rate
		} else {
			r.RoundTrip, r.Loss = &trip, &loss
		}
		runs = append(runs, r)
	}
	if o.Stream != nil {
		for range o.Runs {
			add(o.Stream.Part(), o.Stream.Direction)
		}
		return runs
	}
	for _, part := range []string{series.Probes, series.Bulk} {
		add(part, model.To)
		add(part, model.From)
	}
	return runs
}

// audit checks the agents' own logs against each other and against the store: no host in two runs
// at a time, and every finished lease stored once.
func (b *bed) audit() {
	stored := map[int64]int{}
	for n := (fleet.News{More: true}); n.More; {
		n = must.Get(b.store.News(b.t.Context(), n.To))(b.t)
		for _, l := range n.Leases {
			if l.Reported > 0 {
				stored[l.ID]++
			}
		}
	}
	for id, s := range b.agents {
		slices.SortFunc(s.log, func(a, b fleet.Span) int { return int(a.From - b.From) })
		for i := range len(s.log) - 1 {
			must.True(b.t, !s.log[i].Overlaps(s.log[i+1]), "host %d in two runs: %v, %v", id, s.log[i], s.log[i+1])
		}
		for lease := range s.finished {
			must.Equal(b.t, stored[lease], 1, "how often lease %d is stored", lease)
		}
	}
}

// TestFleet: five hosts measure for half a day, while the hub is killed and results come twice. A
// host that becomes slow with another kernel is reported with it, and nothing else is; a new
// process of the hub knows the same. Then a path is reported that carries less.
func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		defer func() { b.stop() }()
		b.join("desk", "nas", "pi", "vps", "mac")
		b.run(5 * time.Minute)
		s := b.hub.whole()
		must.True(t, s.Seen == 10 && len(s.Present.Goodput.All()) == 20 && len(s.Present.RoundTrip.All()) == 20, "after five minutes: %+v", s.Present)
		b.run(7 * time.Hour)
		b.start()
		b.run(2 * time.Hour)
		must.Len(t, b.hub.changes, 0, "without a change")
		must.True(t, *b.hub.status().Hosts[0].Sends > 2e9, "sends %v", b.hub.status().Hosts[0].Sends)
		b.hub.setup.Groups = []fleet.Group{{Hosts: []string{"mac", "nas"}, ProbeOnly: true}} // to two of the four others
		sends := *b.hub.status().Hosts[0].Sends
		must.True(t, sends > 1.3e9 && sends < 1.6e9, "half of the looks are probes: %v", sends)
		b.hub.setup.Groups = nil
		b.slow, b.kernel = 2, "6.2"
		began := time.Now()
		b.run(3 * time.Hour)
		b.audit()
		// Of 320 runs 75 % took half an hour, 23 % one, 2 % one and a half: each further batch is ten times rarer.
		must.Need(t, len(b.hub.changes) == 1 && b.hub.changes[0].Found.Sub(began) < 160*time.Minute, "since %v: %+v", began, b.hub.changes)
		text := strings.Join(b.hub.changes[0].Lines(), " ")
		must.Contain(t, text, "goodput from nas is worse since ")
		must.Contain(t, text, ", whichever host measures with it: ")
		must.Contain(t, text, "changed meanwhile: kernel 6.1 -> 6.2 at nas")
		must.Contain(t, fmt.Sprint(b.hub.raised), " worse ")
		const was = 1
		b.start()
		must.Equal(t, len(b.hub.changes), was, "changes that a new process knows")
		must.True(t, strings.Contains(fmt.Sprint(b.hub.raised), " worse ") && len(b.hub.alerts) == 0, "known, and not told again: %v", b.hub.raised)
		b.less = [2]int64{4, 5}
		for i := 0; i < 6 && len(b.hub.changes) == was; i++ {
			b.run(time.Hour)
		}
		must.Need(t, len(b.hub.changes) == was+1, "after a path carries less: %+v", b.hub.changes[was:])
		must.Contain(t, b.hub.changes[was].Lines()[0], "vps: goodput to mac is worse since ")
	})
}

// TestParseLink: the port of a hub's link is a hub's.
func TestParseLink(t *testing.T) {
	env := func(string) string { return " linerate://p.s@env:1\n" }
	for text, addr := range map[string]string{"linerate://p.s@a,b:1": "a:5300,b:1", "@": "env:1"} {
		must.Equal(t, must.Get(ParseLink(text, env))(t).Addr, addr, "%s", text)
	}
	for _, text := range []string{"linerate://a", "root@nas", "nas", "@" + t.TempDir()} {
		must.Fail(t, must.Err(ParseLink(text, env)), "%s", text)
	}
}

// TestCohorts: two of four hosts went from one kernel to another one; a third came to it from elsewhere,
// and a fourth always had it.
func TestCohorts(t *testing.T) {
	h, n := &Hub{halves: map[string]*half{}}, fingerprint.Kernel
	of := func(low, high int64, kernels ...string) {
		for i := 0; i < len(kernels); i += 2 {
			p := fingerprint.Print{fingerprint.Of(model.Near, n): kernels[i], fingerprint.Of(model.Far, n): kernels[i+1]}
			one := h.pair(fleet.Way{Low: low, High: high})
			c, halves := (&fleet.Lease{Near: low, Far: high, Print: p}).Split()
			for _, of := range halves {
				h.halves[of.Hash] = cmp.Or(h.halves[of.Hash], &half{of.Print})
			}
			h.printed(one, 0, c)
			must.True(t, maps.Equal(one.prints[len(one.prints)-1].print(), p), "%v", p)
		}
	}
	of(1, 2, "6.1", "6.1", "6.2", "6.1", "6.2", "6.2")
	of(2, 3, "6.1", "6.0", "6.2", "6.2")
	of(3, 4, "6.0", "6.2", "6.2", "6.2")
	must.True(t, len(h.halves) == 3, "conditions once: %v", h.halves)
	got := h.cohorts(&fleet.Outcome{Moved: map[int64]bool{1: true, 2: true, 3: false, 4: true}}, []fingerprint.Change{{Key: fingerprint.Of(model.Near, n), Was: "6.1", Now: "6.2"}})
	must.True(t, len(got) == 1 && math.Abs(got[0].P-0.5) < 1e-9 && got[0].Hosts == 2 && got[0].Moved == 2 && got[0].Others == 2 && got[0].Beside == 1, "%+v", got)
}

// TestSeveralHubs: of two hubs on one store, to which half of the hosts talk, one plans. It is
// killed, and another one started; both know the same, and report each event once.
func TestSeveralHubs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		synctest.Wait() // it plans
		second, stop := b.another()
		b.others = []*Hub{second}
		defer func() { b.stop(); stop() }()
		b.join("a", "bb", "c", "dd")
		for range 2 { // joined, and then started again at another port: the other hub knows it at once
			for id, s := range b.agents {
				s.about.Port++
				must.Do(t, must.Err(b.sync(s)))
				b.wait(2 * time.Second)
				for _, h := range []*Hub{b.hub, second} {
					must.True(t, len(h.hosts[id].Addrs) > 0 && h.hosts[id].Port == s.about.Port, "a hub knows of host %d: %+v", id, h.hosts[id])
				}
			}
		}
		b.run(3*time.Hour + 5*time.Minute)
		must.True(t, b.hub.leads > 0 && second.leads == 0, "both plan, or none: until %d, %d", b.hub.leads, second.leads)
		most := 4 * 6 / 2 * 3 // hosts, rounds, two to a look, hours
		looks := 0
		for _, l := range second.recent {
			if l.Kind == fleet.Visit && l.State == fleet.Done {
				looks++
			}
		}
		must.True(t, looks > most/2 && looks <= most+6, "%d looks in three hours, at most %d and six first ones", looks, most)

		killed, began := b.hub, len(second.recent)
		b.hub, b.others = second, nil
		b.stop() // the one that plans
		b.stop, stop = stop, func() {}
		b.wait((leading + 2) * time.Second)
		must.True(t, second.leads > killed.leads, "no hub plans")
		b.slow = 2
		b.run(2 * time.Hour)
		must.True(t, len(second.recent) > began+12, "%d looks in two hours after one hub was killed", len(second.recent)-began)
		third, stopThird := b.another()
		stop, b.others = stopThird, []*Hub{third}
		b.run(3 * time.Hour)
		must.Need(t, len(second.changes) > 0 && fmt.Sprint(second.changes) == fmt.Sprint(third.changes), "the hubs know of %d and %d changes", len(second.changes), len(third.changes))
		must.True(t, fmt.Sprint(second.whole().Present) == fmt.Sprint(third.whole().Present), "the hubs know the paths differently")
		for _, h := range []*Hub{second, third} { // whichever hub told people
			told := map[string]int{}
			for _, a := range h.raised {
				told[a.Kind]++
			}
			must.True(t, told["worse"] == len(second.changes) && told["joined"] == 4, "alerts: %v", told)
		}
		must.Do(t, must.Err(second.do(t.Context(), fleet.Operation{Do: fleet.Drain, Host: "a"})))
		b.wait(2 * time.Second)
		must.Contain(t, fmt.Sprint(third.status().Hosts), "[drained until an operator resumes it]")
		must.Do(t, must.Err(second.do(t.Context(), fleet.Operation{Do: fleet.Resume, Host: "a"})))
		setup := fleet.Setup{Shared: []fleet.Shared{{Name: "all", Between: []string{"*", "*"}, AtOnce: 1}}, Groups: []fleet.Group{{Hosts: []string{"a"}, ProbeOnly: true}}}
		must.Equal(t, must.Get(second.do(t.Context(), fleet.Operation{Do: fleet.Apply, Setup: &setup}))(t).Text, "applied: 1 group, 1 shared link\na: 1 host\nall: at most 1 of 6 pairs at a time")
		after := second.now() + 2*horizon // beyond what was planned before
		b.run(4 * time.Hour)
		var alone []fleet.Lease
		for _, l := range third.recent {
			if l.From > after {
				alone = append(alone, l)
			}
		}
		slices.SortFunc(alone, func(a, b fleet.Lease) int { return int(a.From - b.From) })
		must.True(t, len(alone) > 6, "%d looks in two hours", len(alone))
		for i, l := range alone {
			must.True(t, i == 0 || !l.Overlaps(alone[i-1].Span), "%+v overlaps the one before", l)
			must.Equal(t, l.ProbeOnly, l.Near == 1 || l.Far == 1, "probes only: %+v", l)
		}
		b.audit()
	})
}

// TestOperator: what an operator asks for is done at once, and within the limits of the owners.
func TestOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		defer func() { b.stop() }()
		a := b.join("a", "b", "c")
		b.run(5 * time.Minute)
		do := func(what fleet.Do, host, far string, seconds int64) string {
			out, err := b.hub.do(t.Context(), fleet.Operation{Do: what, Host: host, Far: far, Seconds: seconds})
			return fmt.Sprint(out.Text, err)
		}
		must.Contain(t, do(fleet.Drain, "a", "", 3*3600), "a measures nothing until ")
		out := must.Get(b.sync(a))(t)
		must.True(t, out.Drained == b.hub.now()+3*3600, "the agent hears %d", out.Drained)
		must.Contain(t, fmt.Sprint(b.hub.status().Hosts), "[drained until ")
		must.Contain(t, do(fleet.Test, "a", "b", 0), "a: it was drained")
		planned := b.hub.now() + horizon // orders that were given before
		b.run(2 * time.Hour)
		for _, l := range b.hub.recent {
			must.True(t, l.From < planned || l.Near != 1 && l.Far != 1, "a drained host is planned for: %+v", l)
		}
		must.Contain(t, do(fleet.Resume, "a", "", 0), "a measures again")
		must.Contain(t, do(fleet.Drain, "a", "", 60), "a measures nothing until ")
		b.run(2 * time.Minute)
		must.True(t, must.Get(b.sync(a))(t).Drained == 0 && b.hub.hosts[1].Drained == 0, "a minute of drain has no end")
		asked := b.hub.now()
		must.Contain(t, do(fleet.Test, "a", "b", 0), "a and b measure ")
		b.run(30 * time.Minute)
		must.True(t, slices.ContainsFunc(b.hub.recent, func(l fleet.Lease) bool {
			return l.Way() == fleet.Way{Low: 1, High: 2} && l.From >= asked && l.State == fleet.Done
		}), "no look at a and b: %+v", b.hub.recent)
		must.Contain(t, do(fleet.Test, "a", "a", 0), "one host")
		must.Contain(t, do(fleet.Drain, "x", "", 0), `no host "x"`)
		must.Contain(t, do("reboot", "a", "", 0), `"reboot" is no operation`)
		must.Contain(t, do(fleet.Remove, "c", "", 0), "c is removed")
		must.Len(t, b.hub.status().Hosts, 2, "after one was removed")
		b.audit()
	})
}

// TestBadDays: a copied disk, a clock that is wrong by a day, a clock of the hub that is set, other
// versions, a partition, a removed host.
func TestBadDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		defer func() { b.stop() }()
		a, far := b.join("a"), b.join("b")
		b.run(time.Minute)
		copied := *a
		copied.about.Boot = "of the copy"
		must.Do(t, must.Err(b.sync(&copied))) // the later start wins
		must.Is(t, must.Err(b.sync(a)), wirefleet.ErrTwin, "the one that started before")
		must.Do(t, must.Err(b.sync(&copied)))
		must.Contain(t, fmt.Sprint(b.hub.status().Hosts), "[it and 10.0.0.1 use one key; the one that started first is refused")
		a.about.Boot, a.about.Addrs = "again", []string{"10.0.0.9"}
		must.Do(t, must.Err(b.sync(a))) // it started again
		must.Is(t, must.Err(b.sync(&copied)), wirefleet.ErrTwin, "now the copy started before")
		copied.about.Boot = "again, the copy"
		must.Do(t, must.Err(b.sync(&copied)))
		must.Is(t, must.Err(b.sync(a)), wirefleet.ErrTwin, "the one that started before")
		twins := slices.DeleteFunc(slices.Clone(b.hub.raised), func(one fleet.Alert) bool { return one.Kind != "twin" })
		must.Need(t, len(twins) == 2, "one alert for each two hosts: %+v", twins)
		must.Equal(t, twins[1].Text, "a host at 10.0.0.1 and one at 10.0.0.9, 10.0.0.1 use the key of a; the one that started first is refused")
		b.agents[1] = &copied

		far.about.Clock = int64(24 * time.Hour)
		b.run(time.Minute)
		must.Contain(t, fmt.Sprint(b.hub.status().Hosts), "its clock is wrong by 24h")
		b.ahead = -24 * time.Hour // the hub's own clock is set
		b.run(time.Hour)
		must.True(t, b.hub.now() >= time.Now().Unix()-1, "the hub's time went back")
		must.True(t, b.hub.status().Hour[fleet.Done] >= 5 && b.hub.status().Hour[fleet.Lost] == 0, "%v", b.hub.status().Hour)
		b.ahead, far.about.Clock = 0, 0

		old := *far
		old.about.Protocol = 2
		must.Is(t, must.Err(b.sync(&old)), wirefleet.ErrVersion, "another protocol")

		b.cut[fleet.Way{Low: 1, High: 2}] = true
		tried := map[int64]bool{}
		b.run(2 * time.Hour)
		for _, l := range b.hub.recent {
			if l.State == fleet.Unreachable {
				tried[l.Near] = true
			}
		}
		s := b.hub.whole()
		must.True(t, s.Failed == 1 && len(s.Problems) == 1 && s.Present.Goodput[0][1] > 0 && !s.Hosts[0].Silent && !s.Hosts[1].Silent, "cut off: %+v", s)
		must.Equal(t, len(tried), 2, "ends that tried to connect")

		must.Do(t, b.store.Remove(t.Context(), 2))
		b.wait(2 * time.Second)
		must.Len(t, b.hub.status().Hosts, 1, "after one was removed")
		delete(b.agents, 2)
		b.wait((fleet.SilentAfter + 2) * time.Second)
		must.Contain(t, fmt.Sprint(b.hub.raised), " silent ")
		b.run(10 * time.Second)
		must.Contain(t, fmt.Sprint(b.hub.raised), " back ")
		b.audit()
	})
}
