package knob_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// asRunsRead is how runs read a setting of the flow before there was one reading:
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

// TestOneReadingOfFlowSettings: what a plan holds, canonical values in their
// range, means what it meant to runs before, for every knob of the flow.
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

// TestWhereTheReadingsDiffered: who was right. Runs took numbers out of every
// range, which the plan's range forbids; they took a rate to the last fraction of a
// bit, which a search compares; the catalogue's reading knew units.
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

// TestOptionsOfKinds: what an engine lets plans vary is a knob of its flows, also as
// a load; of no other's, and of nobody where it is to be the same in all runs.
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

// TestWithSetting: what belongs to a host is left to it, and a fault names the
// setting.
func TestWithSetting(t *testing.T) {
	f, err := knob.WithSetting(model.Flow{Engine: "filecopy"}, model.Setting{Name: "s", Assignments: []model.Assignment{
		{Host: model.Far, Knob: "link.mtu", Value: "x"}, {Knob: "streams", Value: "4"}, {Knob: "copy.sink", Value: "/srv"},
	}})
	c, _ := files.Of(f)
	must.True(t, err == nil && f.Streams == 4 && c.Sink == "/srv", "%+v, %v", f, err)
	_, err = knob.WithSetting(model.Flow{}, model.Setting{Name: "odd", Assignments: []model.Assignment{{Knob: "widnow", Value: "1"}, {Knob: "tcp.sack", Value: "1"}}})
	must.True(t, err != nil && strings.Contains(err.Error(), `setting "odd"`) && strings.Contains(err.Error(), "did you mean window") && strings.Contains(err.Error(), "tcp.sack"), "%v", err)
}
