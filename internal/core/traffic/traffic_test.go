package traffic_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func all() traffic.Kinds {
	return traffic.Kinds{
		bulk.Kind(), udp.Kind(), sizes.Kind(), requests.Kind(), probes.Kind(bulk.Kind(), udp.Kind()), files.Kind(),
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[model.Params]string{
		"[]": "no JSON object", `"rate"`: "no JSON object", "{": "unexpected EOF", `{"rat":1}`: "unknown field", `{"rate":"x"}`: "cannot unmarshal",
		"{} {}": "more than one", `{"rate":1e999}`: "cannot unmarshal", model.Params(`{"pacing":"` + strings.Repeat("a", traffic.MaxParams) + `"}`): "at most 65536",
		traffic.Write(udp.Params{Rate: units.BitRate(math.NaN())}): "no JSON object",
	} {
		p, err := traffic.Read[udp.Params](text)
		must.True(t, err != nil && strings.Contains(err.Error(), want) && p == (udp.Params{}), "%.40s: %+v, %v; want %q", text, p, err, want)
	}
}

// TestOptions: the options of a flow follow from its engine and from its load.
func TestOptions(t *testing.T) {
	set := func(f model.Flow, name, text string) (model.Flow, bool, error) {
		o, ok := all().Option(f, name)
		if !ok {
			return f, false, nil
		}
		return f, true, o.Set(&f, text)
	}
	f := model.Flow{Engine: probes.Name}
	_, ok, _ := set(f, "plain", "on")
	must.True(t, !ok, "a load of TCP is plain")
	f, ok, err := set(f, "load", udp.Name)
	must.Need(t, ok && err == nil, "%v %v", ok, err)
	f, ok, err = set(f, "plain", "on")
	u, is := udp.Of(f)
	must.True(t, ok && err == nil && is && u.Plain && u.Rate == udp.DefaultRate, "%+v, %t, %v", f, ok, err)
	for _, bad := range [][2]string{{"load", "pigeon"}, {"pacing", "hope"}, {"plain", "maybe"}, {"idle", "-1s"}} {
		before, ok, err := set(f, bad[0], bad[1])
		must.True(t, ok && err != nil && before.Params == f.Params, "%v: %t, %v", bad, ok, err)
	}
}

// FuzzParams: whatever a peer sends as an engine's parameters, each kind describes it without a
// fault, holds no more than the text can state, and writes back what it reads.
func FuzzParams(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "null", "[]", "{", `{"rate":1e6,"pacing":"clock","plain":true}`, `{"rate":-1}`, `{"rate":1e308}`, `{"RATE":5,"rate":6}`,
		`{"sizes":[1,2,8388608],"mode":"both","fresh":true,"spin":true}`, `{"sizes":[]}`, `{"sizes":null}`, `{"sizes":[-1,9223372036854775807]}`,
		`{"sizes":[9223372036854775808]}`, `{"rate":0.1,"reply":4096,"connect":true,"spin":false}`, `{"reply":-9223372036854775808}`,
		`{"engine":"udpflow","load":{"rate":1}}`, `{"engine":"loaded","load":{"engine":"loaded","load":{"load":{}}}}`, `{"load":[[[[]]]]}`,
		`{"mode":"copy","source":"disk","sink":"/srv/\u001b[2J","direct":true,"sync":true,"plain":true}`, `{"source":"\ud800"}`, "{\"sink\":\"\xff\"}",
		`{"sizes":[` + strings.Repeat("1,", 4096) + `1]}`, strings.Repeat("[", 5000), `{"a":` + strings.Repeat("[", 5000), `{} {}`, `{"sizes":[1.5]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := model.Params(text)
		for _, k := range all() {
			d := k.Of(model.Flow{Engine: k.Name, Block: 1, Params: p})
			must.True(t, d.Message >= 0, "%s: a message of %d bytes", k.Name, d.Message)
			all().Options(model.Flow{Engine: k.Name, Params: p})
		}
		again[udp.Params](t, p)
		again[requests.Params](t, p)
		again[probes.Params](t, p)
		again[files.Params](t, p)
		s, ok := again[sizes.Params](t, p)
		must.True(t, !ok || len(s.Sizes) <= len(text), "%d sizes of %d bytes", len(s.Sizes), len(text))
	})
}

func again[T any](t *testing.T, p model.Params) (T, bool) {
	t.Helper()
	v, err := traffic.Read[T](p)
	if err != nil {
		return v, false
	}
	written := traffic.Write(v)
	back, err := traffic.Read[T](written)
	must.True(t, (err == nil || len(written) > traffic.MaxParams) && (err != nil || reflect.DeepEqual(traffic.Write(back), written)),
		"%.80q is written as %.80q, which is read as %+v, %v", p, written, back, err)
	return v, true
}
