package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/core/fact"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// shelf is a store in memory.
type shelf struct {
	Store
	sessions []model.Session
}

func (s *shelf) CreateSession(_ context.Context, one model.Session) error {
	s.sessions = append(s.sessions, one)
	return nil
}

func (s *shelf) UpdateSession(_ context.Context, one model.Session) error {
	s.sessions[slices.IndexFunc(s.sessions, func(o model.Session) bool { return o.ID == one.ID })] = one
	return nil
}

func (s *shelf) Session(_ context.Context, id string) (model.Session, error) {
	return s.sessions[slices.IndexFunc(s.sessions, func(o model.Session) bool { return o.ID == id })], nil
}

func (s *shelf) Values(ctx context.Context, id string) ([]model.Run, error) {
	one, err := s.Session(ctx, id)
	runs := slices.Clone(one.Runs)
	for i := range runs {
		runs[i].Ends = nil
	}
	return runs, err
}

func (s *shelf) Looks(_ context.Context, far string, since time.Time) (all []model.Item, _ error) {
	for _, one := range s.sessions {
		if one.Far == far && !one.Created.Before(since) {
			all = append(all, model.Item{ID: one.ID, Created: one.Created, State: one.State, Title: one.Title})
		}
	}
	return all, nil
}

// world is a path with the changes that a test plants.
type world struct {
	t      *testing.T
	shelf  *shelf
	rng    *rand.Rand
	ahead  time.Duration // how far the clock was set
	share  float64       // of the rate that is left
	kernel string
	window string // a setting of the far host
	gone   error  // why the host cannot be reached
	dead   bool   // nothing arrives there
	during func() // called during each look
	told   []Outcome
	looks  int
}

func newWorld(t *testing.T) *world {
	return &world{t: t, shelf: &shelf{}, rng: rand.New(rand.NewPCG(1, 1)), share: 1, kernel: "6.1", window: "4096", during: func() {}}
}

// watch returns a new process's watch of the path.
func (w *world) watch() *Watch {
	env := apptest.Env(&apptest.Person{})
	env.Now = func() time.Time { return time.Now().Add(w.ahead) }
	return &Watch{
		Request: Request{Hosts: []target.Target{{Kind: target.SSH, Text: "ssh://nas"}}, Every: time.Hour, Streams: 4, Time: 3 * time.Second, Margin: .0953},
		Env:     env, Store: w.shelf, Tell: func(_ context.Context, o Outcome) { w.told = append(w.told, o) }, measure: w.measure,
	}
}

func (w *world) measure(ctx context.Context, l *look, h target.Target, at time.Time) (model.Session, error) {
	w.looks++
	if w.gone != nil {
		return model.Session{}, w.gone
	}
	s := model.Session{ID: trial.NewSessionID(at) + strconv.Itoa(w.looks), Kind: model.KindWatch, Near: app.ThisMachine, Far: h.Text, Created: at, State: model.SessionDone, Plan: l.Plan()}
	s.Hosts = []model.HostFacts{
		{Host: model.Near, Name: "desk", Kernel: fact.Known("6.1", "")},
		{Host: model.Far, Name: "nas", Kernel: fact.Known(w.kernel, ""), Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known(w.window, "")}},
	}
	l.at = series.Look{At: at, ID: s.ID}
	for {
		b := must.Get(l.Next(ctx, s.Runs))(w.t)
		if len(b.Settings) == 0 || ctx.Err() != nil {
			break
		}
		w.during()
		b.Flow.Direction = b.Direction
		if w.dead && b.Direction == model.To {
			sent := model.FlowReport{Direction: model.To, Role: model.Sender, Window: 3 * time.Second}
			got := sent
			got.Role = model.Receiver
			s.Runs = append(s.Runs, model.Run{Number: len(s.Runs) + 1, Setting: b.Settings[0].Name, Flow: b.Flow, State: model.RunInvalid, Ends: []model.EndReport{{Flows: []model.FlowReport{sent, got}}}})
			continue
		}
		noise := 1 + .03*w.rng.NormFloat64()
		s.Runs = append(s.Runs, model.Run{Number: len(s.Runs) + 1, Setting: b.Settings[0].Name, Flow: b.Flow, State: model.RunValid, Values: []model.Value{
			{Direction: b.Direction, Metric: model.Goodput, Value: 941e6 * w.share * noise},
			{Direction: b.Direction, Metric: model.IdleP50, Value: .010 * noise}, {Direction: b.Direction, Metric: model.LossRatio},
		}})
	}
	w.shelf.sessions = append(w.shelf.sessions, s)
	return s, nil
}

// TestPlanted: a path that becomes slower together with a kernel and a setting is reported once,
// with both, and so is its recovery. A process that starts later knows the same.
func TestPlanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		changes := func(looks int) (all []string) {
			for range looks {
				w.told = nil
				err := w.watch().Once(t.Context()) // as a timer does
				time.Sleep(time.Hour)
				for _, o := range w.told {
					must.Do(t, o.Err)
					if o.Change != nil {
						must.Equal(t, fault.KindOf(err) == fault.Found, o.Change.Worse, "error: %v", err)
						all = append(all, strings.Join([]string{string(o.Change.Metric), string(o.Change.Direction), strconv.FormatBool(o.Change.Worse), fingerprint.Since(o.Changed)}, " "))
					}
				}
			}
			return all
		}
		must.Len(t, changes(40), 0, "without a change")
		began := time.Now()
		w.share, w.kernel, w.window = .8, "6.2", "8192"
		const meanwhile = "kernel 6.1 -> 6.2 at nas, tcp.recv_buffer_max 4096 -> 8192 at nas"
		got := changes(4)
		slices.Sort(got)
		must.Same(t, got, []string{"goodput from true " + meanwhile, "goodput to true " + meanwhile}, "with a change")
		p := must.Get(w.watch().Path(t.Context(), "ssh://nas"))(t)
		must.True(t, len(p.Changes) == 2 && p.Changes[0].Since.At.Equal(began) && p.Count == 44, "%d looks, %d changes: %+v", p.Count, len(p.Changes), p.Changes)
		low, high := p.Changes[0].Range()
		must.True(t, low < 941e6*.8 && high > 941e6*.8 && high < 941e6*.9, "%.0f to %.0f", low, high)
		w.share = 1
		got = changes(4)
		must.True(t, len(got) == 2 && strings.Contains(got[0], "false") && strings.Contains(got[1], "false"), "%v", got)
		w.dead = true
		got = changes(3)
		must.True(t, len(got) == 2 && strings.Contains(got[0], "to true"), "nothing arrives there: %v", got)
		p = must.Get(w.watch().Path(t.Context(), "ssh://nas"))(t)
		must.Len(t, p.Changes, 6, "read again")
		of := w.watch()
		of.Title = "desk"
		p = must.Get(of.Path(t.Context(), "ssh://nas"))(t)
		must.Equal(t, p.Count, 0, "looks of another machine in the same store")
	})
}

// TestSchedule: one look per hour. A host that is away is looked at sooner, and reported after
// the second failure. A clock that is set or a machine that sleeps neither counts as a change
// nor ends the watch.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.watch().Run(ctx) }()
		looks := func(during time.Duration) int {
			before := w.looks
			time.Sleep(during)
			synctest.Wait()
			return w.looks - before
		}
		must.Equal(t, looks(12*time.Hour+time.Minute), 13, "in twelve hours")
		w.gone = fault.WithKind(fault.Unreachable, errors.New("no route to host"))
		must.Equal(t, looks(time.Hour+40*time.Minute), 6, "at a host that is away, after 1, 2, 4, 8 and 16 minutes")
		w.gone = nil
		looks(time.Hour)
		w.during = func() { w.ahead, w.during = w.ahead+24*time.Hour, func() {} } // the machine sleeps during a look
		must.Equal(t, looks(time.Hour), 1, "with a sleep")
		w.ahead -= 72 * time.Hour
		must.Equal(t, looks(time.Minute), 1, "of a clock that was set back")
		w.ahead += 10 * time.Hour // the machine slept between two looks
		must.Equal(t, looks(time.Minute), 1, "after a sleep")
		looks(10 * time.Hour)
		stop()
		must.Is(t, <-ended, context.Canceled)
		var away, back, void, told int
		for _, o := range w.told {
			away, back = away+map[bool]int{true: 1}[o.Away], back+map[bool]int{true: 1}[o.Back]
			if o.Change != nil {
				told++
			}
			if o.Err != nil && strings.Contains(o.Err.Error(), "slept") {
				void++
			}
		}
		must.Same(t, []int{away, back, void, told}, []int{1, 1, 1, 0}, "away, back, void, told")
		p := must.Get(w.watch().Path(t.Context(), "ssh://nas"))(t)
		must.True(t, p.Count >= 10 && p.Missed == 0, "%d looks, %d missed", p.Count, p.Missed)
	})
}

// TestCosts: how much looks send, and which requests are refused.
func TestCosts(t *testing.T) {
	q := Request{Every: time.Hour, Time: 3 * time.Second}
	must.Equal(t, q.Bytes(1e9, 1e9), 1_000_500_000, "at 1 Gbit/s")
	must.Equal(t, q.PerDay(), 24.0, "a day")
	q.ProbeOnly = true
	must.Equal(t, q.Bytes(1e9, 1e9), 500_000, "of probes")
	twice := Request{Every: time.Hour, Hosts: []target.Target{{Text: "nas"}, {Text: "nas"}}}
	for _, bad := range []Request{{Every: time.Second}, twice, {Every: time.Hour, Hosts: []target.Target{{Kind: target.Foreign}}}} {
		must.Equal(t, fault.KindOf(bad.Validate()), fault.Usage, "%+v", bad)
	}
}
