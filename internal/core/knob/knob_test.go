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
	"linerate/internal/core/plan/plantest"
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

// sameValue compares a canonical value with the value of the place: a list with one value per
// queue equals its first value.
func sameValue(want, got string) bool {
	return got == want || strings.HasPrefix(want, got+";") || strings.HasPrefix(got, want+";")
}

// TestEncodings checks the native text of a value for each knob and system, and that it reads
// back.
func TestEncodings(t *testing.T) {
	const modes = " (supported=10baseT/Half,100baseT/Full,1000baseT/Full)"
	for _, c := range []struct{ system, knob, raw, value, want string }{
		{"linux", "tcp.recv_buffer_max", "4096\t131072\t33554432", "65536", "4096 65536 65536"},
		{"linux", "tcp.recv_buffer_initial", "4096 131072 33554432", "262144", "4096 262144 33554432"}, {"linux", "tcp.recv_buffer_initial", "4096 131072 33554432", "1024", "1024 1024 33554432"},
		{"linux", "tcp.recv_buffer_min", "4096 131072 33554432", "8192", "8192 131072 33554432"}, {"linux", "tcp.metrics_cache", "0", "0", "1"}, {"linux", "tcp.pmtud", "0", "0", "1"},
		{"freebsd", "tcp.window_scaling", "1", "0", "3"}, {"freebsd", "tcp.timestamps", "1", "0", "2"}, {"freebsd", "tcp.timestamps", "2", "1", "1"},
		{"freebsd", "tcp.window_scaling", "0", "1", "2"}, {"darwin", "tcp.congestion_control", "0", "newreno", "1"}, {"windows", "tcp.timestamps", "Disabled", "1", "Enabled"},
		{"windows", "tcp.slow_start_after_idle", "False", "1", "True"}, {"windows", "link.frame_mtu", "1514", "9000", "9014"}, {"windows", "link.frame_mtu", "1514", "4074", "4088"},
		{"windows", "tcp.pmtud", "absent", "0", "dword:0"}, {"windows", "nic.pause.rx", "3", "0", "1"}, {"windows", "nic.pause.tx", "0", "1", "1"}, {"windows", "nic.media.speed", "0", "100", "4"},
		{"windows", "nic.media.speed", "0", "2500", "2500"}, {"windows", "nic.media.duplex", "4", "half", "3"}, {"windows", "nic.media.autoneg", "6", "1", "0"},
		{"linux", "nic.offload.tso", "a=on b=off c=on(fixed)", "0", "a=off b=off c=on(fixed)"}, {"linux", "nic.offload.tso", "a=on b=off c=off(fixed)", "1", "a=on b=on c=off(fixed)"},
		{"linux", "rps", "rx-0=none rx-1=none rx-2=none", "0;1", "rx-0=0 rx-1=1 rx-2=0"},
		{"linux", "nic.media.speed", "autoneg=on advertise=1000baseT/Full" + modes, "100", "autoneg=off speed=100"},
		{"linux", "nic.media.speed", "autoneg=on advertise=a (supported=a; now=1000/full)", "10", "autoneg=off speed=10 duplex=full"},
		{"linux", "nic.media.duplex", "autoneg=on advertise=a (supported=a; now=100/full)", "half", "autoneg=off speed=100 duplex=half"},
		{"linux", "nic.media.autoneg", "autoneg=on advertise=a (now=100/half)", "0", "autoneg=off speed=100 duplex=half"}, {"linux", "nic.offload.tso", "a=on(held) b=off", "0", "a=off b=off"},
		{"linux", "nic.offload.tso", "a=off(held)", "1", "a=on"}, {"linux", "nic.media.duplex", "autoneg=off speed=100", "full", "autoneg=off speed=100 duplex=full"},
		{"linux", "nic.media.autoneg", "autoneg=off speed=100 duplex=full" + modes, "1", "autoneg=on advertise=10baseT/Half,100baseT/Full,1000baseT/Full"},
		{"linux", "nic.media.advertise", "autoneg=on advertise=1000baseT/Full" + modes, "100baseT/Full", "autoneg=on advertise=100baseT/Full"}, {"linux", "qdisc", "default (noqueue)", "fq", "fq"},
		{"freebsd", "nic.ring.rx", "0 (driver: 1024)", "4096", "4096"}, {"freebsd", "nic.media.speed", "autoselect", "1000", "1000baseT,full-duplex"},
		{"freebsd", "nic.media.speed", "1000baseT,full-duplex,rxpause", "0", "autoselect"}, {"freebsd", "nic.media.duplex", "100baseTX,full-duplex", "half", "100baseTX"},
		{"freebsd", "nic.media.duplex", "10baseT/UTP", "full", "10baseT/UTP,full-duplex"}, {"freebsd", "nic.media.duplex", "100baseTX", "auto", "autoselect"},
		{"freebsd", "nic.media.speed", "100baseTX", "10", "10baseT/UTP"}, // half duplex, as it was
		{"darwin", "nic.media.duplex", "100baseTX,full-duplex", "half", "100baseTX,half-duplex"},
		{"freebsd", "nic.pause.tx", "1000baseT,full-duplex,rxpause", "1", "1000baseT,full-duplex,rxpause,txpause"},
		{"darwin", "nic.pause.rx", "1000baseT,full-duplex", "1", "1000baseT,flow-control,full-duplex"}, {"darwin", "nic.eee", "autoselect,energy-efficient-ethernet", "0", "autoselect"},
	} {
		k, ok := knob.NewIndex().ByID(model.KnobID(c.knob))
		must.Need(t, ok, "no knob %s", c.knob)
		got, err := k.Encode(c.system, c.raw, c.value)
		if got != c.want || err != nil {
			t.Errorf("%s %s: %q with %s is %q, %v, want %q", c.system, c.knob, c.raw, c.value, got, err, c.want)
			continue
		}
		back, err := k.Decode(c.system, got)
		must.True(t, sameValue(c.value, back) && err == nil, "%s %s: %q reads as %q, %v, want %s", c.system, c.knob, got, back, err, c.value)
	}
}

func TestWhatCannotBeSaidIsUnsupported(t *testing.T) {
	for _, c := range []struct{ system, knob, raw, value string }{
		{"freebsd", "tcp.mtu_probing", "0", "2"}, {"darwin", "tcp.timestamps", "1", "2"}, {"freebsd", "tcp.timestamps", "1", "2"},
		{"darwin", "tcp.congestion_control", "0", "bbr"}, {"windows", "tcp.ecn", "Disabled", "2"}, {"windows", "nic.media.duplex", "0", "half"}, {"freebsd", "nic.media.duplex", "autoselect", "half"},
		{"linux", "nic.offload.lro", "rx-lro=off(fixed)", "1"}, {"linux", "nic.media.advertise", "autoneg=on advertise=a (supported=a)", "b"},
		{"freebsd", "nic.media.speed", "autoselect", "40000"}, {"linux", "nic.media.autoneg", "autoneg=off speed=10000 duplex=full", "1"},
		{"windows", "tcp.recv_buffer_max", "Normal", "2000000000"},
	} {
		k, _ := knob.NewIndex().ByID(model.KnobID(c.knob))
		must.Is(t, must.Err(k.Encode(c.system, c.raw, c.value)), errors.ErrUnsupported, "%s %s=%s", c.system, c.knob, c.value)
	}
}

// TestLevelIsTheLeastThatAllows: the autotuning level of Windows for a size.
func TestLevelIsTheLeastThatAllows(t *testing.T) {
	k, _ := knob.NewIndex().ByID("tcp.recv_buffer_max")
	for value, want := range map[string]string{"4096": "Disabled", "65535": "Disabled", "65536": "HighlyRestricted", "1048560": "Restricted", "16776960": "Normal", "16776961": "Experimental"} {
		must.Equal(t, must.Get(k.Encode("windows", "Normal", value))(t), want, "%s", value)
	}
}

// A switch that another feature holds reads as its actual value, not the requested one.
func TestHeldSwitchReadsAsItIs(t *testing.T) {
	k, _ := knob.NewIndex().ByID("nic.offload.tso")
	for raw, want := range map[string]string{"a=on(held) b=off": "0", "a=off(held)": "1", "a=on(held) b=on": "1", "a=on": "1"} {
		must.Equal(t, must.Get(k.Decode("linux", raw))(t), want, "%s reads as", raw)
	}
}

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		want, got string
		holds     bool
	}{
		{"fq", "fq (handle 1:)", true}, {"fq", "fq", true}, {"fq", "fq_codel (handle 1:)", false}, {"fq (handle 1:)", "fq (handle 2:)", false},
		{"fq (handle 1:)", "fq", false}, {"4096 1 2", "4096\t1\t2", true}, {"a=off(fixed)", "a=off(fixed)", true}, {"a=off", "a=off(fixed)", false},
		// Negotiated values, and those that another feature holds, change on their own.
		{"autoneg=on advertise=a (supported=a; now=1000/full)", "autoneg=on advertise=a (supported=a; now=100/full)", true},
		{"autoneg=on advertise=a (supported=a; now=1000/full)", "autoneg=on advertise=a (supported=a)", true},
		{"autoneg=on advertise=a (now=1000/full)", "autoneg=on advertise=a", true},
		{"autoneg=on advertise=a (supported=a; now=1000/full)", "autoneg=on advertise=b (supported=a; now=1000/full)", false},
		{"a=on(held) b=off", "a=on b=off", true}, {"a=off", "a=off(held)", true}, {"a=on", "a=off(held)", false},
	} {
		must.Equal(t, knob.Holds(c.want, c.got), c.holds, "Holds(%q, %q)", c.want, c.got)
	}
}

// TestKnobsOfOnePlaceCompose: two knobs in one text do not disturb each other.
func TestKnobsOfOnePlaceCompose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pairs := []struct{ system, a, b, raw string }{
			{"freebsd", "tcp.window_scaling", "tcp.timestamps", rapid.SampledFrom([]string{"0", "1", "2", "3"}).Draw(t, "rfc1323")},
			{"windows", "nic.pause.rx", "nic.pause.tx", rapid.SampledFrom([]string{"0", "1", "2", "3"}).Draw(t, "flow")},
			{"freebsd", "nic.pause.rx", "nic.pause.tx", rapid.SampledFrom([]string{"autoselect", "1000baseT,full-duplex,txpause"}).Draw(t, "media")},
		}
		p := rapid.SampledFrom(pairs).Draw(t, "pair")
		a, _ := knob.NewIndex().ByID(model.KnobID(p.a))
		b, _ := knob.NewIndex().ByID(model.KnobID(p.b))
		va, vb := rapid.SampledFrom([]string{"0", "1"}).Draw(t, "a"), rapid.SampledFrom([]string{"0", "1"}).Draw(t, "b")
		both := must.Get(b.Encode(p.system, must.Get(a.Encode(p.system, p.raw, va))(t), vb))(t)
		gotA, _ := a.Decode(p.system, both)
		gotB, _ := b.Decode(p.system, both)
		must.Need(t, gotA == va && gotB == vb, "%s: %q with %s=%s and %s=%s is %q, which reads %s and %s", p.system, p.raw, p.a, va, p.b, vb, both, gotA, gotB)
	})
}

// FuzzDecode: no native text of any system breaks a reader, and every value it reads can be
// written back.
func FuzzDecode(f *testing.F) {
	for _, raw := range []string{"1 2 3", "a=on b=off(fixed)", "autoneg=on advertise=x (supported=x)", "1000baseT,full-duplex", "dword:1", "absent", "fq (handle 1:)", "Enabled"} {
		f.Add(raw)
	}
	all := knob.Catalogue()
	f.Fuzz(func(_ *testing.T, raw string) {
		for _, k := range all {
			for system := range k.Native {
				if v, err := k.Decode(system, raw); err == nil {
					_, _ = k.Encode(system, raw, v)
				}
			}
		}
	})
}

func TestConstraints(t *testing.T) {
	freebsd := knob.Values{
		"socket.buffer_max": "2097152", "tcp.recv_buffer_initial": "65536", "tcp.send_buffer_initial": "32768",
		"tcp.recv_buffer_max": "1048576", "tcp.send_buffer_max": "1048576", "mbuf.clusters": "100000",
	}
	// As FreeBSD 12.1 starts: its own ceilings break the rule.
	stock := knob.Values{"socket.buffer_max": "2097152", "tcp.recv_buffer_initial": "65536", "tcp.recv_buffer_max": "2097152", "tcp.send_buffer_max": "2097152"}
	linux := knob.Values{
		"tcp.recv_buffer_min": "4096", "tcp.recv_buffer_initial": "131072", "tcp.recv_buffer_max": "33554432", "socket.recv_buffer_max": "4194304",
		"tcp.window_scaling": "1", "link.mtu": "1500", "link.mtu_min": "68", "link.mtu_max": "9000", "nic.ring.rx": "256", "nic.ring.rx_max": "512",
		"nic.coalesce.adaptive_rx": "1", "nic.coalesce.rx_usecs": "50", "nic.media.port": "tp", "nic.media.speed": "0", "nic.media.autoneg": "1", "link.speed": "1000",
		"nic.queues.rx": "2", "nic.queues.rx_max": "4", "rps": "0-1", "nic.tso_max_size": "65536", "tcp.mem_pressure": "1000",
	}
	darwin := knob.Values{"socket.buffer_max": "8388608", "tcp.recv_buffer_max": "4194304", "tcp.recv_buffer_initial": "556032"}
	windows := knob.Values{"link.frame_mtu": "1500", "link.mtu": "1500"}
	for _, c := range []struct {
		system string
		before knob.Values
		set    string // "knob=value knob=value"
		want   string // id of the constraint that refuses; "" for none
		how    string
	}{
		// 8/9 of 2 MiB is 1864135: the rule that makes a host unreachable (F-01).
		{"freebsd", freebsd, "tcp.recv_buffer_initial=1864135 tcp.recv_buffer_max=1864135", "", ""},
		{"freebsd", freebsd, "tcp.recv_buffer_initial=1864136 tcp.recv_buffer_max=1864136", "C-02", "above 8/9 of socket.buffer_max 2097152, which is 1864135"},
		{"freebsd", freebsd, "tcp.send_buffer_max=2097152", "C-02", "tcp.send_buffer_max"},
		{"freebsd", freebsd, "socket.buffer_max=65536", "C-02", "tcp.recv_buffer_initial 65536"},
		{"freebsd", freebsd, "socket.buffer_max=67108864 tcp.send_buffer_max=33554432", "", ""},
		{"freebsd", freebsd, "tcp.recv_buffer_initial=1500000", "C-03", "above tcp.recv_buffer_max"},
		{"freebsd", freebsd, "mbuf.clusters=200000", "F-06", "/boot/loader.conf"}, {"freebsd", freebsd, "tcp.recv_buffer_max=1000000", "", ""},
		{"freebsd", stock, "tcp.recv_buffer_max=1048576", "", ""}, {"freebsd", stock, "tcp.send_buffer_max=2097152", "", ""},
		{"freebsd", stock, "socket.buffer_max=2200000", "", ""}, // better, and still above it
		{"freebsd", stock, "socket.buffer_max=2000000", "C-02", "tcp.recv_buffer_max 2097152"},
		{"freebsd", stock, "tcp.send_buffer_max=2097153", "C-02", "tcp.send_buffer_max 2097153"},
		{"freebsd", stock, "tcp.recv_buffer_initial=1900000", "C-02", "tcp.recv_buffer_initial 1900000"},
		{"darwin", knob.Values{"socket.buffer_max": "1000", "tcp.recv_buffer_max": "2000"}, "tcp.recv_buffer_max=1500", "", ""},
		{"freebsd", knob.Values{}, "nic.ring.rx=3000", "C-12", "no power of two"}, {"freebsd", knob.Values{}, "nic.ring.rx=4096", "", ""},
		{"darwin", darwin, "tcp.recv_buffer_max=16777216", "C-04", "above socket.buffer_max"}, {"darwin", darwin, "socket.buffer_max=262144", "C-04", ""},
		{"darwin", darwin, "tcp.recv_buffer_max=8388608", "", ""}, {"linux", linux, "tcp.recv_buffer_initial=67108864", "C-05", "above tcp.recv_buffer_max"},
		{"linux", linux, "tcp.recv_buffer_initial=67108864 tcp.recv_buffer_max=67108864", "", ""},
		{"linux", linux, "tcp.recv_buffer_max=65536", "", ""}, // takes the initial size down with it
		{"linux", linux, "tcp.recv_buffer_min=262144", "C-05", "tcp.recv_buffer_min"}, {"linux", linux, "tcp.mem_limit=999", "C-05", ""},
		{"linux", linux, "tcp.recv_buffer_max=2147483647", "C-11", "the largest window 1073725440"},
		{"linux", linux, "link.mtu=9001", "C-07", "above the driver's most, 9000"}, {"linux", linux, "link.mtu=9000", "", ""},
		{"linux", knob.Values{"link.mtu_max": "0"}, "link.mtu=65535", "", ""}, // the driver does not say
		{"linux", linux, "nic.ring.rx=1024", "C-12", "above nic.ring.rx_max 512"}, {"linux", linux, "nic.queues.rx=8", "C-12", ""},
		{"linux", linux, "nic.queues.rx=1", "Q-01", "rps is 0-1"},
		{"linux", knob.Values{"txqueuelen": "1000", "qdisc": "noqueue"}, "txqueuelen=0 qdisc=bfifo", "Q-02", "qdisc becomes bfifo while txqueuelen is 0"},
		{"linux", knob.Values{"txqueuelen": "0", "qdisc": "noqueue"}, "txqueuelen=1000 qdisc=fq", "Q-02", ""},
		{"linux", knob.Values{"txqueuelen": "1000", "qdisc": "bfifo"}, "txqueuelen=0 qdisc=noqueue", "Q-02", "qdisc becomes noqueue while txqueuelen is 0"},
		{"linux", linux, "nic.gso_max_size=131072", "C-12", "nic.tso_max_size"}, {"linux", linux, "nic.coalesce.rx_usecs=10", "C-14", "adaptive_rx is on"},
		{"linux", linux, "nic.coalesce.rx_usecs=10 nic.coalesce.adaptive_rx=0", "", ""}, {"linux", linux, "nic.media.speed=1000", "C-13", "fixed at 1000 Mbit/s"},
		{"linux", linux, "nic.media.autoneg=0", "C-13", "fixed at 1000 Mbit/s"}, {"linux", linux, "nic.media.speed=100", "", ""},
		{"linux", linux, "nic.media.speed=0", "", ""}, {"linux", knob.Values{"nic.media.port": "fibre", "nic.media.speed": "0"}, "nic.media.speed=10000", "", ""},
		{"windows", windows, "link.mtu=9000", "C-08", "9014 for 9000"},
		{"windows", windows, "link.mtu=9000 link.frame_mtu=9000", "", ""},
		{"windows", windows, "link.mtu=9014 link.frame_mtu=9000", "C-08", "link.mtu 9014 is above link.frame_mtu 9000"},
	} {
		var refused []string
		for _, v := range knob.Violations(c.system, c.before, plantest.Assignments(c.set)) {
			if !v.Constraint.Advice {
				refused = append(refused, v.Error())
				must.True(t, errors.Is(v, knob.ErrConstraint) && v.Constraint.ID == c.want && strings.Contains(v.Error(), c.how),
					"%s %s: %v, want %s that says %q", c.system, c.set, v, c.want, c.how)
			}
		}
		must.Equal(t, (len(refused) > 0), (c.want != ""), "%s %s: refused by %q, want %q", c.system, c.set, refused, c.want)
	}
}

func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		system, set, want string
		before            knob.Values
	}{
		{"linux", "tcp.recv_buffer_max=6291456", "C-06", knob.Values{"tcp.recv_buffer_max": "33554432"}},
		{"linux", "tcp.recv_buffer_max=6291456", "C-11", knob.Values{"tcp.recv_buffer_max": "65536", "tcp.window_scaling": "0"}},
		{"freebsd", "link.mtu=9014", "C-08", nil}, {"linux", "link.mtu=4088", "C-08", nil},
		{"freebsd", "tcp.recv_buffer_max=8388608", "F-04", knob.Values{"socket.buffer_max": "2097152"}},
	} {
		found := false
		for _, v := range knob.Violations(c.system, c.before, plantest.Assignments(c.set)) {
			found = found || v.Constraint.ID == c.want && v.Constraint.Advice
		}
		must.True(t, found, "%s %s: not advised by %s", c.system, c.set, c.want)
	}
}

// TestWindowScale checks the worked numbers of knobs.md sections 1.2 and 9.
func TestWindowScale(t *testing.T) {
	for _, c := range []struct {
		system, values string
		want           int
	}{
		{"linux", "tcp.recv_buffer_max=33554432 socket.recv_buffer_max=4194304", 10}, {"linux", "tcp.recv_buffer_max=268435456 socket.recv_buffer_max=4194304", 13},
		{"linux", "tcp.recv_buffer_max=65536 socket.recv_buffer_max=4194304", 7}, {"linux", "tcp.recv_buffer_max=2147483647 socket.recv_buffer_max=4194304", 14},
		{"linux", "tcp.recv_buffer_max=33554432 socket.recv_buffer_max=4194304 tcp.window_scaling=0", 0},
		{"freebsd", "socket.buffer_max=2097152", 6}, {"freebsd", "socket.buffer_max=2097120", 5}, {"freebsd", "socket.buffer_max=262144", 3}, {"freebsd", "socket.buffer_max=67108864", 11},
		{"darwin", "tcp.recv_buffer_max=4194304", 6}, {"darwin", "tcp.recv_buffer_max=65536", 3}, {"darwin", "tcp.recv_buffer_max=65536 tcp.window_scale_min=5", 5},
		{"windows", "tcp.recv_buffer_max=16776960", 8},
	} {
		v := knob.Values{}
		for _, a := range plantest.Assignments(c.values) {
			v[a.Knob] = a.Value
		}
		got, ok := knob.WindowScale(c.system, v)
		must.True(t, got == c.want && ok, "%s %s: scale %d, %v, want %d", c.system, c.values, got, ok, c.want)
	}
	_, ok := knob.WindowScale("linux", knob.Values{})
	must.True(t, !ok, "a scale was computed from nothing")
}

// TestNoStepOnTheWayBreaksARule: where values fit together before and after, so does every
// state that Plan passes through. On FreeBSD a state that does not leaves the host without new
// connections (F-01).
func TestNoStepOnTheWayBreaksARule(t *testing.T) {
	buffers := []model.KnobID{"socket.buffer_max", "tcp.recv_buffer_max", "tcp.send_buffer_max", "tcp.recv_buffer_initial", "tcp.send_buffer_initial"}
	for _, system := range []string{"freebsd", "darwin"} {
		t.Run(system, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				draw := func() knob.Values {
					limit := rapid.Int64Range(1<<16, 1<<30).Draw(t, "limit")
					v := knob.Values{"socket.buffer_max": strconv.FormatInt(limit, 10)}
					for _, way := range []string{"recv", "send"} {
						ceiling := rapid.Int64Range(4096, knob.Reserve(limit)).Draw(t, "ceiling")
						v[model.KnobID("tcp."+way+"_buffer_max")] = strconv.FormatInt(ceiling, 10)
						v[model.KnobID("tcp."+way+"_buffer_initial")] = strconv.FormatInt(rapid.Int64Range(1, ceiling).Draw(t, "initial"), 10)
					}
					return v
				}
				now, goal := draw(), draw()
				changes := lists.Each(rapid.Permutation(buffers).Draw(t, "order"), func(id model.KnobID) model.Assignment { return model.Assignment{Knob: id, Value: goal[id]} })
				for _, c := range knob.NewIndex().Plan(now, changes) {
					for _, v := range knob.Violations(system, now, []model.Assignment{c}) {
						must.Need(t, v.Constraint.Advice, "on the way from %v: %s=%s: %v", now, c.Knob, c.Value, v)
					}
					now[c.Knob] = c.Value
				}
			})
		})
	}
}
