package knob_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func TestParseAndFormat(t *testing.T) {
	for _, c := range []struct{ knob, text, canonical, people string }{
		{"tcp.recv_buffer_max", "64KiB", "65536", "64 KiB"},
		{"tcp.recv_buffer_max", " 4096 ", "4096", "4 KiB"},
		{"tcp.sack", "on", "1", "on"},
		{"tcp.sack", "OFF", "0", "off"},
		{"tcp.timestamps", "2", "2", "2 (on, without an offset)"},
		{"tcp.mtu_probing", "off", "0", "0 (off)"},
		{"tcp.congestion_control", "bbr", "bbr", "bbr"},
		{"link.mtu", "9000", "9000", "9000 B"},
		{"txqueuelen", "0", "0", "0 packets"},
		{"window", "auto", "0", "auto"},
		{"window", "1M", "1048576", "1 MiB"},
		{"streams", "4", "4", "4 streams"},
		{"rate", "100M", "100000000", "100 Mbit/s"},
		{"rate", "2.5 gbit/s", "2500000000", "2.5 Gbit/s"},
		{"rate", "0", "0", "unlimited"},
	} {
		k, ok := knob.NewIndex().ByID(model.KnobID(c.knob))
		must.Need(t, ok, "no knob %s", c.knob)
		got, err := k.Parse(c.text)
		must.True(t, got == c.canonical && err == nil, "%s: Parse(%q) = %q, %v, want %q", c.knob, c.text, got, err, c.canonical)
		must.Equal(t, k.Format(got), c.people, "%s: Format(%q)", c.knob, got)
	}
}

func TestParseSaysWhatWouldBeRight(t *testing.T) {
	for _, c := range []struct{ knob, text, want string }{
		{"tcp.recv_buffer_max", "1", "a size from 4 KiB to 2"},
		{"tcp.recv_buffer_max", "3GiB", "such as 64KiB"},
		{"tcp.sack", "maybe", "on or off"},
		{"tcp.timestamps", "3", "0 (off), 1 (on, with a random offset)"},
		{"tcp.congestion_control", "../etc", "such as cubic"},
		{"tcp.congestion_control", "a_name_of_sixteen", "1 to 15"},
		{"link.mtu", "500", "576 to 65535 bytes"},
		{"streams", "0", "1 to 128 streams"},
		{"window", "-1", "or auto"},
		{"rate", "100MB", "such as 100M, or unlimited: bit rate"},
		{"rate", "10", "a rate from 1 kbit/s to 1 Tbit/s"},
	} {
		k, _ := knob.NewIndex().ByID(model.KnobID(c.knob))
		_, err := k.Parse(c.text)
		_, ok := errors.AsType[*knob.ValueError](err)
		must.True(t, ok && strings.Contains(err.Error(), c.want), "%s: Parse(%q) = %v, want a value error that says %q", c.knob, c.text, err, c.want)
	}
}

// TestCanonicalIsAFixedPoint: parsing the output of Parse returns it unchanged.
func TestCanonicalIsAFixedPoint(t *testing.T) {
	all := knob.Catalogue()
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(all).Draw(t, "knob")
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9]{1,10}( ?[KMG]i?B?)?`),
			rapid.SampledFrom([]string{"on", "off", "auto", "cubic"})).Draw(t, "text")
		canonical, err := k.Parse(text)
		if err != nil {
			return
		}
		again, err := k.Parse(canonical)
		must.Need(t, again == canonical && err == nil, "%s: Parse(%q) = %q, which parses to %q, %v", k.ID, text, canonical, again, err)
	})
}

func TestSuggest(t *testing.T) {
	for text, want := range map[string]model.KnobID{
		"tcp_rmem":              "tcp.recv_buffer_max",
		"net.ipv4.tcp_sack":     "tcp.sack",
		"net/ipv4/tcp_sack":     "tcp.sack",
		"tcp.sakc":              "tcp.sack",
		"mtu":                   "link.mtu",
		"tcp.recv-buffer-max":   "tcp.recv_buffer_max",
		"net.inet.tcp.sack":     "tcp.sack",
		"Window":                "window",
		"tcp.congestion_contrl": "tcp.congestion_control",
	} {
		got := knob.NewIndex().Suggest(text)
		must.True(t, len(got) != 0 && got[0] == want, "Suggest(%q) = %v, want %s first", text, got, want)
	}
	got := knob.NewIndex().Suggest("completely.different.thing")
	must.True(t, got == nil, "Suggest of nothing similar = %v", got)
}

func TestApplyFlow(t *testing.T) {
	base := model.Flow{Engine: "tcpbulk", Nagle: true}
	got, err := knob.ApplyFlow(base, []model.Assignment{
		{Knob: "window", Value: "64KiB"}, {Knob: "mss", Value: "1400"}, {Knob: "streams", Value: "4"},
		{Knob: "block", Value: "131072"}, {Knob: "nodelay", Value: "1"}, {Knob: "congestion", Value: "bbr"},
	})
	want := model.Flow{Engine: "tcpbulk", Window: 65536, MSS: 1400, Streams: 4, Block: 131072, Congestion: "bbr"}
	diff := cmp.Diff(want, got)
	must.True(t, diff == "" && err == nil, "ApplyFlow: %v\n%s", err, diff)
	datagrams := model.Flow{Engine: "udpflow", Params: traffic.Write(udp.Params{Pacing: "clock"})}
	got, err = knob.ApplyFlow(datagrams, []model.Assignment{{Knob: "rate", Value: "100M"}})
	must.True(t, err == nil && got.Params == traffic.Write(udp.Params{Rate: 100e6, Pacing: "clock"}), "ApplyFlow of a rate: %+v, %v", got.Params, err)
	got, err = knob.ApplyFlow(probes.Over(datagrams), []model.Assignment{{Knob: "rate", Value: "100M"}})
	u, ok := udp.Of(got)
	must.True(t, err == nil && ok && u.Rate == 100e6 && got.Engine == probes.Name, "ApplyFlow of the rate of a load: %+v, %v", got, err)
	_, err = knob.ApplyFlow(base, []model.Assignment{{Knob: "rate", Value: "100M"}})
	must.True(t, err != nil && strings.Contains(err.Error(), "belongs to UDP"), "a rate of TCP: %v", err)
	_, err = knob.ApplyFlow(base, []model.Assignment{
		{Knob: "tcp.sack", Value: "1"}, {Host: model.Near, Knob: "mss", Value: "1400"}, {Knob: "widnow", Value: "1"}, {Knob: "mss", Value: "big"},
	})
	for _, want := range []string{"knob tcp.sack", `knob mss of host "near"`, "did you mean window", `value "big" of mss`} {
		must.Say(t, err, want, "ApplyFlow")
	}
}

func TestPlanOrdersChanges(t *testing.T) {
	now := map[model.KnobID]string{"tcp.recv_buffer_max": "6291456", "tcp.send_buffer_max": "4194304", "link.mtu": "1500", "tcp.sack": "1"}
	got := knob.NewIndex().Plan(now, []model.Assignment{
		{Knob: "link.mtu", Value: "9000"}, {Knob: "tcp.send_buffer_max", Value: "65536"},
		{Knob: "tcp.sack", Value: "0"}, {Knob: "tcp.recv_buffer_max", Value: "67108864"},
	})
	order := lists.Each(got, func(a model.Assignment) string { return string(a.Knob) })
	want := []string{"tcp.recv_buffer_max", "tcp.sack", "link.mtu", "tcp.send_buffer_max"} // grow, the rest by risk, shrink
	must.True(t, slices.Equal(order, want), "Plan = %v, want %v", order, want)
}

func BenchmarkByID(b *testing.B) {
	x := knob.NewIndex()
	for name, byID := range map[string]func() bool{
		"index": func() bool { _, ok := x.ByID("link.mtu"); return ok },
		"anew":  func() bool { _, ok := (*knob.Index)(nil).ByID("link.mtu"); return ok },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				must.Need(b, byID(), "no link.mtu")
			}
		})
	}
	b.Run("building the index", func(b *testing.B) {
		for b.Loop() {
			knob.NewIndex()
		}
	})
}

// asRunsRead reads a setting of the flow as runs did before there was a common parser:
// canonical texts only, and no range.
func asRunsRead(f *model.Flow, a model.Assignment) error {
	if a.Knob == "congestion" {
		f.Congestion = a.Value
		return nil
	}
	if a.Knob == "rate" {
		rate, err := strconv.ParseFloat(a.Value, 64)
		f.Params = traffic.Write(udp.Params{Rate: units.BitRate(rate)})
		return err
	}
	n, err := strconv.ParseInt(a.Value, 10, 64)
	if err != nil {
		return err
	}
	switch a.Knob {
	case "streams":
		f.Streams = int(n)
	case "block":
		f.Block = units.Bytes(n)
	case "window":
		f.Window = units.Bytes(n)
	case "mss":
		f.MSS = int(n)
	case "nodelay":
		f.Nagle = n == 0
	default:
		return errors.New("no such knob")
	}
	return nil
}

// TestOneReadingOfFlowSettings: for every knob of the flow, the values that a plan may hold,
// canonical and in range, mean the same as they did to runs before.
func TestOneReadingOfFlowSettings(t *testing.T) {
	seen := 0
	for _, k := range knob.Catalogue() {
		if k.Scope != knob.ScopeFlow {
			continue
		}
		seen++
		rapid.Check(t, func(t *rapid.T) {
			var text string
			switch k.Type {
			case knob.TypeName:
				text = rapid.SampledFrom([]string{"cubic", "bbr", "reno"}).Draw(t, "name")
			case knob.TypeBool:
				text = rapid.SampledFrom([]string{"0", "1"}).Draw(t, "switch")
			default:
				n := rapid.Int64Range(k.Min, k.Max).Draw(t, "number")
				if k.Zero != "" && rapid.Bool().Draw(t, "zero") {
					n = 0
				}
				text = fmt.Sprint(n)
			}
			a := model.Assignment{Knob: k.ID, Value: text}
			want := model.Flow{Engine: udp.Name, Streams: 2}
			got, err := knob.ApplyFlow(want, []model.Assignment{a})
			old := asRunsRead(&want, a)
			must.Need(t, old == nil && err == nil, "%s=%s: %v before, %v now", k.ID, text, old, err)
			diff := cmp.Diff(want, got)
			must.Need(t, diff == "", "%s=%s: %s", k.ID, text, diff)
		})
	}
	must.True(t, seen >= 7, "only %d knobs of the flow", seen)
}

// TestWhereTheReadingsDiffered decides between the old parsers. Runs took numbers outside every
// range, which the plan's range forbids. They took a rate to the last fraction of a bit, which
// a search compares. The catalogue's parser knew units.
func TestWhereTheReadingsDiffered(t *testing.T) {
	for _, c := range []struct {
		knob  model.KnobID
		value string
		ok    bool
	}{
		{"streams", "129", false}, {"streams", "0", false}, {"mss", "1", false}, {"window", "-1", false}, {"nodelay", "2", false},
		{"window", "64KiB", true}, {"rate", "100M", true}, {"rate", "unlimited", true}, {"nodelay", "off", true},
	} {
		_, err := knob.ApplyFlow(model.Flow{Engine: udp.Name}, []model.Assignment{{Knob: c.knob, Value: c.value}})
		must.True(t, (err == nil) == c.ok, "%s=%s: %v", c.knob, c.value, err)
	}
	f, err := knob.ApplyFlow(model.Flow{Engine: udp.Name}, []model.Assignment{{Knob: "rate", Value: "1234567.891"}})
	u, _ := udp.Of(f)
	must.True(t, err == nil && u.Rate == 1234567.891, "a rate of a search is %v, %v", u, err)
}

// TestOptionsOfKinds: an option that an engine lets plans vary is a knob of its flows, also
// when the engine is a load. It is a knob of no other engine, and an option that must be the
// same in all runs is no knob at all.
func TestOptionsOfKinds(t *testing.T) {
	kinds := []traffic.Kind{requests.Kind(), udp.Kind(), probes.Kind(udp.Kind())}
	load := probes.Over(model.Flow{Engine: udp.Name})
	for _, c := range []struct {
		flow        model.Flow
		knob        model.KnobID
		value, want string
	}{
		{model.Flow{Engine: requests.Name}, "reply", "65536", `{"reply":65536}`},
		{model.Flow{Engine: requests.Name}, "spin", "true", `{"spin":true}`},
		{load, "pacing", "clock", `{"engine":"udpflow","load":{"pacing":"clock"}}`},
		{load, "pacing", "hope", "unknown pacing"},
		{load, "reply", "1KiB", "belongs to engine reqresp, not to runs of engine loaded"},
		{model.Flow{Engine: requests.Name}, "connect", "true", "belongs to engine reqresp"},
		{load, "load", "udpflow", "belongs to engine loaded"},
		{load, "replies", "1", "unknown knob"},
	} {
		got, err := knob.ApplyFlow(c.flow, []model.Assignment{{Knob: c.knob, Value: c.value}}, kinds...)
		text := fmt.Sprint(got.Params, err)
		must.True(t, strings.Contains(text, c.want) && (err == nil || got.Params == c.flow.Params), "%s=%s: %s; want %s", c.knob, c.value, text, c.want)
	}
}

// TestWithSetting: a flow ignores the settings of a host, and a fault names the setting.
func TestWithSetting(t *testing.T) {
	f, err := knob.WithSetting(model.Flow{Engine: "filecopy"}, model.Setting{Name: "s", Assignments: []model.Assignment{
		{Host: model.Far, Knob: "link.mtu", Value: "x"}, {Knob: "streams", Value: "4"}, {Knob: "copy.sink", Value: "/srv"},
	}})
	c, _ := files.Of(f)
	must.True(t, err == nil && f.Streams == 4 && c.Sink == "/srv", "%+v, %v", f, err)
	_, err = knob.WithSetting(model.Flow{}, model.Setting{Name: "odd", Assignments: []model.Assignment{{Knob: "widnow", Value: "1"}, {Knob: "tcp.sack", Value: "1"}}})
	must.True(t, err != nil && strings.Contains(err.Error(), `setting "odd"`) && strings.Contains(err.Error(), "did you mean window") && strings.Contains(err.Error(), "tcp.sack"), "%v", err)
}
