package peer

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/program"
	"linerate/internal/measure/udpstp"
)

// test is the shared state of the flows of one client's test.
type test struct {
	share *budget.Share
	port  uint16 // of the first flow
	key   string
	began time.Time
	spec  udpstp.Activation

	mu    sync.Mutex // guards what follows; flows and open also need the server's
	tally *tally
	flows []*flow
	taken map[uint8]bool // by index
	open  int
	err   error
}

// join takes a flow's resources from the budget, and adds it to its test, which the first flow
// creates. It sets in a what both ends agree on. Call done with the result of the flow.
func (s *server) join(n *newcomer, a *udpstp.Activation, from netip.AddrPort) (t *test, one *flow, done func(error), err error) {
	id := testID{plain(from.Addr()), n.Ident, a.Upstream}
	s.mu.Lock()
	defer s.mu.Unlock()
	t = s.tests[id]
	first := t == nil
	if first {
		t = &test{port: from.Port(), key: n.who(), began: time.Now(), taken: map[uint8]bool{}}
		if t.share, err = s.Budget.Open(id.from, t.key); err != nil {
			return nil, nil, nil, err
		}
	}
	if t.taken[n.Index] {
		return nil, nil, nil, fmt.Errorf("flow %d is there already", n.Index)
	}
	row, most := n.limit(t.share.Limits())
	give, err := t.share.Take(budget.Amounts{Descriptors: 1, Memory: flowMemory, UDP: most})
	if err != nil {
		if first {
			t.share.Close()
		}
		return nil, nil, nil, err
	}
	one = s.flow(n, a, from, row)
	one.most = float64(most)
	if first {
		t.spec = one.of
		s.start(id, t, int(n.Count))
	}
	one.charge = t.meter(first)
	one.ended = func(sub udpstp.SubInterval, sent amount) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if int(n.Index) < len(t.tally.flows) {
			t.tally.add(int(n.Index), sub, sent)
		}
	}
	t.taken[n.Index] = true
	t.flows = append(t.flows, one)
	t.open++
	return t, one, func(err error) { give(); s.leave(id, t, err) }, nil
}

// flow returns the flow of n, limited to a row of the table. It sets in a what both ends agree
// on.
func (s *server) flow(n *newcomer, a *udpstp.Activation, from netip.AddrPort, row int) *flow {
	length := udpstp.MaxLength
	if n.who() == "" {
		length = budget.AnonymousRun().Time
	}
	agreed := a.Policed(length, row)
	agreed.Mode = n.Authenticated
	one := &flow{conn: n.conn, peer: from, version: n.Version, of: agreed, jumbo: n.Jumbo, regular: n.Traditional, search: udpstp.NewSearch(agreed, row), patience: s.patience}
	one.load.rate = one.next()
	if *a = agreed; a.Upstream {
		a.Rate = one.next()
		one.load.proved = true // it gets status PDUs only
	}
	return one
}

// start begins a test of that many flows.
func (s *server) start(id testID, t *test, flows int) {
	d := model.From
	if id.upstream {
		d = model.To
	}
	t.tally = newTally(d, id.from.Is6(), 0, flows, func(list []model.Sample) {
		if s.Sampled != nil {
			s.Sampled(netip.AddrPortFrom(id.from, t.port), list)
		}
	})
	s.tests[id] = t
	s.Tell(program.Event{Test: t.result(id.from), Port: t.port, Began: true})
}

// meter charges what a flow sends and, for the first one, its time.
func (t *test) meter(first bool) func(sent int64, took time.Duration) error {
	var paid int64
	var used time.Duration
	return func(sent int64, took time.Duration) error {
		err := t.share.Spend(units.Bytes(sent - paid))
		if paid = sent; first {
			err = errors.Join(err, t.share.Use(took-used))
			used = took
		}
		return err
	}
}

// leave ends a flow, and with the last one the test.
func (s *server) leave(id testID, t *test, err error) {
	s.mu.Lock()
	if t.err == nil {
		t.err = err
	}
	t.open--
	over := t.open == 0
	if over {
		delete(s.tests, id)
	}
	s.mu.Unlock()
	if !over {
		return
	}
	t.share.Close()
	r := t.result(id.from)
	if t.err != nil {
		r.Err = t.err
	}
	r.Took = time.Since(t.began)
	t.mu.Lock()
	got, values := t.tally.received(leastRTT(t.flows))
	sent := t.tally.sent()
	t.mu.Unlock()
	if id.upstream {
		r.Ends = []model.EndReport{{Host: model.Far, Flows: []model.FlowReport{got}, Values: values}}
	} else {
		r.Ends = []model.EndReport{
			{Host: model.Far, Flows: []model.FlowReport{sent}},
			{Host: model.Near, Flows: []model.FlowReport{got}, Values: values},
		}
	}
	s.Keep(r)
	s.Tell(program.Event{Test: r, Port: t.port, Began: true, Over: true})
}

// result returns the test without its measurements.
func (t *test) result(from netip.Addr) program.Test {
	return program.Test{From: from, Key: t.key, Flow: model.Flow{
		Engine: Name, Direction: t.tally.direction, Streams: max(len(t.flows), 1), Duration: t.spec.Length, Interval: t.spec.Period,
	}}
}
