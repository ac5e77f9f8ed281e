package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
)

// Peer is a foreign program at the far end. It measures with this host, but it reports no
// facts and cannot be changed.
type Peer interface {
	// Run does one flow and returns the reports of both ends, the far one as far as its
	// protocol provides it. emit is called from one goroutine at a time.
	Run(ctx context.Context, f model.Flow, emit func([]model.Sample)) (near, far model.EndReport, err error)
}

// Alone does runs between this host and a foreign peer, one at a time. It changes neither
// host: only settings of the flow can be tried.
type Alone struct {
	Peer  Peer
	Name  string // of the peer, in messages
	Now   func() time.Time
	Kinds traffic.Kinds // judge the runs
	busy  sync.Mutex
}

// Run does one run, like Runner.Run.
func (r *Alone) Run(ctx context.Context, s Spec, emit func(model.Host, []model.Sample)) (model.Run, []model.Change, error) {
	r.busy.Lock()
	defer r.busy.Unlock()
	a := &attempt{run: model.Run{
		Number: s.Number, Block: s.Block, Position: s.Position, Attempt: s.Attempt,
		Setting: s.Setting.Name, Flow: s.Flow, Started: r.Now(), State: model.RunPlanned,
	}}
	a.Runner = &Runner{now: r.Now, kinds: r.Kinds}
	err := r.do(ctx, a, s, emit)
	a.finish(ctx, err)
	return a.run, nil, err
}

// Release does nothing: nothing is held.
func (r *Alone) Release(context.Context) ([]model.Change, error) { return nil, nil }

func (r *Alone) do(ctx context.Context, a *attempt, s Spec, emit func(model.Host, []model.Sample)) error {
	if i := slices.IndexFunc(s.Setting.Assignments, func(as model.Assignment) bool { return as.Host != "" }); i >= 0 {
		return fmt.Errorf("%s cannot be set: %s only measures", s.Setting.Assignments[i].Knob, r.Name)
	}
	flow, err := knob.WithSetting(s.Flow, s.Setting, r.Kinds...)
	if err != nil {
		return err
	}
	a.flow, a.run.Flow = flow, flow
	if err := wait(ctx, s.Settle); err != nil {
		return err
	}
	near, far, err := r.Peer.Run(ctx, flow, func(list []model.Sample) {
		if len(list) > 0 {
			emit(list[0].Host, list)
		}
	})
	near.Host, far.Host = model.Near, model.Far
	a.run.Ends = []model.EndReport{near, far}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	j := judgement{run: &a.run, flow: flow, warn: a.warn, kinds: r.Kinds, name: func(h model.Host) string {
		if h == model.Far {
			return r.Name
		}
		return "this machine"
	}}
	return j.do()
}
