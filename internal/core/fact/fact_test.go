package fact

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

func TestKnown(t *testing.T) {
	f := Known(0, "sysfs")
	v, ok := f.Get()
	must.True(t, v == 0 && ok, "Get = %d, %v; a known zero is known", v, ok)
	must.True(t, f.IsKnown() && f.Or(7) == 0 && f.Source() == "sysfs" && f.Reason() == "", "known zero: known %v, or %d, source %q, reason %q", f.IsKnown(), f.Or(7), f.Source(), f.Reason())
}

func TestUnknown(t *testing.T) {
	for name, f := range map[string]Of[int]{"zero value": {}, "with a reason": Unknown[int]("virtual link")} {
		v, ok := f.Get()
		must.True(t, v == 0 && !ok && !f.IsKnown(), "%s: Get = %d, %v", name, v, ok)
		must.True(t, f.Or(7) == 7 && f.Source() == "", "%s: or %d, source %q", name, f.Or(7), f.Source())
	}
	must.Equal(t, Unknown[int]("virtual link").Reason(), "virtual link", "Reason")
}

func TestIf(t *testing.T) {
	must.True(t, If(true, 7, "sysfs", "no") == Known(7, "sysfs") && If(false, 7, "sysfs", "no") == Unknown[int]("no"), "If")
}

// TestExplain: known facts, and those with a reason, stay unchanged.
func TestExplain(t *testing.T) {
	type inner struct{ Speed Of[int] }
	var s struct {
		inner
		Name  string
		Link  inner
		MTU   Of[int]
		MAC   Of[string]
		Modes Of[[]string]
	}
	s.MTU, s.MAC = Known(0, "sysfs"), Unknown[string]("virtual")
	Explain(&s, "no driver")
	must.True(t, s.Link.Speed.Reason() == "no driver" && s.Modes.Reason() == "no driver" && s.MTU == Known(0, "sysfs") && s.MAC.Reason() == "virtual" && s.Speed.Reason() == "", "%+v", s)
}

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		name string
		in   any
		want string
	}{
		{"known zero keeps its value", Known(0, "sysfs"), `{"value":0,"source":"sysfs"}`},
		{"known false keeps its value", Known(false, ""), `{"value":false}`},
		{"known empty text keeps its value", Known("", "user"), `{"value":"","source":"user"}`},
		{"duration in nanoseconds", Known(time.Millisecond, "TCP_INFO"), `{"value":1000000,"source":"TCP_INFO"}`},
		{"unknown", Unknown[int]("not available on freebsd"), `{"unknown":"not available on freebsd"}`},
		{"unknown without a reason", Of[int]{}, `{"unknown":""}`},
	} {
		got := must.Get(json.Marshal(c.in))(t)
		must.Equal(t, string(got), c.want, "%s: %s", c.name, got)
	}
}

func TestJSONReadsStrangers(t *testing.T) {
	for in, want := range map[string]Of[int]{
		`null`: {}, `{}`: {}, `{"source":"x"}`: {}, `{"value":null}`: {},
		`{"value":3,"unknown":"x"}`: Known(3, ""), `{"value":3,"source":"s","later":1}`: Known(3, "s"),
	} {
		got := Known(9, "what was there before")
		err := json.Unmarshal([]byte(in), &got)
		must.True(t, err == nil && got == want, "%s: %+v, %v, want %+v", in, got, err, want)
	}
	var f Of[int]
	err := json.Unmarshal([]byte(`{"value":"three"}`), &f)
	must.True(t, err != nil && !f.IsKnown(), "a value of the wrong type: %+v, %v", f, err)
}

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Unknown[int64](rapid.String().Draw(t, "reason"))
		if rapid.Bool().Draw(t, "known") {
			want = Known(rapid.Int64().Draw(t, "value"), rapid.String().Draw(t, "source"))
		}
		b := must.Get(json.Marshal(want))(t)
		var got Of[int64]
		err := json.Unmarshal(b, &got)
		must.Need(t, err == nil && got == want, "%s: %+v, %v, want %+v", b, got, err, want)
	})
}
