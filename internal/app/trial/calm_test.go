package trial_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/app/reach"
	"linerate/internal/app/trial"
	"linerate/internal/control/experiment"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// crowd is a runner between hosts of which others have so many processors, look after look.
type crowd struct {
	experiment.Runner
	near, far []float64
}

func (c *crowd) Run(_ context.Context, s runner.Spec, _ func(model.Host, []model.Sample)) (model.Run, []model.Change, error) {
	r := model.Run{Flow: s.Flow, State: model.RunValid}
	for h, busy := range map[model.Host]*[]float64{model.Near: &c.near, model.Far: &c.far} {
		r.Ends = append(r.Ends, model.EndReport{Host: h, CPUWindow: 300 * time.Millisecond, SystemBusy: fact.Known((*busy)[0], "test")})
		if len(*busy) > 1 {
			*busy = (*busy)[1:]
		}
	}
	return r, nil, nil
}

// TestCalm: a measurement waits for hosts that others keep busy, says which, and goes on when
// they are free or the time is up.
func TestCalm(t *testing.T) {
	free := []float64{0.5}
	for name, c := range map[string]struct {
		crowd crowd
		calm  time.Duration
		took  time.Duration
		says  []string
		alone bool // the far end is another program's
	}{
		"free":        {crowd{nil, free, free}, time.Minute, 0, nil, false},
		"for a while": {crowd{nil, free, []float64{3.9, 3.8, 0}}, time.Minute, 2 * time.Second, []string{"waiting up to 1 min before the first run: other programs keep 3.9 of the 4 processors of nas busy", "free again, after 2 s"}, false},
		"for ever":    {crowd{nil, []float64{3.9}, free}, 5 * time.Second, 5 * time.Second, []string{"of desk busy", "measuring all the same after 5 s: other programs keep 3.9"}, false},
		"not to wait": {crowd{nil, []float64{3.9}, free}, 0, 0, nil, false},
		"not so much": {crowd{nil, []float64{3}, free}, time.Minute, 0, nil, false},
		"cannot be":   {crowd{nil, []float64{9}, free}, time.Minute, 0, nil, false},
		"foreign":     {crowd{nil, []float64{3.9, 3.8, 0}, []float64{3.9}}, time.Minute, 2 * time.Second, []string{"the far end cannot be asked how busy it is: only desk is watched", "of desk busy", "free again, after 2 s"}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			person := &apptest.Person{}
			env := apptest.Env(person)
			env.Calm = c.calm
			e := &reach.Ends{NearText: app.ThisMachine, FarText: "root@nas", Far: new(session.Client), Runner: &c.crowd,
				Hosts: []model.HostFacts{{Host: model.Near, Name: "desk", CPUs: 4, Address: "192.0.2.1"}, {Host: model.Far, Name: "vm", CPUs: 4, Address: "192.0.2.2"}}}
			if c.alone {
				e.Far, e.Runner, e.Idle = nil, nil, e.Runner
			}
			began := time.Now()
			must.Do(t, trial.Calm(t.Context(), env, e))
			must.Equal(t, time.Since(began), c.took, name)
			got := apptest.Told[app.Warning](person)
			must.Need(t, len(got) == len(c.says), "%s: %+v", name, got)
			for i, text := range c.says {
				must.True(t, strings.Contains(got[i].Text, text), "%s: %q", name, got[i].Text)
			}
		})
	}
}
