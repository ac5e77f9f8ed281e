package check

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/core/fact"
	"linerate/internal/core/health"
	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/core/probe"
	"linerate/internal/fault"
	"linerate/internal/host/canary"
	"linerate/internal/host/path"
)

// elsewhere is an address to look up the default route with; nothing is sent to it
// (TEST-NET-3, RFC 5737).
const elsewhere = "203.0.113.1"

// How long to watch a machine's counters, and how to probe its gateway.
const (
	watchTime   = 3 * time.Second
	gatewayTime = 2 * time.Second
	gatewayAsks = 5
)

// Alone checks this machine and its gateway, and changes nothing. If it finds a problem, its
// error is of kind fault.Found.
func Alone(ctx context.Context, env app.Env) (health.Machine, error) {
	this := local.New(env, local.Options{})
	f, err := this.WayOut(ctx)
	if err == nil && f.Route != nil && f.Route.Gateway.Or("") == "" { // a lab may be built of these very addresses
		f, err = this.Facts(ctx, elsewhere)
	}
	if err != nil {
		return health.Machine{}, err
	}
	return machine(ctx, env, f)
}

// machine checks the machine whose facts are f.
func machine(ctx context.Context, env app.Env, f model.HostFacts) (health.Machine, error) {
	f.Host = model.Near
	m := health.Machine{Facts: f, Over: watchTime, RTT: fact.Unknown[time.Duration]("no gateway"), Boot: fact.Unknown[health.Errors]("no interface leads out"), Lately: fact.Unknown[health.Errors]("no interface leads out")}
	name, known := f.Interface.Get()
	var before health.Errors
	if known {
		m.Boot = path.Totals(name)
		before = m.Boot.Or(before)
	}
	env.Observe(app.Looking{At: "this machine and its gateway"})
	began := time.Now()
	if f.Route != nil && known {
		m.Gateway = f.Route.Gateway.Or("")
	}
	if m.Gateway != "" {
		m.RTT, m.Way = gateway(ctx, m.Gateway, cmp.Or(f.Route.MTU.Or(0), f.MTU.Or(0), mtu.Least))
	}
	if err := pause(ctx, watchTime-time.Since(began)); err != nil {
		return m, err
	}
	m.Over = time.Since(began).Round(100 * time.Millisecond)
	if known {
		after := path.Totals(name)
		m.Lately = after
		if v, ok := after.Get(); ok {
			m.Lately = fact.Known(health.Errors{Packets: v.Packets - before.Packets, Broken: v.Broken - before.Broken, Dropped: v.Dropped - before.Dropped}, after.Source())
		}
	}
	var bad []string
	for _, l := range m.Lines() {
		if l.State == health.Poor || l.State == health.Bad {
			bad = append(bad, l.Thing+" "+string(l.State))
		}
	}
	if len(bad) > 0 {
		return m, fault.WithKind(fault.Found, errors.New("found: "+strings.Join(bad, ", ")))
	}
	return m, nil
}

// gateway probes a router with small packets and with packets up to size.
func gateway(ctx context.Context, address string, size int) (fact.Of[time.Duration], model.Way) {
	rtt := fact.Unknown[time.Duration]("no answer in time")
	for range gatewayAsks {
		began := time.Now()
		got := canary.Probe(ctx, probe.SmallTo(address), gatewayTime, 0)
		took := time.Since(began)
		if len(got) != 1 || !got[0].OK {
			break
		}
		if best, ok := rtt.Get(); !ok || took < best {
			rtt = fact.Known(took, got[0].Detail)
		}
	}
	w := model.Way{Direction: model.To, Asked: min(size, mtu.Most), Passes: fact.Unknown[int]("not asked: " + rtt.Reason())}
	if rtt.IsKnown() {
		target := probe.PathTo(address, w.Asked)
		w = wayOf(w, canary.Probe(ctx, target, wayTime, 0), target)
	}
	return rtt, w
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(max(0, d))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
