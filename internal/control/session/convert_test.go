package session

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func text(most int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return clean(rapid.StringN(0, most/4, most).Draw(t, "text"), most)
	})
}

func name() *rapid.Generator[string] {
	return rapid.StringMatching(`[a-z][a-z0-9._]{0,30}`)
}

func facts[T any](g *rapid.Generator[T]) *rapid.Generator[fact.Of[T]] {
	return rapid.Custom(func(t *rapid.T) fact.Of[T] {
		source := text(40).Draw(t, "source")
		if rapid.Bool().Draw(t, "known") {
			return fact.Known(g.Draw(t, "value"), source)
		}
		return fact.Unknown[T](source)
	})
}

func number[T ~int | ~int64]() *rapid.Generator[fact.Of[T]] {
	return facts(rapid.Map(rapid.Int64Range(0, maxBytes), func(n int64) T { return T(n) }))
}

func length() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(0, int64(MaxDuration)), func(n int64) time.Duration { return time.Duration(n) })
}

func finite() *rapid.Generator[float64] {
	return rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64)
}

// failer is a test, of package testing or of rapid.
type failer interface {
	must.TB
	Fatalf(format string, args ...any)
}

// through sends a message over the wire format and back.
func through[M proto.Message](t failer, m, empty M) M {
	b := must.Get(proto.Marshal(m))(t)
	must.Do(t, proto.Unmarshal(b, empty))
	return empty
}

// same compares values, facts with their unexported parts.
func same(t failer, c check, got, want any) {
	if c.err != nil {
		t.Fatal(c.err)
	}
	if d := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); d != "" {
		t.Fatalf("-want +got:\n%s", d)
	}
}

func flows() *rapid.Generator[model.Flow] {
	return rapid.Custom(func(t *rapid.T) model.Flow {
		return model.Flow{
			Engine:    name().Draw(t, "engine"),
			Direction: rapid.SampledFrom([]model.Direction{model.To, model.From, model.Both}).Draw(t, "direction"),
			Streams:   rapid.IntRange(0, MaxStreams).Draw(t, "streams"),
			Duration:  1 + length().Draw(t, "duration")/2, Omit: length().Draw(t, "omit"),
			Bytes:      units.Bytes(rapid.Int64Range(0, maxBytes).Draw(t, "bytes")),
			Interval:   MinInterval + length().Draw(t, "interval")/2,
			Block:      units.Bytes(rapid.Int64Range(0, maxBlock).Draw(t, "block")),
			Window:     units.Bytes(rapid.Int64Range(0, math.MaxInt32).Draw(t, "window")),
			MSS:        rapid.IntRange(0, maxMSS).Draw(t, "mss"),
			Nagle:      rapid.Bool().Draw(t, "nagle"),
			Congestion: rapid.SampledFrom([]string{"", "bbr", "cubic"}).Draw(t, "congestion"),
		}
	})
}

func TestFlowRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := flows().Draw(t, "flow")
		var c check
		same(t, c, decodeFlow(&c, through(t, encodeFlow(want), &sessionpb.Flow{})), want)
	})
}

func knobs() *rapid.Generator[map[model.KnobID]fact.Of[string]] {
	return rapid.Custom(func(t *rapid.T) map[model.KnobID]fact.Of[string] {
		m := rapid.MapOfN(name(), facts(text(60)), 0, 5).Draw(t, "knobs")
		if len(m) == 0 {
			return nil
		}
		out := map[model.KnobID]fact.Of[string]{}
		for k, v := range m {
			out[model.KnobID(k)] = v
		}
		return out
	})
}

func TestFactsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := model.HostFacts{
			Host: model.Far, Name: text(40).Draw(t, "name"), OS: "linux", Arch: "arm64",
			Kernel: facts(text(40)).Draw(t, "kernel"), CPUs: rapid.IntRange(0, maxCPUs).Draw(t, "cpus"),
			Version: "v1", Address: text(20).Draw(t, "address"), Interface: facts(text(15)).Draw(t, "interface"),
			MTU: number[int]().Draw(t, "mtu"), Congestion: facts(text(15)).Draw(t, "cc"), Qdisc: facts(text(15)).Draw(t, "qdisc"),
			LinkRate: facts(rapid.Map(finite(), func(f float64) units.BitRate { return units.BitRate(f) })).Draw(t, "rate"),
			Knobs:    knobs().Draw(t, "knobs"),
			Machine:  rapid.Ptr(machines(), true).Draw(t, "machine"), Route: rapid.Ptr(routes(), true).Draw(t, "route"),
			NICs: interfaces().Draw(t, "nics"),
		}
		var c check
		same(t, c, decodeFacts(&c, through(t, encodeFacts(want), &sessionpb.HostFacts{}), model.Far), want)
	})
}

// TestBlanksStay: texts that end in blanks, or hold nothing else, arrive as they
// are. Each of these was found by chance, when the ends of a text were cut.
func TestBlanksStay(t *testing.T) {
	t.Run("detail of a change", func(t *testing.T) {
		want := []model.Change{{Host: model.Near, Knob: "a", State: model.ChangeApplied, Detail: " "}}
		var c check
		p := through(t, &sessionpb.UndoResponse{Changes: encodeChanges(want)}, &sessionpb.UndoResponse{})
		same(t, c, decodeChanges(&c, p.GetChanges(), model.Near), want)
	})
	t.Run("why a fact of a host is unknown", func(t *testing.T) {
		want := model.HostFacts{Host: model.Far, LinkRate: fact.Unknown[units.BitRate](" ")}
		var c check
		same(t, c, decodeFacts(&c, through(t, encodeFacts(want), &sessionpb.HostFacts{}), model.Far), want)
	})
	for name, want := range map[string]model.EndReport{
		"why a fact of TCP is unknown": {Host: model.Far, Flows: []model.FlowReport{{
			Direction: model.From, Role: model.Sender, TCP: &model.TCPSummary{SendBuffer: fact.Unknown[units.Bytes](" ")}}}},
		"log of a message size": {Host: model.Far, Points: []model.Point{{Trials: []time.Duration{0}}, {Stalled: true, Log: []string{"A "}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var c check
			event := Event{Kind: Result, Report: want}
			same(t, c, decodeEvent(&c, through(t, encodeEvent(event), &sessionpb.RunResponse{}), model.Far), event)
		})
	}
}

func TestChangesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := []model.Change{{
			Host: model.Near, Knob: model.KnobID(name().Draw(t, "knob")), Native: text(40).Draw(t, "native"),
			Old: text(40).Draw(t, "old"), New: text(40).Draw(t, "new"), Detail: text(80).Draw(t, "detail"),
			State: rapid.SampledFrom([]model.ChangeState{
				model.ChangeApplied, model.ChangeUndone, model.ChangeForeign, model.ChangeFailed,
			}).Draw(t, "state"),
		}}
		var c check
		p := through(t, &sessionpb.UndoResponse{Changes: encodeChanges(want)}, &sessionpb.UndoResponse{})
		same(t, c, decodeChanges(&c, p.GetChanges(), model.Near), want)

		as := []model.Assignment{{Host: model.Near, Knob: want[0].Knob, Value: want[0].New}}
		q := through(t, &sessionpb.ApplyRequest{Assignments: encodeAssignments(as)}, &sessionpb.ApplyRequest{})
		same(t, c, decodeAssignments(&c, q.GetAssignments(), model.Near), as)
		as[0] = model.Assignment{Host: model.Near, Knob: "cmd:shaper", Value: model.On, Command: model.Command{
			Run: text(40).Draw(t, "run") + "x", Undo: "x" + text(40).Draw(t, "undo"), Limit: time.Second}}
		q = through(t, &sessionpb.ApplyRequest{Assignments: encodeAssignments(as)}, &sessionpb.ApplyRequest{})
		same(t, c, decodeAssignments(&c, q.GetAssignments(), model.Near), as)
	})
}

func summary() *rapid.Generator[*model.TCPSummary] {
	return rapid.Custom(func(t *rapid.T) *model.TCPSummary {
		d, b := number[time.Duration](), number[units.Bytes]()
		return &model.TCPSummary{
			Congestion: facts(text(10)).Draw(t, "cc"), MSS: number[int]().Draw(t, "mss"), PathMTU: number[int]().Draw(t, "pmtu"),
			Timestamps: facts(rapid.Bool()).Draw(t, "ts"), SACK: facts(rapid.Bool()).Draw(t, "sack"), ECN: facts(rapid.Bool()).Draw(t, "ecn"),
			SendScale: number[int]().Draw(t, "snd"), RecvScale: number[int]().Draw(t, "rcv"),
			Retransmits: number[int64]().Draw(t, "retrans"), SegmentsOut: number[int64]().Draw(t, "out"),
			Busy: d.Draw(t, "busy"), RwndLimited: d.Draw(t, "rwnd"), SndbufLimited: d.Draw(t, "sndbuf"),
			RTT: d.Draw(t, "rtt"), RTTMin: d.Draw(t, "rttmin"),
			Cwnd: b.Draw(t, "cwnd"), PeerWindow: b.Draw(t, "peer"), SendBuffer: b.Draw(t, "buffer"),
		}
	})
}

func TestEventsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := []Event{
			{Kind: Ready, Warnings: []string{text(80).Draw(t, "warning")}},
			{Kind: Measured},
			{Kind: Samples, Samples: []model.Sample{{
				Host: model.Far, Metric: model.Metric(name().Draw(t, "metric")), Value: finite().Draw(t, "value"),
				Direction: rapid.SampledFrom([]model.Direction{"", model.To, model.From}).Draw(t, "direction"),
				Start:     length().Draw(t, "start"), Length: length().Draw(t, "length"), Omitted: rapid.Bool().Draw(t, "omitted"),
			}}},
			{Kind: Result, Report: model.EndReport{
				Host: model.Far, CPUUser: length().Draw(t, "user"), CPUSystem: length().Draw(t, "system"),
				CPUWindow: length().Draw(t, "window"), SystemBusy: facts(finite()).Draw(t, "busy"),
				Waiting: text(20).Draw(t, "waiting"), Warnings: []string{text(80).Draw(t, "warning")},
				Flows: []model.FlowReport{{
					Direction: model.To, Role: rapid.SampledFrom([]model.Role{model.Sender, model.Receiver}).Draw(t, "role"),
					Bytes: 5, Window: length().Draw(t, "length"), Streams: []units.Bytes{1, 4}, TCP: summary().Draw(t, "tcp"),
				}},
			}},
		}
		for _, want := range events {
			var c check
			same(t, c, decodeEvent(&c, through(t, encodeEvent(want), &sessionpb.RunResponse{}), model.Far), want)
		}
	})
}

// What a kernel or a program says is sent whatever it holds.
func TestEncodedTextPassesDecoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dirty := string(rapid.SliceOfN(rapid.Byte(), 0, 6000).Draw(t, "bytes"))
		var c check
		c.text("text", clean(dirty, MaxText), MaxText)
		if c.err != nil {
			t.Fatal(c.err)
		}
	})
	if got := clean("a\x1b[31mb\tc\xff"+strings.Repeat("é", 10), 12); got != "a [31mb\tc\uFFFD" || !utf8.ValidString(got) {
		t.Errorf("%q", got)
	}
}

func TestDecodingRefuses(t *testing.T) {
	flow := func(f func(p *sessionpb.Flow)) func(*check) {
		p := encodeFlow(model.Flow{Engine: "e", Direction: model.To, Duration: time.Second})
		f(p)
		return func(c *check) { decodeFlow(c, p) }
	}
	sample := func(p *sessionpb.Sample) func(*check) {
		return func(c *check) { decodeSamples(c, []*sessionpb.Sample{p}, model.Far) }
	}
	assign := func(as ...*sessionpb.Assignment) func(*check) {
		return func(c *check) { decodeAssignments(c, as, model.Far) }
	}
	far := sessionpb.End_END_FAR
	for name, decode := range map[string]func(*check){
		"no direction":              flow(func(p *sessionpb.Flow) { p.Direction = 0 }),
		"odd direction":             flow(func(p *sessionpb.Flow) { p.Direction = 77 }),
		"streams":                   flow(func(p *sessionpb.Flow) { p.Streams = math.MaxUint32 }),
		"negative time":             flow(func(p *sessionpb.Flow) { p.DurationNs = -1 }),
		"eternity":                  flow(func(p *sessionpb.Flow) { p.DurationNs = math.MaxInt64 }),
		"block":                     flow(func(p *sessionpb.Flow) { p.Block = maxBlock + 1 }),
		"window":                    flow(func(p *sessionpb.Flow) { p.Window = math.MaxInt64 }),
		"interval":                  flow(func(p *sessionpb.Flow) { p.IntervalNs = 1 }),
		"no engine":                 flow(func(p *sessionpb.Flow) { p.Engine = "" }),
		"escape sequence":           flow(func(p *sessionpb.Flow) { p.Engine = "\x1b]0;x\a" }),
		"long name":                 flow(func(p *sessionpb.Flow) { p.Engine = strings.Repeat("x", MaxName+1) }),
		"nil flow":                  func(c *check) { decodeFlow(c, nil) },
		"not a number":              sample(&sessionpb.Sample{Metric: "m", Value: math.NaN()}),
		"infinite":                  sample(&sessionpb.Sample{Metric: "m", Value: math.Inf(1)}),
		"both in a sample":          sample(&sessionpb.Sample{Metric: "m", Direction: sessionpb.Direction_DIRECTION_BOTH}),
		"no metric":                 sample(&sessionpb.Sample{}),
		"no assignments":            assign(),
		"wrong host":                assign(&sessionpb.Assignment{End: sessionpb.End_END_NEAR, Knob: "k"}),
		"knob of no host":           assign(&sessionpb.Assignment{Knob: "k"}),
		"command without a name":    assign(command("tcp.sack", "on", "true", "true", 1e9)),
		"name without its command":  assign(&sessionpb.Assignment{End: far, Knob: "cmd:x", Value: "on"}),
		"command with a level":      assign(command("cmd:x", "1", "true", "true", 1e9)),
		"command of two lines":      assign(command("cmd:x", "on", "true\nfalse", "true", 1e9)),
		"command that hides itself": assign(command("cmd:x", "on", "true\u202efalse", "true", 1e9)),
		"command without undo":      assign(command("cmd:x", "on", "true", " ", 1e9)),
		"command without limit":     assign(command("cmd:x", "on", "true", "true", 0)),
		"command for hours":         assign(command("cmd:x", "on", "true", "true", 3600e9)),
		"knob twice":                assign(&sessionpb.Assignment{End: far, Knob: "k"}, &sessionpb.Assignment{End: far, Knob: "k"}),
		"empty event":               func(c *check) { decodeEvent(c, &sessionpb.RunResponse{}, model.Far) },
		"nil result":                func(c *check) { decodeFlowReport(c, nil) },
		"fact of a kind":            func(c *check) { decodeText(c, "f", &sessionpb.Fact{Value: &sessionpb.Fact_Number{Number: 1}}) },
		"negative number":           func(c *check) { decodeNumber[int](c, "f", &sessionpb.Fact{Value: &sessionpb.Fact_Number{Number: -1}}) },
		"knob read twice":           func(c *check) { decodeKnobs(c, []*sessionpb.Knob{{Id: "k"}, {Id: "k"}}) },
		"change state":              func(c *check) { decodeChanges(c, []*sessionpb.Change{{Knob: "k"}}, model.Far) },
		"address":                   func(c *check) { c.hostPort("a", "host:0") },
		"many samples":              func(c *check) { decodeSamples(c, make([]*sessionpb.Sample, MaxSamples+1), model.Far) },
		"many flows": func(c *check) {
			decodeReport(c, &sessionpb.EndReport{Flows: make([]*sessionpb.FlowReport, 5)}, model.Far)
		},
		"many streams": func(c *check) {
			decodeFlowReport(c, &sessionpb.FlowReport{Direction: 1, Role: 1, Streams: make([]int64, MaxStreams+1)})
		},
	} {
		var c check
		if decode(&c); !errors.Is(c.err, ErrInvalid) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

// command is an assignment of a command for the far host.
func command(id, value, run, undo string, limit int64) *sessionpb.Assignment {
	return &sessionpb.Assignment{End: sessionpb.End_END_FAR, Knob: id, Value: value, Command: &sessionpb.Command{Run: run, Undo: undo, LimitNs: limit}}
}
