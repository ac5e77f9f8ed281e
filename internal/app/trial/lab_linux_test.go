package trial_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"linerate/internal/app/apptest"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/store/sqlite"
	"linerate/internal/ui/roletest"
)

// TestMain makes the test program serve as the processes of a lab too.
func TestMain(m *testing.M) { roletest.Main(m, knob.NewIndex(), nil) }

// TestQuickLookInALab opens two virtual hosts by their text alone, and measures between them
// with the setting of the text.
func TestQuickLookInALab(t *testing.T) {
	t.Parallel()
	self := must.Get(os.Executable())(t)
	env := apptest.Env(&apptest.Person{})
	env.Self, env.Getenv = []string{self}, os.Getenv
	near, far, err := target.Pair("", "lab:rate=20mbit,rtt=2ms,far.tcp.sack=off", env)
	must.Do(t, err)
	e, err := target.New(env, target.Options{}).Open(t.Context(), near, far)
	must.SkipIf(t, errors.Is(err, fs.ErrPermission), "virtual hosts need user namespaces or root: %v", err)
	must.Do(t, err)
	t.Cleanup(e.Close)
	if rate, _ := e.WireRate.Get(); !e.InLab || rate != 20e6 || e.Hosts[1].Knobs["tcp.sack"].Or("") != "0" || e.Hosts[0].Knobs["tcp.sack"].Or("") != "1" {
		t.Errorf("%v, wire %v, tcp.sack %v and %v", e.InLab, e.WireRate, e.Hosts[0].Knobs["tcp.sack"], e.Hosts[1].Knobs["tcp.sack"])
	}
	st := must.Get(sqlite.Open(t.Context(), sqlite.Memory))(t)
	t.Cleanup(func() { _ = st.Close() })
	p, wrong := planned(trial.Quick{Flow: model.Flow{Engine: "tcpbulk", Streams: 1, Duration: 500 * time.Millisecond, Interval: 250 * time.Millisecond}, Repeats: 1})
	err = trial.Suit(env, &far, &p, nil)
	must.Need(t, err == nil && len(wrong) == 0, "%v %v", err, wrong)
	s, err := trial.New(env, e, st, model.KindTest, "", nil, p).Run(t.Context())
	must.Need(t, err == nil && len(s.Runs) == 2, "%d runs, %v", len(s.Runs), err)
	for _, r := range s.Runs {
		v := r.Values
		must.True(t, len(v) != 0 && v[0].Metric == model.Goodput && v[0].Value > 0, "%s: %+v", r.Flow.Direction, v)
	}
}
