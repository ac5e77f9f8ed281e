package storetest

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

// Session generates any session that a store must keep: every field filled or not, infinite
// interval ends, unknown facts, all of Unicode. Only the guarantees of package model hold: run
// numbers ascend and times are in UTC.
func Session(id string) *rapid.Generator[model.Session] {
	shape := rapid.MakeCustom[model.Session](config())
	return rapid.Custom(func(t *rapid.T) model.Session {
		s := shape.Draw(t, "session")
		s.ID = id
		for i := range s.Runs {
			s.Runs[i].Number = 2*i + 1 // gaps are legal
		}
		return s
	})
}

// Samples generates samples of a run.
func Samples() *rapid.Generator[[]model.Sample] {
	return rapid.SliceOfN(rapid.MakeCustom[model.Sample](config()), 0, 20)
}

// Diff returns the differences between a stored value and the one read back, "" if there are
// none. Nil equals empty, and any NaN equals any other.
func Diff(stored, read any) string {
	return cmp.Diff(stored, read, cmpopts.EquateEmpty(), cmpopts.EquateNaNs(),
		cmp.Comparer(func(a, b hist.Histogram) bool { return a == b }),
		cmp.Exporter(func(t reflect.Type) bool { return t.PkgPath() == reflect.TypeFor[fact.Of[int]]().PkgPath() }))
}

// maxItems bounds generated slices and maps; sessions nest five of them.
const maxItems = 3

// params generates an engine's own parameters: none, or any object.
func params() *rapid.Generator[model.Params] {
	object := rapid.Map(rapid.MapOfN(rapid.String(), rapid.String(), 0, maxItems), traffic.Write[map[string]string])
	return rapid.OneOf(rapid.Just(model.Params("")), object)
}

func config() rapid.MakeConfig {
	types := map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[time.Time]():      times().AsAny(),
		reflect.TypeFor[model.Interval](): intervals().AsAny(),
		reflect.TypeFor[hist.Histogram](): histograms().AsAny(),
		reflect.TypeFor[model.Params]():   params().AsAny(),
	}
	addFact(types, rapid.String())
	addFact(types, rapid.Int())
	addFact(types, rapid.Int64())
	addFact(types, rapid.Bool())
	addFact(types, rapid.Float64())
	addFact(types, rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) }))
	addFact(types, rapid.Map(rapid.Int64(), func(n int64) units.Bytes { return units.Bytes(n) }))
	addFact(types, rapid.Map(rapid.Float64(), func(v float64) units.BitRate { return units.BitRate(v) }))

	addFact(types, rapid.SliceOfN(rapid.String(), 1, maxItems))
	addFact(types, rapid.SliceOfN(rapid.Make[model.Offload](), 1, maxItems))

	cfg := rapid.MakeConfig{Types: types}
	addSlice[model.Run](types, cfg)
	addSlice[model.Value](types, cfg)
	addSlice[model.FlowReport](types, cfg)
	addSlice[model.EndReport](types, cfg)
	addSlice[model.Assignment](types, cfg)
	addSlice[model.Setting](types, cfg)
	addSlice[model.Verdict](types, cfg)
	addSlice[model.Proof](types, cfg)
	addSlice[model.Missing](types, cfg)
	addSlice[model.KnobID](types, cfg)
	addSlice[model.Finding](types, cfg)
	addSlice[model.HostFacts](types, cfg)
	addSlice[model.NIC](types, cfg)
	addSlice[model.Latency](types, cfg)
	addSlice[model.Point](types, cfg)
	addSlice[model.Counter](types, cfg)
	addSlice[string](types, cfg)
	return cfg
}

// addFact adds facts with the values of value: known or unknown, with any source.
func addFact[T any](types map[reflect.Type]*rapid.Generator[any], value *rapid.Generator[T]) {
	types[reflect.TypeFor[fact.Of[T]]()] = rapid.Custom(func(t *rapid.T) fact.Of[T] {
		if rapid.Bool().Draw(t, "known") {
			return fact.Known(value.Draw(t, "value"), rapid.String().Draw(t, "source"))
		}
		return fact.Unknown[T](rapid.String().Draw(t, "reason"))
	}).AsAny()
}

// addSlice adds short slices of T.
func addSlice[T any](types map[reflect.Type]*rapid.Generator[any], cfg rapid.MakeConfig) {
	element := rapid.Deferred(func() *rapid.Generator[T] { return rapid.MakeCustom[T](cfg) })
	types[reflect.TypeFor[[]T]()] = rapid.SliceOfN(element, 0, maxItems).AsAny()
}

// times generates the zero time and times of this and the next century.
func times() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		const century = 100 * 365 * 24 * int64(time.Hour)
		return time.Unix(1.5e9, rapid.Int64Range(0, century).Draw(t, "time")).UTC()
	})
}

// histograms generates distributions of a few times.
func histograms() *rapid.Generator[hist.Histogram] {
	return rapid.Custom(func(t *rapid.T) hist.Histogram {
		var h hist.Recorder
		for _, ns := range rapid.SliceOfN(rapid.Int64(), 0, maxItems).Draw(t, "times") {
			h.Record(time.Duration(ns))
		}
		return *h.Histogram()
	})
}

// intervals generates intervals with ends that may be unbounded.
func intervals() *rapid.Generator[model.Interval] {
	return rapid.Custom(func(t *rapid.T) model.Interval {
		end := func(unbounded float64, name string) model.Bound {
			if rapid.Bool().Draw(t, name+" unbounded") {
				return model.Bound(unbounded)
			}
			return model.Bound(rapid.Float64().Draw(t, name))
		}
		return model.Interval{
			Low:        end(math.Inf(-1), "low"),
			High:       end(math.Inf(1), "high"),
			Confidence: rapid.Float64Range(0, 1).Draw(t, "confidence"),
			Method:     rapid.String().Draw(t, "method"),
		}
	})
}

// id returns the n-th session ID of a test.
func id(n int) string { return fmt.Sprintf("20261121T0132%02d-x%03d", n/10, n) }

// small returns the n-th of consecutive sessions, with one run and one change.
func small(n int) model.Session {
	return model.Session{
		ID: id(n), Kind: model.KindRun, Title: fmt.Sprintf("window %d", n), Near: "here", Far: "b",
		Created: time.Date(2026, 11, 21, 1, 32, n, 500*n, time.UTC), State: model.SessionRunning,
		Plan: model.Plan{
			Settings: []model.Setting{{Name: "as-is"}, {Name: "more"}}, Baseline: "as-is", Seed: math.MaxUint64,
			Objective: model.RTT, Guards: []model.Guard{{Metric: model.Goodput, Margin: 5}},
			Directions: []model.Direction{model.To, model.From}, Order: [][]string{{"as-is", "more"}, {"more", "as-is"}},
		},
		Runs:    []model.Run{{Number: 1, Block: 1, State: model.RunValid, Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 941.5e6}}}},
		Changes: []model.Change{{Run: 1, Host: model.Near, Knob: "tcp.congestion", Old: "cubic", New: "bbr", State: model.ChangeUndone}},
	}
}

func create(t *testing.T, s Store, sess model.Session) {
	t.Helper()
	if err := s.CreateSession(t.Context(), sess); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, s Store, ref string) model.Session {
	t.Helper()
	sess, err := s.Session(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return sess
}
