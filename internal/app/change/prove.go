package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"linerate/internal/app"
	"linerate/internal/control/runner"
	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/core/probe"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/host/canary"
)

// Way is the path MTU from a host to another.
type Way struct {
	Host     model.Host `json:"host"` // the sender
	To       string     `json:"to"`   // address or name
	Asked    int        `json:"asked"`
	Passes   int        `json:"passes"`
	Exact    bool       `json:"exact"`
	Reported bool       `json:"reported"`         // a router or host reported that a larger packet is too big
	Router   string     `json:"router,omitempty"` // address of the reporter
	MTU      int        `json:"router_mtu,omitempty"`
	Text     string     `json:"text"`
}

// Transfer is one test transfer over a new connection.
type Transfer struct {
	Direction model.Direction `json:"direction"`
	OK        bool            `json:"ok"`
	Goodput   float64         `json:"goodput,omitempty"` // bit/s; 0 if it was cut short
	Detail    string          `json:"detail"`
}

// lostCanary is an address that a host no longer reaches.
type lostCanary struct {
	end  *end
	path probe.Path
}

const (
	// pathTime bounds the search for the path MTU.
	pathTime = 6 * time.Second
	// The transfers after a change of an MTU: enough for full packets and several round
	// trips, and little for a slow link.
	transferBytes = 4 << 20
	transferTime  = 3 * time.Second
	// stallTime is how long a transfer may make no progress: many times the first
	// retransmission timeouts, 1 s before the first round trip (RFC 6298 section 2.1).
	stallTime = 2 * time.Second
	// openTime bounds the opening of a transfer's connections.
	openTime = 15 * time.Second
	// transferTries is how often to try a transfer that stalls: a black hole stalls every
	// try, a busy machine rarely two.
	transferTries = 2
)

// reachable checks that both ends still answer each other's small packets, after one of them
// was changed and before the other is.
func (c *change) reachable(ctx context.Context, changed *end) error {
	if !c.changesMTU() {
		return nil
	}
	for _, e := range c.ends {
		if !answered(e.before, e.Peer) {
			continue // it did not answer before: no conclusion
		}
		got, err := e.Client.Probe(ctx, []string{probe.SmallTo(e.Peer)}, answerTime, c.settle())
		if err != nil {
			return err
		}
		for _, r := range got {
			if !r.OK {
				return fmt.Errorf("since %s has an MTU of %d, %s does not answer %s: %s", changed.Name, changed.mtuThen(), e.Peer, e.Name, r.Detail)
			}
		}
	}
	return nil
}

// answered reports whether a target answered small packets.
func answered(results []probe.Result, target string) bool {
	return slices.ContainsFunc(results, func(r probe.Result) bool { return r.Target == target && r.OK && !r.Full })
}

// prove returns why the change must not be kept, nil if everything works as before.
func (c *change) prove(ctx context.Context) error {
	if err := c.provePaths(ctx); err != nil {
		return err
	}
	if err := c.ask(ctx, c.settle(), func(e *end, r []probe.Result) { e.after = r }); err != nil {
		return err
	}
	if err := c.lostCanaries(ctx); err != nil {
		return err
	}
	return c.transferBoth(ctx)
}

// provePaths has every end with a new MTU send packets of that size to the other end.
func (c *change) provePaths(ctx context.Context) error {
	if !c.changesMTU() {
		return nil
	}
	var bad []string
	least := mtu.Most
	for _, e := range c.ends {
		if e.wants(mtuKnob) == "" || !answered(e.before, e.Peer) {
			continue
		}
		w, _, err := c.path(ctx, e, e.Peer, c.settle())
		if err != nil {
			return err
		}
		if !w.Whole() {
			bad, least = append(bad, w.String()), min(least, w.Passes)
		}
		if w.ToMTU > 0 { // an interface often accepts a VLAN tag's length more
			least = min(least, w.ToMTU)
		}
	}
	if len(bad) > 0 && len(c.changing()) == 1 {
		return fault.WithHint(errors.New(strings.Join(bad, "; ")), "%s; --both changes both ends", fits(least))
	}
	if len(bad) > 0 {
		return fault.WithHint(errors.New(strings.Join(bad, "; ")), "%s", fits(least))
	}
	return nil
}

// path probes how large packets from a host to another may be.
func (c *change) path(ctx context.Context, e *end, to string, settle time.Duration) (mtu.Way, probe.Path, error) {
	size := e.mtuThen()
	target := probe.PathTo(to, size)
	got, err := e.Client.Probe(ctx, []string{target}, pathTime, settle)
	if err != nil {
		return mtu.Way{}, probe.Path{}, err
	}
	p, _ := probe.PathOf(got, target)
	w := mtu.Way{From: e.Name, To: to, Asked: size, Passes: p.Passes, Exact: p.Exact, Reported: p.Reported, Router: p.Router, MTU: p.MTU}
	if to == e.Peer {
		w.ToMTU = c.peerMTU(e.Side)
		if c.hosts.Far != nil {
			w.To = c.host(e.Side.Other()).Name
		}
	}
	c.paths = append(c.paths, Way{Host: e.Side, To: to, Asked: size, Passes: p.Passes, Exact: p.Exact || w.Whole(), Reported: p.Reported, Router: p.Router, MTU: p.MTU, Text: w.String()})
	return w, p, nil
}

// lostCanaries returns an error that names the canaries that no longer answer, and, where a
// new MTU may be the cause, the packet size that still passes.
func (c *change) lostCanaries(ctx context.Context) error {
	c.lost = nil
	var bad []string
	for _, e := range c.ends {
		hosts := map[string]bool{}
		for _, r := range probe.Lost(e.before, e.after) {
			bad = append(bad, fmt.Sprintf("seen from %s, since the change %s", e.Name, r))
			host := canary.Host(r.Target)
			if !c.changesMTU() || e.wants(mtuKnob) == "" || hosts[host] {
				continue
			}
			hosts[host] = true
			w, p, err := c.path(ctx, e, host, 0)
			if err != nil {
				return err
			}
			if !w.Whole() && w.Passes > 0 {
				bad = append(bad, w.String())
			}
			if host != e.Peer {
				c.lost = append(c.lost, lostCanary{e, p})
			}
		}
	}
	if len(bad) == 0 {
		return nil
	}
	err := errors.New(strings.Join(bad, "; "))
	if len(c.lost) == 0 {
		return err
	}
	return fault.WithHint(err, "%s", aroundHint(c.lost))
}

// tryTransfer tests before a change of an MTU whether transfers between the ends work at all.
func (c *change) tryTransfer(ctx context.Context) {
	if !c.changesMTU() {
		return
	}
	if c.hosts.Far == nil {
		c.untested = "the other end is not known"
		return
	}
	d := c.transfer(ctx, model.To, 64<<10)
	if c.untested = ""; !d.OK {
		c.untested = d.Detail
		c.Observe(app.Untested{Reason: d.Detail})
	}
}

// transferBoth moves data over new connections after a change of an MTU, in each
// direction: a black hole lets small packets pass, and the first full ones stall.
func (c *change) transferBoth(ctx context.Context) error {
	if !c.changesMTU() || c.untested != "" {
		return nil
	}
	for _, direction := range []model.Direction{model.To, model.From} {
		var d Transfer
		for range transferTries {
			if d = c.transfer(ctx, direction, transferBytes); d.OK || ctx.Err() != nil {
				break
			}
		}
		c.transfers = append(c.transfers, d)
		if ctx.Err() != nil {
			return errStopped
		}
		if !d.OK {
			return fmt.Errorf("a transfer from %s to %s does not work: %s", c.host(direction.Sender()).Name, c.host(direction.Receiver()).Name, d.Detail)
		}
	}
	return nil
}

// transfer moves size bytes over a new connection, for some seconds at most.
func (c *change) transfer(ctx context.Context, direction model.Direction, size units.Bytes) Transfer {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var arrived atomic.Int64 // time of the last arrival, or when the traffic began; nanoseconds
	began := time.Now()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		watchTransfer(ctx, cancel, began, &arrived)
	}()
	flow := model.Flow{Engine: "tcpbulk", Direction: direction, Streams: 1, Bytes: size, Interval: transferTime / 15}
	run, _, err := runner.New(c.hosts.Near.Client, c.hosts.Far.Client, c.Now, c.Kinds()).Run(ctx, runner.Spec{
		Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: model.Setting{Name: "transfer"}, Flow: flow,
	}, func(h model.Host, samples []model.Sample) {
		for _, m := range samples {
			if m.Metric == model.Goodput && h == direction.Receiver() && m.Value > 0 || arrived.Load() == 0 {
				arrived.Store(int64(time.Since(began)))
			}
		}
	})
	cause := context.Cause(ctx)
	cancel(nil)
	<-watching
	d := Transfer{Direction: direction}
	switch {
	case err == nil:
		d.OK = true
		d.Goodput, _ = run.Value(direction, model.Goodput)
		d.Detail = fmt.Sprintf("%s at %s", size, units.BitRate(d.Goodput))
	case errors.Is(cause, errLongTransfer):
		d.OK, d.Detail = true, cause.Error()
	case cause != nil:
		d.Detail = cause.Error()
	default:
		d.Detail = err.Error()
	}
	return d
}

// Reasons why a transfer was cut short.
var (
	errStalled      = fmt.Errorf("nothing arrived for %s: larger packets get lost (a black hole)", units.FormatDuration(stallTime))
	errLongTransfer = fmt.Errorf("data kept arriving for %s", units.FormatDuration(transferTime))
	errNoTransfer   = fmt.Errorf("no connection within %s", units.FormatDuration(openTime))
)

// watchTransfer ends a transfer that stalls, or that has run long enough.
func watchTransfer(ctx context.Context, cancel context.CancelCauseFunc, began time.Time, arrived *atomic.Int64) {
	tick := time.NewTicker(transferTime / 30)
	defer tick.Stop()
	var first time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, last := time.Since(began), time.Duration(arrived.Load())
		switch {
		case last == 0 && now > openTime:
			cancel(errNoTransfer)
		case last == 0:
		case now-last > stallTime:
			cancel(errStalled)
		case first == 0:
			first = last
		case now-first > transferTime && last > first:
			cancel(errLongTransfer)
		}
	}
}
