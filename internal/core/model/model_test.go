package model

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func TestDirectionEnds(t *testing.T) {
	for _, c := range []struct {
		direction        Direction
		sender, receiver Host
		parts            []Direction
	}{
		{To, Near, Far, []Direction{To}},
		{From, Far, Near, []Direction{From}},
	} {
		must.True(t, c.direction.Sender() == c.sender && c.direction.Receiver() == c.receiver, "%s: %s sends, %s receives", c.direction, c.direction.Sender(), c.direction.Receiver())
		must.Same(t, c.direction.Parts(), c.parts, "%s: parts", c.direction)
	}
	must.Same(t, Both.Parts(), []Direction{To, From}, "both: parts")
}

func TestRunValue(t *testing.T) {
	r := Run{Values: []Value{
		{Direction: To, Metric: Goodput, Value: 1},
		{Direction: From, Metric: Goodput, Value: 2},
		{Direction: To, Metric: Retransmits, Value: 0},
	}}
	v, ok := r.Value(From, Goodput)
	must.True(t, v == 2 && ok, "goodput from: %g, %v", v, ok)
	v, ok = r.Value(To, Retransmits)
	must.True(t, v == 0 && ok, "a measured zero: %g, %v", v, ok)
	v, ok = r.Value(From, Retransmits)
	must.True(t, v == 0 && !ok, "a value that was not measured: %g, %v", v, ok)
}

func TestPlanSetting(t *testing.T) {
	p := Plan{Settings: []Setting{{Name: "current"}, {Name: "jumbo", Assignments: []Assignment{{Host: Near, Knob: "link.mtu", Value: "9000"}}}}}
	s, ok := p.Setting("jumbo")
	must.True(t, ok && len(s.Assignments) == 1, "jumbo: %+v, %v", s, ok)
	s, ok = p.Setting("other")
	must.True(t, !ok && s.Name == "", "other: %+v, %v", s, ok)
}

func TestIntervalJSON(t *testing.T) {
	inf := Bound(math.Inf(1))
	for _, c := range []struct {
		in   Interval
		want string
	}{
		{Interval{Low: -0.5, High: 0.25, Confidence: 0.95, Method: "t"}, `{"low":-0.5,"high":0.25,"confidence":0.95,"method":"t"}`},
		{Interval{Low: -inf, High: 0, Confidence: 1}, `{"low":null,"high":0,"confidence":1,"method":""}`},
		{Interval{Low: 0, High: inf}, `{"low":0,"high":null,"confidence":0,"method":""}`},
		{Interval{Low: -inf, High: inf}, `{"low":null,"high":null,"confidence":0,"method":""}`},
	} {
		b := must.Get(json.Marshal(c.in))(t)
		must.Equal(t, string(b), c.want, "%+v: %s", c.in, b)
		var back Interval
		err := json.Unmarshal(b, &back)
		must.True(t, err == nil && back == c.in, "%s: read back as %+v, %v", b, back, err)
	}
}

// An interval without an end is unbounded there.
func TestIntervalJSONWithoutEnds(t *testing.T) {
	var i Interval
	err := json.Unmarshal([]byte(`{}`), &i)
	must.True(t, err == nil && math.IsInf(float64(i.Low), -1) && math.IsInf(float64(i.High), 1), "{}: %+v, %v", i, err)
	must.Fail(t, json.Unmarshal([]byte(`{"low":"small"}`), &i), "a text as bound was read as %v", i.Low)
}

func TestIntervalJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Interval{
			Low:        Bound(rapid.Float64().Draw(t, "low")),
			High:       Bound(rapid.Float64().Draw(t, "high")),
			Confidence: rapid.Float64Range(0, 1).Draw(t, "confidence"),
			Method:     rapid.String().Draw(t, "method"),
		}
		if rapid.Bool().Draw(t, "no low") {
			want.Low = Bound(math.Inf(-1))
		}
		if rapid.Bool().Draw(t, "no high") {
			want.High = Bound(math.Inf(1))
		}
		b := must.Get(json.Marshal(want))(t)
		var got Interval
		err := json.Unmarshal(b, &got)
		must.Need(t, err == nil && got == want, "%s: %+v, %v, want %+v", b, got, err, want)
	})
}

// A session is stored and exported as JSON, which must not lose anything, least of all unknown
// and infinite values.
func TestSessionJSONRoundTrip(t *testing.T) {
	p, evidence := 0.03, 21.5
	want := fullSession(&p, &evidence)
	b := must.Get(json.Marshal(want))(t)
	var got Session
	must.Do(t, json.Unmarshal(b, &got))
	facts := []cmp.Option{
		cmp.Comparer(func(a, b fact.Of[int]) bool { return a == b }),
		cmp.Comparer(func(a, b fact.Of[int64]) bool { return a == b }),
		cmp.Comparer(func(a, b fact.Of[bool]) bool { return a == b }),
		cmp.Comparer(func(a, b fact.Of[string]) bool { return a == b }),
		cmp.Comparer(func(a, b fact.Of[float64]) bool { return a == b }),
		cmp.Comparer(func(a, b fact.Of[units.BitRate]) bool { return a == b }),
		cmp.Comparer(func(a, b fact.Of[units.Bytes]) bool { return a == b }),
		cmp.Comparer(func(a, b fact.Of[time.Duration]) bool { return a == b }),
	}
	must.NoDiff(t, cmp.Diff(want, got, facts...), "after a round trip")
	must.True(t, !strings.Contains(string(b), `"ended":"0001`) || !want.Ended.IsZero(), "a session that has not ended says when it did")
}

func fullSession(p, evidence *float64) Session {
	started := time.Date(2026, 11, 21, 1, 32, 9, 5, time.UTC)
	flow := Flow{Engine: "tcpbulk", Direction: Both, Streams: 2, Duration: 10 * time.Second, Omit: time.Second,
		Interval: time.Second, Block: 128 << 10, Window: 1 << 20, MSS: 1448, Nagle: true, Congestion: "cubic"}
	return Session{
		ID: "20261121T013209-x7k2", Kind: KindRun, Title: "receive ceiling", Command: []string{"linerate", "run"},
		Near: "local", Far: "lab:rate=1gbit", Version: "1", Created: started, State: SessionRunning,
		Plan: Plan{
			Settings: []Setting{{Name: "current"}, {Name: "64KiB", Assignments: []Assignment{{Host: Far, Knob: "tcp.recv_buffer_max", Value: "65536"}}}},
			Baseline: "current", Factor: "tcp.recv_buffer_max", Levels: []string{"64KiB"}, Flow: flow, Mode: Sequential,
			Directions: []Direction{To, From}, MaxBlocks: 20, Budget: time.Hour, Margin: 3, Tolerance: 5, Confidence: 0.95, Settle: time.Second,
			Seed: math.MaxUint64, NullBlocks: 1, Order: [][]string{{"current", "64KiB"}},
		},
		Hosts: []HostFacts{{Host: Near, Name: "desk", OS: "linux", Arch: "amd64", CPUs: 4, MTU: fact.Known(1500, "netlink"),
			LinkRate: fact.Unknown[units.BitRate]("virtual link"),
			Knobs:    map[KnobID]fact.Of[string]{"link.mtu": fact.Known("1500", "netlink"), "x": fact.Unknown[string]("no such file")}}},
		WireRate: fact.Known(units.BitRate(1e9), "user"),
		Runs: []Run{{Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: "current", Flow: flow, Started: started,
			Ended: started.Add(time.Minute), State: RunInvalid, LostContact: true, Values: []Value{{To, Goodput, 941e6}},
			Ends: []EndReport{{Host: Far, SystemBusy: fact.Known(0.5, "/proc/stat"), Flows: []FlowReport{{Direction: To, Role: Sender,
				Bytes: 1 << 40, Window: time.Second, Streams: []units.Bytes{1, 2},
				TCP: &TCPSummary{SACK: fact.Known(false, "TCP_INFO"), Retransmits: fact.Known(int64(0), "TCP_INFO")}}}}}}},
		Changes:  []Change{{Run: 1, Host: Far, Knob: "link.mtu", Native: "mtu", Old: "1500", New: "9000", State: ChangeUndone}},
		Findings: []Finding{{Rule: "B07", Direction: To, Host: Far, Limit: "receive window", Share: fact.Known(0.7, "TCP_INFO")}},
		Verdicts: []Verdict{{Setting: "64KiB", Baseline: "current", Direction: To, Metric: Goodput, Outcome: Undecided, Blocks: 3,
			Interval: Interval{Low: Bound(math.Inf(-1)), High: 0.1}, Family: &Interval{Low: 0, High: Bound(math.Inf(1))},
			P: p, Evidence: evidence}},
		Plateaus: []Plateau{{Direction: To, Metric: Goodput, Decided: true, Level: "64KiB", Tolerance: 5}},
	}
}

func TestRunLength(t *testing.T) {
	p := Plan{Settle: 2 * time.Second, Cooldown: time.Second, Flow: Flow{Omit: 3 * time.Second, Duration: 10 * time.Second}}
	must.Equal(t, p.RunLength(), 16*time.Second, "RunLength")
}

func TestHostNames(t *testing.T) {
	for word, want := range map[string]Host{"near": Near, "far": Far, "a": "", "b": "", "Far": "", "": ""} {
		h, ok := ParseHost(word)
		must.True(t, h == want && ok == (want != ""), "%q is host %q, %v", word, h, ok)
	}
	name := Far.Of("tcp.sack")
	must.True(t, name == "far.tcp.sack" && Host("").Of("window") == "window", "a knob of the far host is %s", name)
}

func TestParsePorts(t *testing.T) {
	for text, want := range map[string]Ports{
		"5300": {5300, 5300}, "5300-5310": {5300, 5310}, " 1 ": {1, 1}, "65535": {65535, 65535},
		"": {}, "0": {}, "65536": {}, "-1": {}, "5310-5300": {}, "5300-": {}, "a": {}, "5300-5310-5320": {}, "0-0": {}, "ssh": {},
	} {
		got, err := ParsePorts(text)
		must.True(t, got == want && (err == nil) == (want != Ports{}), "%q: %v, %v", text, got, err)
		if err != nil {
			continue
		}
		must.Equal(t, must.Get(ParsePorts(got.String()))(t), got, "%q read back", got)
		must.True(t, got.Has(got.First) && !got.Has(got.First-1) && !got.Has(got.Last+1), "%v has the wrong ones", got)
	}
	must.True(t, (Ports{}).Has(40000) && (Ports{}).Valid(), "any port")
}

func TestDataPathWords(t *testing.T) {
	for want, p := range map[string]DataPath{
		"": {}, "through ssh": {Through: ThroughSSH},
		"the far end connects to the near one, data port 5300-5301": {ConnectFrom: Far, Ports: Ports{5300, 5301}},
	} {
		must.Equal(t, p.String(), want, "%+v", p)
	}
	must.Fail(t, must.Err(ParseConnectFrom("FAR")), "FAR is taken")
	must.Fail(t, must.Err(ParseThrough("vpn")), "vpn is taken")
}

// fill puts a mark into every text of v at any depth, and 1 into every number.
func fill(v reflect.Value) {
	if v.CanAddr() {
		switch f := v.Addr().Interface().(type) {
		case *fact.Of[string]:
			*f = fact.Known("MARK", "MARK of a source")
			return
		case *fact.Of[[]string]:
			*f = fact.Known([]string{"MARK"}, "MARK of a source")
			return
		case *fact.Of[int]:
			*f = fact.Unknown[int]("MARK of a reason")
			return
		case *fact.Of[units.BitRate]:
			*f = fact.Unknown[units.BitRate]("MARK of a reason")
			return
		}
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("MARK")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	default: // a number holds no text
	}
}

// TestPublicIsAList fills every field of a host, including future ones: Public keeps only those
// on the list.
func TestPublicIsAList(t *testing.T) {
	var f HostFacts
	fill(reflect.ValueOf(&f).Elem())
	for _, s := range []*string{&f.OS, &f.Arch, &f.Version, &f.Address} {
		*s = "told"
	}
	f.Host, f.Congestion, f.Qdisc = Far, fact.Known("cubic", "MARK"), fact.Known("fq", "MARK")
	f.Knobs["tcp.sack"] = fact.Known("1", "MARK")
	b := must.Get(json.Marshal(f.Public()))(t)
	must.True(t, !strings.Contains(string(b), "MARK"), "told: %s", b)
	for _, want := range []string{`"cubic"`, `"fq"`, `"tcp.sack"`, `"told"`} {
		must.Contain(t, string(b), want)
	}
}

// TestEndNames: ends in one report have distinct names.
func TestEndNames(t *testing.T) {
	for _, c := range []struct{ targets, want []string }{
		{[]string{"root@nas", "pi:5299", "nas2"}, []string{"nas", "pi", "nas2"}},
		{[]string{"nas:5299", "nas:5300"}, []string{"nas", "nas:5300"}},
		{[]string{"exec:10.99.0.2 a", "exec:10.99.0.2 b", "nas"}, []string{"exec:10.99.0.2 a", "exec:10.99.0.2 b", "nas"}},
		{[]string{"linerate://K1@nas", "linerate://K2@nas"}, []string{"linerate://K1@nas", "linerate://K2@nas"}},
		{[]string{"root@nas", "root@nas"}, []string{"nas", "nas"}},
	} {
		must.Same(t, EndNames(c.targets), c.want, "%q", c.targets)
	}
}

// TestNames: the far end has the name that the person used, and the near end its own.
func TestNames(t *testing.T) {
	for _, c := range []struct{ near, far, nearSelf, farSelf, arrow, way string }{
		{ThisMachine, "db1", "desk", "vm7", "desk -> db1", "from db1"},
		{ThisMachine, "root@10.0.0.7", "desk", "vm7", "desk -> 10.0.0.7", "from 10.0.0.7"},
		{"root@db0", "ssh://root@db1:2222", "vm6", "vm7", "db0 -> db1:2222", "from db1:2222"},
		{ThisMachine, "linerate://PIN.SECRET@nas:5299", "", "vm7", "this machine -> nas", "from nas"},
		{ThisMachine, "exec:10.0.0.2 ip netns exec b linerate agent", "desk", "desk", "desk -> 10.0.0.2", "from 10.0.0.2"},
		{ThisMachine, "iperf3://[fd00::2]:5201", "desk", "", "desk -> [fd00::2]:5201", "from [fd00::2]:5201"},
		{ThisMachine, "root@desk", "desk", "desk", "desk (near) -> desk (far)", "from desk (far)"},
		{"lab:rate=1gbit", "lab:rate=1gbit", "near", "far", "near -> far", "from far"},
		{"10.0.0.9", ThisMachine, "", "desk", "10.0.0.9 -> desk", "from desk"},
		{"", "", "", "", "near -> far", "from far"},
	} {
		s := Session{Near: c.near, Far: c.far, Hosts: []HostFacts{{Host: Near, Name: c.nearSelf}, {Host: Far, Name: c.farSelf}}}
		n := s.Names()
		must.Equal(t, n.Arrow(To), c.arrow, "%+v", c)
		must.Equal(t, n.Way(From), c.way, "%+v", c)
	}
}
