package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// filler fills messages. number provides numbers, words and lengths, and returns one of 0 to
// most.
type filler struct {
	*shapes
	number func(most int64) int64
	text   func(k textKind) string
	some   func() int // elements of a list
}

func (f *filler) value(v reflect.Value, r rule) {
	switch p := v.Addr().Interface().(type) {
	case fact.Any:
		set := v.Addr().MethodByName("UnmarshalJSON")
		source, _ := json.Marshal(f.text(textKinds("text")))
		inner := reflect.New(v.Type().Field(0).Type)
		f.value(inner.Elem(), r.inFact())
		value, err := json.Marshal(inner.Interface())
		doc := fmt.Appendf(nil, `{"value":%s,"source":%s}`, value, source)
		if f.number(3) == 0 || err != nil {
			doc = fmt.Appendf(nil, `{"unknown":%s,"code":%s}`, source, source)
		}
		set.Call([]reflect.Value{reflect.ValueOf(doc)})
		return
	case *hist.Histogram:
		var r hist.Recorder
		for range f.some() {
			r.Record(time.Duration(f.number(int64(time.Hour))))
		}
		*p = *r.Histogram()
		return
	case *model.Params:
		*p = `{"rate":1e+09,"sizes":[1,2,3]}`
		return
	case *time.Time:
		*p = time.Unix(f.number(1<<32), 0).UTC()
		return
	case *EventKind:
		*p = Samples
		return
	case *model.Command, *func(units.Bytes) (func(), error):
		return
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		r = r.upTo(int64(MaxDuration))
	}
	switch v.Kind() {
	case reflect.String:
		switch {
		case r.words != nil:
			v.SetString(r.words[f.number(int64(len(r.words)-1))])
		case v.Type() == reflect.TypeFor[model.KnobID](), v.Type() == reflect.TypeFor[model.Metric]():
			v.SetString("name_" + fmt.Sprint(f.number(1<<40)))
		case r.kind == "end":
			v.SetString("far")
		case v.Type() != reflect.TypeFor[model.Host]():
			v.SetString(f.text(textKinds(r.kind)))
		}
	case reflect.Int, reflect.Int64:
		r = r.upTo(maxCount)
		v.SetInt(r.low + f.number(r.high-r.low))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(1 + uint64(f.number(400)))
	case reflect.Float64:
		v.SetFloat(float64(f.number(maxCount))/1024 - 1e12)
	case reflect.Bool:
		v.SetBool(f.number(1) == 1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.value(v.Elem(), r)
	case reflect.Slice:
		n := max(f.some(), int(r.low))
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.value(v.Index(i), r.element())
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range f.some() {
			value := reflect.New(v.Type().Elem()).Elem()
			f.value(value, r.element())
			v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("key_%d", i)).Convert(v.Type().Key()), value)
		}
	case reflect.Struct:
		for _, one := range f.of(v.Type()).fields {
			f.value(v.Field(one.index), one.rule)
		}
	case reflect.Uint8: // bytes stay 0
	default:
		panic("session: no message has held a " + v.Kind().String() + " yet")
	}
}

// fill fills a message so that it keeps the rules that go beyond one field.
func (f *filler) fill(message any) any {
	f.shapes = new(shapes)
	f.value(reflect.ValueOf(message).Elem(), rule{})
	assignments := func(list []model.Assignment, end model.Host) {
		for i := range list {
			list[i].Host, list[i].Knob = end, model.KnobID(fmt.Sprint("knob_", i))
			if i == 1 {
				list[i].Knob, list[i].Value = "cmd:x", model.On
				list[i].Command = model.Command{Run: "tc qdisc add", Undo: "tc qdisc del", Limit: time.Minute}
			}
		}
	}
	switch m := message.(type) {
	case *Hello:
		m.Host = model.Far
	case *applyRequest:
		assignments(m.Assignments, model.Far)
	case *Keep:
		assignments(m.Settings, "")
	case *Keeping:
		assignments(m.Added, "")
	case *keptList:
		for i := range m.Records {
			assignments(m.Records[i].Settings, "")
		}
	case *Preparation:
		m.Connect, m.Ports, m.Flow.Interval = "192.0.2.1:5299", model.Ports{First: 5300, Last: 5310}, time.Second
		m.Egress.From = model.Ports{First: 5400, Last: 5400}
	case *confirmedList:
		for i := range m.Settings {
			m.Settings[i].Knob = model.KnobID(fmt.Sprint("knob_", i))
		}
	case *probeRequest:
		for i := range m.Targets {
			m.Targets[i] = fmt.Sprintf("192.0.2.%d", i)
		}
	case *model.HostFacts:
		for i := range m.NICs {
			m.NICs[i].Name = fmt.Sprintf("eth%d", i)
		}
	case *Event:
		for i := range m.Report.Latencies {
			m.Report.Latencies[i].Lost = min(m.Report.Latencies[i].Lost, m.Report.Latencies[i].Sent)
		}
	}
	return message
}

// TestGreedyAgentLosesTheSession: an agent that sends endless samples once filled the
// controller's memory.
func TestGreedyAgentLosesTheSession(t *testing.T) {
	batch := make([]model.Sample, MaxSamples)
	for i := range batch {
		batch[i] = model.Sample{Direction: model.To, Metric: model.Goodput, Length: time.Second}
	}
	left := make(chan struct{})
	conn, _ := serving(t, stub{run: func(_ context.Context, send func(Event) error) error {
		defer close(left)
		if err := send(Event{Kind: Ready}); err != nil {
			return err
		}
		for {
			if err := send(Event{Kind: Samples, Samples: batch}); err != nil {
				return err
			}
		}
	}}, short())
	c := mustOpen(t, conn)
	flow := model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: 3 * time.Second, Interval: time.Second}
	must.Get(c.Prepare(t.Context(), Preparation{Run: 1, Flow: flow}))(t)
	got := 0
	err := c.Run(t.Context(), 1, func(e Event) { got += len(e.Samples) })
	must.True(t, errors.Is(err, ErrGreedy) && strings.Contains(err.Error(), "the agent sent more than this run can have") && got <= 100_000,
		"%d samples, error %v", got, err)
	must.Wait(t, "the agent to be cut off", left)
	must.Is(t, must.Err(c.Facts(t.Context(), "")), ErrGreedy, "the session goes on")
}

// TestAllowanceOfHonestRuns: what real agents send is always allowed.
func TestAllowanceOfHonestRuns(t *testing.T) {
	start := time.Now()
	for name, f := range map[string]model.Flow{
		"a second": {Duration: 10 * time.Second, Interval: time.Second}, "fast": {Duration: time.Second, Interval: 10 * time.Millisecond},
		"short": {Duration: 100 * time.Millisecond}, "bytes": {Bytes: 1 << 30},
	} {
		a := newAllowance(f)
		must.Do(t, a.take(Event{Kind: Ready}, start))
		series := make([]model.Sample, 40)
		host := make([]model.Sample, 3000)
		for at := time.Duration(0); at < 20*time.Second; at += a.interval {
			err := a.take(Event{Kind: Samples, Samples: series}, start.Add(at))
			if at%time.Second == 0 {
				err = errors.Join(err, a.take(Event{Kind: Samples, Samples: host}, start.Add(at)))
			}
			must.Dof(t, err, "%s: after %v", name, at)
		}
		must.OK(t, errors.Join(a.take(Event{Kind: Measured}, start.Add(20*time.Second)), a.take(Event{Kind: Result}, start.Add(21*time.Second))), "%s", name)
	}
}

func TestAllowanceOfEvents(t *testing.T) {
	a := newAllowance(model.Flow{Points: 3})
	now := time.Now()
	for _, e := range []Event{{Kind: Ready}, {Kind: Measured}, {Kind: Result, Report: model.EndReport{Points: make([]model.Point, 3)}}} {
		must.OK(t, a.take(e, now), "%+v", e)
	}
	for _, e := range []Event{{Kind: Measured}, {Kind: Result, Report: model.EndReport{Points: make([]model.Point, 4)}}} {
		must.Is(t, a.take(e, now), ErrGreedy, "%+v", e)
	}
}
