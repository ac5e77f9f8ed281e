// Package storetest is the test suite for result stores. A store runs all of it with Run:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Store { … })
//	}
package storetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/store"
	"linerate/internal/store/tables"
)

// Store is the part of a store that the suite needs.
type Store interface {
	CreateSession(ctx context.Context, s model.Session) error
	UpdateSession(ctx context.Context, s model.Session) error
	AddRun(ctx context.Context, sessionID string, run model.Run, samples []model.Sample, changes []model.Change) error
	SetChanges(ctx context.Context, sessionID string, changes []model.Change) error
	SetPlan(ctx context.Context, sessionID string, p model.Plan) error
	Session(ctx context.Context, ref string) (model.Session, error)
	Sessions(ctx context.Context, f store.Filter) ([]model.Item, error)
	Samples(ctx context.Context, ref string, runNumber int) ([]model.Sample, error)
	Brief(ctx context.Context, id string) (model.Session, error)
	Values(ctx context.Context, id string) ([]model.Run, error)
	Remove(ctx context.Context, ids ...string) error
	SetNote(ctx context.Context, sessionID, note string) error
	Import(ctx context.Context, from tables.Source, ids []string) error
}

// Run runs the suite. open returns a new empty store and closes it when its
// test ends.
func Run(t *testing.T, open func(t *testing.T) Store) {
	tests := []struct {
		name string
		test func(*testing.T, Store)
	}{
		{"round trip", RoundTrip},
		{"ends that say little", EndsThatSayLittle},
		{"run by run", RunByRun},
		{"update", Update},
		{"changes", Changes},
		{"references", References},
		{"list", List},
		{"brief and remove", BriefAndRemove},
		{"notes", Notes},
		{"import", Import},
		{"missing", Missing},
		{"duplicates", Duplicates},
		{"not numbers", NotNumbers},
		{"cancelled", Cancelled},
		{"concurrent", Concurrent},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.test(t, open(t)) })
	}
}

// EndsThatSayLittle demands that a run whose ends report empty parts reads back as stored, both
// with its session and run by run. Random sessions found each of these cases.
func EndsThatSayLittle(t *testing.T, s Store) {
	silent := model.EndReport{}
	datagrams := model.EndReport{Flows: []model.FlowReport{{UDP: &model.UDPSummary{}}}}
	gaps := model.EndReport{Flows: []model.FlowReport{{UDP: &model.UDPSummary{Variation: new(hist.Histogram), Gaps: new(hist.Histogram)}}}}
	latencies := model.EndReport{Latencies: []model.Latency{{}, {Times: new(hist.Histogram)}}}
	for name, ends := range map[string][]model.EndReport{
		"datagrams": {datagrams}, "a silent end": {silent, datagrams}, "datagrams without gaps": {gaps}, "no times": {silent, latencies},
	} {
		run := model.Run{Number: 1, Ends: ends}
		want := model.Session{ID: "whole " + name, Created: time.Unix(1500000000, 0).UTC(), Runs: []model.Run{run}}
		later := want
		later.ID, later.Runs = "later "+name, nil
		if err := errors.Join(s.CreateSession(t.Context(), want), s.CreateSession(t.Context(), later),
			s.AddRun(t.Context(), later.ID, run, nil, nil)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		later.Runs = want.Runs
		for _, stored := range []model.Session{want, later} {
			got, err := s.Session(t.Context(), stored.ID)
			if err != nil {
				t.Fatal(err)
			}
			if d := Diff(stored, got); d != "" {
				t.Errorf("%s: %s", stored.ID, d)
			}
		}
	}
}

// RoundTrip demands that any session reads back as created.
func RoundTrip(t *testing.T, s Store) {
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		want := Session(fmt.Sprintf("s%d", n)).Draw(r, "session")
		if err := s.CreateSession(t.Context(), want); err != nil {
			r.Fatal(err)
		}
		got, err := s.Session(t.Context(), want.ID)
		if err != nil {
			r.Fatal(err)
		}
		if d := Diff(want, got); d != "" {
			r.Fatalf("stored (-) and read (+) differ:\n%s", d)
		}
	})
}

// RunByRun demands that a session stored piece by piece reads like the whole, and that samples
// keep their order.
func RunByRun(t *testing.T, s Store) {
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		want := Session(fmt.Sprintf("s%d", n)).Draw(r, "session")
		start := model.Session{ID: want.ID, Kind: want.Kind, Command: want.Command, Near: want.Near, Far: want.Far,
			Version: want.Version, Created: want.Created, State: model.SessionRunning, Plan: want.Plan, Note: want.Note}
		if err := s.CreateSession(t.Context(), start); err != nil {
			r.Fatal(err)
		}
		for i, run := range want.Runs {
			samples := Samples().Draw(r, "samples")
			var changes []model.Change
			if i == len(want.Runs)-1 {
				changes = want.Changes
			}
			if err := s.AddRun(t.Context(), want.ID, run, samples, changes); err != nil {
				r.Fatal(err)
			}
			got, err := s.Samples(t.Context(), want.ID, run.Number)
			if err != nil {
				r.Fatal(err)
			}
			if d := Diff(samples, got); d != "" {
				r.Fatalf("samples stored (-) and read (+) differ:\n%s", d)
			}
		}
		if len(want.Runs) == 0 {
			want.Changes = nil
		}
		if err := s.UpdateSession(t.Context(), want); err != nil {
			r.Fatal(err)
		}
		got, err := s.Session(t.Context(), want.ID)
		if err != nil {
			r.Fatal(err)
		}
		if d := Diff(want, got); d != "" {
			r.Fatalf("stored (-) and read (+) differ:\n%s", d)
		}
	})
}

// Update demands that a later update replaces an earlier one and does not change runs, plan,
// note and changes.
func Update(t *testing.T, s Store) {
	want := small(1)
	create(t, s, want)
	for _, change := range []func(s *model.Session){
		func(s *model.Session) {
			s.State, s.Reason, s.Title, s.Warnings = model.SessionInterrupted, "stopped by the user", "later", []string{"one", "two"}
			s.Noise = []model.Noise{{Metric: model.Goodput, Source: "twin", Pairs: 6, Sigma: 0.01, Upper: 0.02, Checked: true, Evidence: 3}}
			s.Tuning = `{"runs":3}`
			s.Verdicts = []model.Verdict{{Setting: "x", Outcome: model.Undecided, Estimate: math.NaN()}, {Setting: "y", Metric: model.LatencyP99, Outcome: model.Worse,
				Guard: &model.GuardCheck{Guard: model.Guard{Metric: model.LatencyP99, Margin: 50, Default: true}, State: model.GuardOpen, MoreBlocks: 3}}}
		},
		func(s *model.Session) {
			s.State, s.Warnings, s.Noise = model.SessionDone, nil, nil
			s.Verdicts = []model.Verdict{{Setting: "x", Outcome: model.Better}}
		},
	} {
		change(&want)
		update := want
		update.Plan, update.Note, update.Runs, update.Changes = model.Plan{}, "another", nil, nil
		if err := s.UpdateSession(t.Context(), update); err != nil {
			t.Fatal(err)
		}
		if d := Diff(want, read(t, s, want.ID)); d != "" {
			t.Errorf("stored (-) and read (+) differ:\n%s", d)
		}
	}
}

// Changes demands that changes are appended by runs and replaced as a whole.
func Changes(t *testing.T, s Store) {
	sess := small(1)
	create(t, s, sess)
	applied := model.Change{Run: 2, Host: model.Far, Knob: "tcp.recv_buffer_max", Old: "4096\t131072\t6291456", New: "1", State: model.ChangeApplied}
	if err := s.AddRun(t.Context(), sess.ID, model.Run{Number: 2}, nil, []model.Change{applied}); err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clip(sess.Changes), applied)
	if d := Diff(want, read(t, s, sess.ID).Changes); d != "" {
		t.Errorf("appended (-) and read (+) differ:\n%s", d)
	}
	want[len(want)-1].State = model.ChangeUndone
	if err := s.SetChanges(t.Context(), sess.ID, want); err != nil {
		t.Fatal(err)
	}
	if d := Diff(want, read(t, s, sess.ID).Changes); d != "" {
		t.Errorf("replaced (-) and read (+) differ:\n%s", d)
	}
}

// References demands that sessions are found by ID, unique prefix and age.
func References(t *testing.T, s Store) {
	if _, err := s.Session(t.Context(), "last"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("last of none: %v, want ErrNotFound", err)
	}
	first, second, third := small(1), small(2), small(3)
	first.ID, second.ID, third.ID = "20261120T10-aaaa", "20261121T10-bbbb", "20261121T10-bbbb-2"
	for _, sess := range []model.Session{second, third, first} { // not in order of age
		create(t, s, sess)
	}
	for ref, want := range map[string]string{
		first.ID: first.ID, "20261120": first.ID, "2026112": "", second.ID: second.ID, // exact wins over prefix
		"last": third.ID, "-1": third.ID, "-2": second.ID, "-3": first.ID, "20261121T10-bbbb-": third.ID,
	} {
		got, err := s.Session(t.Context(), ref)
		if want == "" {
			if ambiguous := new(store.AmbiguousError); !errors.As(err, &ambiguous) || len(ambiguous.IDs) != 3 {
				t.Errorf("%s: %v, want an ambiguity of all three", ref, err)
			} else if !strings.Contains(err.Error(), first.ID) || !strings.Contains(err.Error(), third.ID) {
				t.Errorf("%s: %v does not name the candidates", ref, err)
			}
			continue
		}
		if err != nil || got.ID != want {
			t.Errorf("%s: %q, %v; want %q", ref, got.ID, err, want)
		}
	}
	for _, ref := range []string{"", "-4", "-0", "2025", "20261120T1%", "bbbb", "20261120t"} {
		if got, err := s.Session(t.Context(), ref); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%q: %q, %v; want ErrNotFound", ref, got.ID, err)
		}
	}
}

// List demands that lists are filtered, newest first, and count valid runs.
func List(t *testing.T, s Store) {
	for n := range 5 {
		sess := small(n)
		if n%2 == 1 {
			sess.Kind, sess.Far = model.KindTest, "nas"
		}
		create(t, s, sess)
	}
	look := small(5)
	look.Kind = model.KindWatch
	create(t, s, look)
	if got, err := s.Session(t.Context(), "last"); err != nil || got.ID != small(4).ID {
		t.Errorf("last is %q, %v: a look of a watch", got.ID, err)
	}
	for _, test := range []struct {
		name   string
		filter store.Filter
		want   []int
	}{
		{"all", store.Filter{}, []int{5, 4, 3, 2, 1, 0}},
		{"without looks", store.Filter{NoLooks: true, Limit: 3}, []int{4, 3, 2}},
		{"looks", store.Filter{Kind: model.KindWatch}, []int{5}},
		{"limit", store.Filter{Limit: 2}, []int{5, 4}},
		{"kind", store.Filter{Kind: model.KindTest}, []int{3, 1}},
		{"far", store.Filter{Far: "nas", Limit: 1}, []int{3}},
		{"state", store.Filter{State: model.SessionFailed}, nil},
		{"host", store.Filter{Host: "na"}, []int{3, 1}},
		{"text", store.Filter{Text: "WINDOW 4"}, []int{4}},
		{"text of many", store.Filter{Text: "window", Limit: 2}, []int{5, 4}},
		{"text of none", store.Filter{Text: "window 4", Kind: model.KindTest}, nil},
		{"since", store.Filter{Since: small(3).Created.In(time.FixedZone("", 7200))}, []int{5, 4, 3}},
	} {
		items, err := s.Sessions(t.Context(), test.filter)
		if err != nil {
			t.Fatal(err)
		}
		var want []model.Item
		for _, n := range test.want {
			sess := small(n)
			item := model.Item{ID: sess.ID, Kind: sess.Kind, Title: sess.Title, Near: sess.Near, Far: sess.Far,
				Created: sess.Created, State: sess.State, Reason: sess.Reason, Runs: 1, MaxRuns: 8}
			if n%2 == 1 {
				item.Kind, item.Far = model.KindTest, "nas"
			}
			if n == 5 {
				item.Kind, item.Far = look.Kind, look.Far
			}
			want = append(want, item)
		}
		if d := Diff(want, items); d != "" {
			t.Errorf("%s: want (-), listed (+):\n%s", test.name, d)
		}
	}
}

// BriefAndRemove demands that a session in brief lacks only its hosts, its changes and the ends
// of its runs, and that Remove removes all of a session, and nothing of the others.
func BriefAndRemove(t *testing.T, s Store) {
	var all []model.Session
	for n := range 3 {
		sess := small(n)
		sess.Hosts = []model.HostFacts{{Host: model.Far, Name: "nas"}}
		sess.Verdicts = []model.Verdict{{Setting: "x", Baseline: "y", Outcome: model.Better, Estimate: 0.1}}
		for i := range sess.Runs {
			sess.Runs[i].Ends = []model.EndReport{{Host: model.Far}}
		}
		create(t, s, sess)
		all = append(all, sess)
	}
	got, err := s.Brief(t.Context(), all[1].ID)
	if err != nil || len(got.Hosts) != 0 || len(got.Runs) != len(all[1].Runs) || len(got.Verdicts) != 1 || Diff(all[1].Plan, got.Plan) != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, r := range got.Runs {
		if Diff(all[1].Runs[i].Values, r.Values) != "" || len(r.Ends) != 0 {
			t.Errorf("run %+v", r)
		}
	}
	if runs, err := s.Values(t.Context(), all[1].ID); err != nil || Diff(got.Runs, runs) != "" {
		t.Errorf("values alone: %+v, %v", runs, err)
	}
	if err := s.Remove(t.Context(), all[0].ID, "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("remove of an unknown session: %v", err)
	}
	if err := s.Remove(t.Context(), all[0].ID, all[2].ID); err != nil {
		t.Fatal(err)
	}
	items, err := s.Sessions(t.Context(), store.Filter{})
	if err != nil || len(items) != 1 || items[0].ID != all[1].ID || items[0].Runs == 0 {
		t.Errorf("left are %+v, %v", items, err)
	}
	for _, id := range []string{all[0].ID, all[2].ID} {
		if _, err := s.Session(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
		if err := s.SetPlan(t.Context(), id, model.Plan{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("plan of %s: %v", id, err)
		}
		if _, err := s.Samples(t.Context(), id, 1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("samples of %s: %v", id, err)
		}
	}
	create(t, s, all[0]) // its ID is free again

	longer := all[0].Plan
	longer.Order, longer.MaxBlocks = append(slices.Clone(longer.Order), longer.Order[0]), longer.MaxBlocks+1
	if err := s.SetPlan(t.Context(), all[0].ID, longer); err != nil {
		t.Fatal(err)
	}
	changed, err := s.Session(t.Context(), all[0].ID)
	if d := Diff(longer, changed.Plan); err != nil || d != "" || len(changed.Runs) != len(all[0].Runs) {
		t.Errorf("the plan, changed: %v, want (-), got (+):\n%s", err, d)
	}
}

// Missing demands ErrNotFound for everything that does not exist.
func Missing(t *testing.T, s Store) {
	create(t, s, small(1))
	ctx := t.Context()
	_, sessionErr := s.Session(ctx, "none")
	_, samplesErr := s.Samples(ctx, small(1).ID, 99)
	_, samplesOfErr := s.Samples(ctx, "none", 1)
	for name, err := range map[string]error{
		"Session": sessionErr, "Samples of no run": samplesErr, "Samples of no session": samplesOfErr,
		"UpdateSession": s.UpdateSession(ctx, model.Session{ID: "none"}),
		"AddRun":        s.AddRun(ctx, "none", model.Run{Number: 1}, nil, nil),
		"AddRun by age": s.AddRun(ctx, "last", model.Run{Number: 1}, nil, nil), // writing needs the ID
		"SetChanges":    s.SetChanges(ctx, "none", nil),
		"SetNote":       s.SetNote(ctx, "none", "x"),
	} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
}

// Duplicates demands that nothing is stored twice, not even in part.
func Duplicates(t *testing.T, s Store) {
	sess := small(1)
	create(t, s, sess)
	if err := s.CreateSession(t.Context(), sess); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second session: %v, want fs.ErrExist", err)
	}
	again := model.Run{Number: 1, Setting: "again", Values: []model.Value{{Metric: model.Goodput, Value: 1}}}
	err := s.AddRun(t.Context(), sess.ID, again, []model.Sample{{Host: model.Near}}, []model.Change{{Knob: "k"}})
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("second run: %v, want fs.ErrExist", err)
	}
	if d := Diff(sess, read(t, s, sess.ID)); d != "" {
		t.Errorf("stored (-) and read (+) differ:\n%s", d)
	}
}

// NotNumbers demands that NaN and infinite samples are read back as such, and that a run stores
// only finite values.
func NotNumbers(t *testing.T, s Store) {
	sess := small(1)
	create(t, s, sess)
	run := model.Run{Number: 2}
	var samples []model.Sample
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0} {
		run.Values = append(run.Values, model.Value{Metric: model.RTT, Value: v})
		samples = append(samples, model.Sample{Metric: model.RTT, Value: v})
	}
	if err := s.AddRun(t.Context(), sess.ID, run, samples, nil); err != nil {
		t.Fatal(err)
	}
	run.Values = run.Values[3:]
	if d := Diff(run, read(t, s, sess.ID).Runs[1]); d != "" {
		t.Errorf("stored (-) and read (+) differ:\n%s", d)
	}
	got, err := s.Samples(t.Context(), sess.ID, 2)
	if d := Diff(samples, got); err != nil || d != "" {
		t.Errorf("%v; samples stored (-) and read (+) differ:\n%s", err, d)
	}
}

// Cancelled demands that a call with a cancelled context stores nothing and
// leaves the store usable.
func Cancelled(t *testing.T, s Store) {
	sess := small(1)
	create(t, s, sess)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.AddRun(ctx, sess.ID, model.Run{Number: 2}, make([]model.Sample, 100), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("AddRun: %v, want context.Canceled", err)
	}
	if d := Diff(sess, read(t, s, sess.ID)); d != "" {
		t.Errorf("stored (-) and read (+) differ:\n%s", d)
	}
}

// Concurrent demands that one store serves several goroutines.
func Concurrent(t *testing.T, s Store) {
	const writers, runs = 4, 8
	var wg sync.WaitGroup
	errs := make(chan error, writers*(2*runs+1))
	for w := range writers {
		wg.Go(func() {
			sess := model.Session{ID: id(w)}
			errs <- s.CreateSession(t.Context(), sess)
			for n := range runs {
				errs <- s.AddRun(t.Context(), sess.ID, model.Run{Number: n + 1}, make([]model.Sample, 10), nil)
				_, err := s.Sessions(t.Context(), store.Filter{})
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	for w := range writers {
		if got := len(read(t, s, id(w)).Runs); got != runs {
			t.Errorf("writer %d stored %d runs, want %d", w, got, runs)
		}
	}
}
