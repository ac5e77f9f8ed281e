package member

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io/fs"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	wirefleet "linerate/internal/control/fleet"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/host/durable"
	"linerate/internal/must"
)

// TestGuard: a ticket opens this host once, in its window, for its lease, and never beside
// another run or against the owner's limits. A clock that is wrong by a day changes nothing.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		other := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		limits := fleet.Limits{Share: .1}
		g := newGuard(func() fleet.Limits { return limits })
		hub := time.Now().Add(-24 * time.Hour) // the clock of this host is ahead by a day
		at := hub.Unix()
		ticket := func(change func(*wirefleet.Ticket), by *ecdsa.PrivateKey) []byte {
			w := wirefleet.Ticket{Lease: 1, Near: 5, Far: 9, Span: fleet.Span{From: at, Until: at + 25}}
			if change != nil {
				change(&w)
			}
			return must.Get(w.Sign(by))(t)
		}
		refused := func(what, why string, b []byte) {
			t.Helper()
			k, ok := g.Find(b)
			must.True(t, !ok && k.Refusal == why, "%s opens it, or is refused because %q", what, k.Refusal)
		}
		refused("a ticket before the hub was heard of", unheard, ticket(nil, key))
		g.learn(&key.PublicKey)
		refused("a ticket before the hub told the time", "this host has not heard of its hub yet", ticket(nil, key))
		g.set(9, hub, time.Now(), time.Now().Add(10*time.Millisecond), 0)
		f := newGuard(g.limits)
		f.set(9, hub.Add(20*time.Second), time.Now(), time.Now().Add(20*time.Second), 20*time.Second)
		must.True(t, (f.left(at)-g.left(at)).Abs() < 10*time.Millisecond, "an answer that waited 20 s tells another time: %v, %v", f.left(at), g.left(at))
		refused("another signer's", "", ticket(nil, other))
		refused("one for another host", "the ticket is for another host", ticket(func(w *wirefleet.Ticket) { w.Far = 8 }, key))
		refused("one of yesterday", "the window of the ticket is not now", ticket(func(w *wirefleet.Ticket) { w.From, w.Until = at-86400, at-86375 }, key))
		refused("one of tomorrow", "the window of the ticket is not now", ticket(func(w *wirefleet.Ticket) { w.From, w.Until = at+86400, at+86425 }, key))
		refused("a window longer than the owner's share", string(fleet.UsedUp), ticket(func(w *wirefleet.Ticket) { w.Until = at + 600 }, key))
		refused("no ticket", "", nil)
		k, ok := g.Find(ticket(nil, key))
		must.Need(t, ok && !k.Tune && k.Name == "fleet:1" && k.Rate == 0, "%+v, %v", k, ok)
		refused("the same again", "the ticket was used before", ticket(nil, key))
		refused("one beside it", string(fleet.Busy), ticket(func(w *wirefleet.Ticket) { w.Lease = 2 }, key))
		must.Fail(t, g.begin(3, fleet.Span{From: at, Until: at + 25}), "an own run beside it")
		<-k.Over
		must.True(t, g.left(at+25) < 0, "it ended before its window")
		g.Ended(k.Name)
		time.Sleep(time.Minute)
		limits.Quiet = &fleet.Quiet{From: (at + 60) % 86400, Until: (at + 600) % 86400}
		now := g.now()
		refused("one in quiet hours", string(fleet.InQuiet), ticket(func(w *wirefleet.Ticket) { w.Lease, w.From, w.Until = 4, now, now+25 }, key))
		limits.Quiet, limits.Rate = nil, 2e8
		k, ok = g.Find(ticket(func(w *wirefleet.Ticket) { w.Lease, w.From, w.Until = 4, now, now+25 }, key))
		must.True(t, ok && k.Rate == 2e8 && g.rate(1e9) == 2e8 && g.rate(1e8) == 1e8, "after the first one, when the hub names no rate: %+v", k)
		limits.ProbeOnly = true
		must.Equal(t, g.rate(1e9), probeRate, "rate of TCP on a host that probes only")
		g.drain(now + 3600)
		time.Sleep(time.Minute)
		must.Say(t, g.begin(5, fleet.Span{From: now + 60, Until: now + 85}), string(fleet.Drained))
	})
}

// full is a disk without room, for as long as it is true.
type full struct {
	durable.OS
	is *bool
}

// Open implements durable.FS.
func (f full) Open(path string, flag int, mode fs.FileMode) (durable.File, error) {
	if *f.is {
		return nil, syscall.ENOSPC
	}
	return f.OS.Open(path, flag, mode)
}

// TestSpool: results stay until the hub has them, whatever ends the agent. A full disk refuses a
// lease before it begins, and keeps what is there.
func TestSpool(t *testing.T) {
	isFull := false
	s := spool{dir: t.TempDir(), files: full{is: &isFull}}
	must.Do(t, s.put(fleet.Lease{ID: 12, State: fleet.Done}))
	must.Do(t, s.put(fleet.Lease{ID: 7, State: fleet.Planned}))
	numbers := func() (all []int64) {
		for _, l := range must.Get(s.oldest(9))(t) {
			all = append(all, l.ID)
		}
		return all
	}
	must.Same(t, numbers(), []int64{12}, "while 7 is being measured")
	isFull = true
	must.Do(t, s.reclaim())
	must.Same(t, numbers(), []int64{7, 12}, "after a start on a full disk")
	must.Equal(t, must.Get(s.oldest(1))(t)[0].State, fleet.Lost, "what was being measured")
	must.True(t, errors.Is(s.put(fleet.Lease{ID: 13, State: fleet.Planned}), syscall.ENOSPC), "a full disk takes a lease")
	must.True(t, s.has(7) && !s.has(13), "has")
	must.Do(t, s.forget([]int64{7, 99}))
	must.Same(t, numbers(), []int64{12}, "after the hub has 7")
}

// TestConfirm: a confirmation measures its one stream until the runs decide, and no more than the
// hub allows.
func TestConfirm(t *testing.T) {
	rate := series.Stream{Metric: model.Goodput, Direction: model.From}
	doubt := series.Suspicion{Worse: true, Margin: .1, Reference: -20.6} // ln of 0.9 Gbit/s
	v := visit{order: wirefleet.Order{Lease: fleet.Lease{Kind: fleet.Confirm}, Stream: &rate, Doubt: &doubt, Runs: 20}}
	measure := func(of float64) (runs []model.Run) {
		for {
			b := must.Get(v.Next(t.Context(), runs))(t)
			if len(b.Settings) == 0 {
				return runs
			}
			must.True(t, b.Settings[0].Name == series.Bulk && b.Direction == model.From, "%+v", b)
			// A little noise: equal numbers would be no evidence of anything.
			v := of * (1 + .01*float64(len(runs)%3-1))
			runs = append(runs, model.Run{Setting: series.Bulk, State: model.RunValid, Flow: model.Flow{Direction: model.From}, Values: []model.Value{{Direction: model.From, Metric: model.Goodput, Value: v}}})
		}
	}
	slow := len(measure(.5e9))
	must.True(t, slow >= 3 && slow < 20, "%d runs confirm a loss of half", slow)
	must.True(t, len(measure(.9e9)) <= 20, "more runs than allowed")
}
