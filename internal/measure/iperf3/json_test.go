package iperf3

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/core/fact"
	"linerate/internal/must"
)

// params312 was sent by 3.12 -t 1 -P 2 (section 5).
const params312 = `{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":2,"len":131072,"pacing_timer":1000,"client_version":"3.12"}`

func TestParams312(t *testing.T) {
	want := DefaultParams()
	want.Seconds, want.Parallel, want.ClientVersion = 1, 2, "3.12"
	got, err := ParseParams([]byte(params312))
	must.True(t, err == nil && reflect.DeepEqual(got, want) && got.Validate() == nil, "%+v, %v, %v", got, err, got.Validate())
	b := must.Get(want.Marshal())(t)
	must.True(t, string(b) == params312, "written %s", b)
}

// TestOffload checks the parameters that 3.21 sends in a UDP test (sections 5 and 11).
func TestOffload(t *testing.T) {
	const part = `"len":32768,"bandwidth":1048576,"gso":0,"gso_dg_size":0,"gso_bf_size":65507,"gro":0,"gro_bf_size":65507`
	p, err := ParseParams([]byte(`{"udp":true,` + part + `}`))
	want := Offload{GSOBufferBytes: 65507, GROBufferBytes: 65507}
	if o, ok := p.Offload.Get(); err != nil || !ok || o != want || p.Protocol != UDP || p.BitsPerSecond != 1<<20 || p.Validate() != nil {
		t.Errorf("%+v, %v, %v", p, err, p.Validate())
	}
	b := must.Get(p.Marshal())(t)
	must.True(t, strings.Contains(string(b), part), "written %s", b)
	p, err = ParseParams([]byte(`{"udp":true,"gso":1,"gso_dg_size":1448,"gso_bf_size":65160,"gro":1,"gro_bf_size":65507}`))
	o := p.Offload.Or(Offload{})
	must.True(t, err == nil && o == (Offload{true, true, 1448, 65160, 65507}), "--gsro: %+v, %v", o, err)
}

func TestParamsTraps(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want func(Params) bool
	}{
		"nothing":             {`{}`, func(p Params) bool { return reflect.DeepEqual(p, DefaultParams()) && p.Validate() == nil }},
		"spacing":             {" {\n\t\"time\" : 3 }\r\n", func(p Params) bool { return p.Seconds == 3 }},
		"unknown key":         {`{"x":[{"time":9}],"time":3}`, func(p Params) bool { return p.Seconds == 3 }},
		"first key counts":    {`{"time":3,"time":4}`, func(p Params) bool { return p.Seconds == 3 }},
		"other case":          {`{"TIME":3}`, func(p Params) bool { return p.Seconds == 10 }},
		"time of zero":        {`{"time":0,"num":1000}`, func(p Params) bool { return p.Seconds == 0 && p.Bytes == 1000 }},
		"no num, as 3.1":      {`{"tcp":true,"omit":0,"time":1,"parallel":1,"len":131072,"client_version":"3.1"}`, func(p Params) bool { return p.Bytes == 0 && p.Validate() == nil }},
		"udp needs len":       {`{"udp":true}`, func(p Params) bool { return p.Protocol == UDP && p.Length == 0 && p.Validate() != nil }},
		"float":               {`{"num":1.5e+15}`, func(p Params) bool { return p.Bytes == 1500000000000000 }},
		"flag as true":        {`{"get_server_output":true,"zerocopy":1}`, func(p Params) bool { return p.ServerOutput && p.ZeroCopy }},
		"flag of zero":        {`{"nodelay":false,"dont_fragment":0}`, func(p Params) bool { return !p.NoDelay && !p.DontFragment }},
		"CPU 0":               {`{"server_affinity":0}`, func(p Params) bool { return p.ServerCPU.IsKnown() }},
		"bidirectional":       {`{"bidirectional":true}`, func(p Params) bool { return p.Direction == Bidirectional }},
		"sctp":                {`{"sctp":true}`, func(p Params) bool { return p.Protocol == SCTP }},
		"false beside a true": {`{"tcp":false,"udp":true,"len":100}`, func(p Params) bool { return p.Protocol == UDP && p.Length == 100 }},
	} {
		p, err := ParseParams([]byte(c.data))
		must.True(t, err == nil && c.want(p), "%s: %+v, %v", name, p, err)
	}
	for name, data := range map[string]string{
		"udp as a number": `{"udp":1}`, "two protocols": `{"tcp":true,"udp":true}`, "both ways": `{"reverse":true,"bidirectional":true}`,
		"not an object": `[1]`, "cut": params312[:40], "two values": `{}{}`, "empty": ``, "NUL": "{}\x00", "NaN": `{"time":NaN}`,
		"fraction": `{"time":1.5}`, "text for a number": `{"time":"1"}`, "number for text": `{"title":1}`, "null": `{"time":null}`,
		"too many keys": manyKeys(maxKeys + 1),
	} {
		must.Fail(t, must.Err(ParseParams([]byte(data))), "%s: taken as", name)
	}
	for n := range len(params312) {
		must.Fail(t, must.Err(ParseParams([]byte(params312[:n]))), "cut to %d bytes: taken", n)
	}
	long := `{"title":"` + strings.Repeat("x", MaxParams) + `"}`
	must.Is(t, must.Err(ParseParams([]byte(long))), ErrTooLong, "9 KB")
	must.Is(t, must.Err((Params{Title: long}).Marshal()), ErrTooLong, "writing 9 KB")
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":0`, i)
	}
	return "{" + b.String()[1:] + "}"
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Params)
		code   Code
	}{
		"no stream":     {func(p *Params) { p.Parallel = 0 }, CodeStreams},
		"129 streams":   {func(p *Params) { p.Parallel = 129 }, CodeStreams},
		"no block":      {func(p *Params) { p.Length = 0 }, CodeBlockSize},
		"large block":   {func(p *Params) { p.Length = 1<<20 + 1 }, CodeBlockSize},
		"datagram":      {func(p *Params) { p.Protocol, p.Length = UDP, 65508 }, CodeUDPBlockSize},
		"tiny datagram": {func(p *Params) { p.Protocol, p.Length = UDP, 15 }, CodeUDPBlockSize},
		"two days":      {func(p *Params) { p.Seconds = 172800 }, CodeDuration},
		"omit":          {func(p *Params) { p.OmitSeconds = 601 }, CodeReceiveParams},
		"MSS":           {func(p *Params) { p.MSS = 32768 }, CodeMSS},
		"window":        {func(p *Params) { p.Window = 1 << 30 }, CodeBufferSize},
		"burst":         {func(p *Params) { p.Burst = 1001 }, CodeBurst},
		"flow label":    {func(p *Params) { p.FlowLabel = 1 << 20 }, CodeReceiveParams},
		"CPU":           {func(p *Params) { p.ServerCPU = fact.Known[int64](1025, "test") }, CodeReceiveParams},
		"negative":      {func(p *Params) { p.BitsPerSecond = -1 }, CodeReceiveParams},
	} {
		p := DefaultParams()
		c.change(&p)
		var fault *RangeError
		err := p.Validate()
		must.True(t, errors.As(err, &fault) && fault.Code == c.code, "%s: %v", name, err)
	}
	p := Params{Direction: Bidirectional, Parallel: 3, BitsPerSecond: 1e6}
	must.Equal(t, p.TotalBitsPerSecond(), 6e6, "total rate")
	if p.BitsPerSecond = math.MaxInt64; p.TotalBitsPerSecond() != math.MaxInt64 {
		t.Errorf("total rate %d overflows", p.TotalBitsPerSecond())
	}
}

// TestParamsRoundTrip fills every field, including future ones.
func TestParamsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultParams()
		v := reflect.ValueOf(&p).Elem()
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			switch f := v.Field(i).Addr().Interface().(type) {
			case *int64:
				*f = rapid.Int64().Draw(t, name)
			case *bool:
				*f = rapid.Bool().Draw(t, name)
			case *string:
				*f = rapid.StringN(0, 40, 200).Draw(t, name)
			case *Protocol:
				*f = Protocol(rapid.IntRange(0, 2).Draw(t, name))
			case *Direction:
				*f = Direction(rapid.IntRange(0, 2).Draw(t, name))
			case *fact.Of[int64]:
				*f = fact.Known(rapid.Int64().Draw(t, name), fromPeer)
			case *fact.Of[Offload]:
				n := rapid.Int64()
				*f = fact.Known(Offload{true, rapid.Bool().Draw(t, name), n.Draw(t, "dg"), n.Draw(t, "gso"), n.Draw(t, "gro")}, fromPeer)
			default:
				t.Fatalf("field %s is not tested", name)
			}
		}
		got, err := ParseParams(must.Get(p.Marshal())(t))
		must.Need(t, err == nil && reflect.DeepEqual(got, p), "%+v, %v\nwant %+v", got, err, p)
	})
}

func TestParseInteger(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-1": -1, "18446744073709551615": -1, "9223372036854775808": math.MinInt64, "1.5e+15": 1.5e15, "3.0": 3, "-2e0": -2,
	} {
		must.Equal(t, must.Get(parseInteger(json.RawMessage(text)))(t), want, "%s", text)
	}
	for _, text := range []string{"", "1.5", "1e19", "-1e19", "1e999", "NaN", "inf", "null", `"1"`, "18446744073709551616"} {
		must.Fail(t, must.Err(parseInteger(json.RawMessage(text))), "%q: taken as", text)
	}
}

// results312 begins as the results of a 3.12 server do (section 11).
const results312 = `{"cpu_util_total":31.55,"cpu_util_user":0.4,"cpu_util_system":31.15,"sender_has_retransmits":18446744073709551615,"congestion_used":"bbr",` +
	`"streams":[{"id":1,"bytes":828506112,"retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1.0002}]}`

func TestResults312(t *testing.T) {
	r := must.Get(ParseResults([]byte(results312)))(t)
	must.Need(t, r.CPUTotal == 31.55 && r.SenderHasRetransmits == -1 && r.CongestionUsed == "bbr" && len(r.Streams) == 1, "%+v", r)
	s := r.Streams[0]
	must.True(t, s.ID == 1 && s.Bytes == 828506112 && !s.Retransmits.IsKnown() && !s.Omitted.IsKnown() && s.EndSeconds.Or(0) == 1.0002, "%+v", s)
	b := must.Get(r.Marshal())(t)
	must.True(t, string(b) == strings.ReplaceAll(results312, "18446744073709551615", "-1"), "written %s", b)
	for n := range len(results312) {
		must.Fail(t, must.Err(ParseResults([]byte(results312[:n]))), "cut to %d bytes: taken", n)
	}
}

func TestResultsNeeds(t *testing.T) {
	for _, key := range []string{
		"cpu_util_total", "cpu_util_user", "cpu_util_system", "sender_has_retransmits", "streams",
		"id", "bytes", "retransmits", "jitter", "errors", "packets",
	} {
		must.Is(t, must.Err(ParseResults([]byte(strings.Replace(results312, `"`+key+`"`, `"other"`, 1)))), errMissing, "without %s", key)
	}
	half := strings.Replace(results312, `"packets":0`, `"packets":0,"omitted_errors":1`, 1)
	must.Is(t, must.Err(ParseResults([]byte(half))), errMissing, "one of both omitted counts")
	whole := strings.Replace(half, `"omitted_errors":1`, `"omitted_errors":1,"omitted_packets":2`, 1)
	r := must.Get(ParseResults([]byte(whole)))(t)
	must.True(t, r.Streams[0].Omitted.Or(Omitted{}) == (Omitted{1, 2}), "%+v", r)
	report := strings.Replace(results312, `{`, `{"server_output_json":{"start":{}},"server_output_text":"x",`, 1)
	r, err := ParseResults([]byte(report))
	must.True(t, err == nil && string(r.ServerJSON) == `{"start":{}}` && r.ServerText == "x", "%+v, %v", r, err)
	many := strings.Replace(results312, `"streams":[`, `"streams":[`+strings.Repeat(`{"id":1,"bytes":0,"retransmits":0,"jitter":0,"errors":0,"packets":0},`, MaxStreams), 1)
	must.Fail(t, must.Err(ParseResults([]byte(many))), "one stream too many is taken")
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		must.Fail(t, must.Err((Results{CPUTotal: bad}).Marshal()), "%v is written", bad)
	}
}

func TestMatch(t *testing.T) {
	want := Streams(Bidirectional, 2)
	of := func(ids ...int64) Results {
		var r Results
		for _, id := range ids {
			r.Streams = append(r.Streams, StreamResult{ID: id, Bytes: 10 * id})
		}
		return r
	}
	got := must.Get(of(5, 4, 3, 1).Match(want))(t)
	must.True(t, len(got) == 4 && got[0].Bytes == 10 && got[3].Bytes == 50, "%+v", got)
	for name, r := range map[string]Results{"unknown": of(1, 2, 4, 5), "missing": of(1, 3, 4), "repeated": of(1, 3, 4, 4, 5)} {
		var refused *ServerError
		_, err := r.Match(want)
		must.True(t, errors.As(err, &refused) && refused.Code == CodeStreamID, "%s: %v", name, err)
	}
}

func TestResultsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		float, n := rapid.Float64Range(-1e300, 1e300), rapid.Int64()
		want := Results{
			CPUTotal: float.Draw(t, "total"), CPUUser: float.Draw(t, "user"), CPUSystem: float.Draw(t, "system"),
			SenderHasRetransmits: rapid.Int64Range(-1, 1).Draw(t, "has"), CongestionUsed: rapid.String().Draw(t, "congestion"),
			ServerText: rapid.String().Draw(t, "text"), ServerJSON: json.RawMessage(`{"a":[1,2]}`),
		}
		for i := range rapid.IntRange(1, 5).Draw(t, "streams") {
			s := StreamResult{
				ID: int64(StreamID(i)), Bytes: n.Draw(t, "bytes"), Jitter: float.Draw(t, "jitter"),
				Errors: n.Draw(t, "errors"), Packets: n.Draw(t, "packets"),
				Retransmits: fact.Known(rapid.Int64Range(0, math.MaxInt64).Draw(t, "retransmits"), fromPeer),
				Omitted:     fact.Known(Omitted{n.Draw(t, "oe"), n.Draw(t, "op")}, fromPeer),
				EndSeconds:  fact.Known(float.Draw(t, "end"), fromPeer),
			}
			want.Streams = append(want.Streams, s)
		}
		got, err := ParseResults(must.Get(want.Marshal())(t))
		must.Need(t, err == nil && reflect.DeepEqual(got, want), "%+v, %v\nwant %+v", got, err, want)
	})
}

// FuzzJSON passes any bytes to both readers: none may panic, and whatever they accept must
// survive writing and reading.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{params312, results312, `{}`, `{"udp":1}`, `{"num":1e15}`, `{"streams":[[[[`, "{\"a\":\xff}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := ParseParams(data); err == nil {
			b, err := p.Marshal()
			if errors.Is(err, ErrTooLong) {
				return
			}
			again, err2 := ParseParams(b)
			must.True(t, err == nil && err2 == nil && reflect.DeepEqual(again, p), "%s: %v, %v\n%+v\n%+v", b, err, err2, p, again)
		}
		if r, err := ParseResults(data); err == nil {
			must.True(t, len(r.Streams) <= MaxStreams, "%d streams", len(r.Streams))
			must.OK(t, must.Err(r.Marshal()))
		}
	})
}

// FuzzWire passes any bytes to the readers of the control connection and of datagrams.
func FuzzWire(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"), 8192)
	f.Add([]byte("\xff\xff\xff\xff"), 8192)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		body, err := ReadFrame(strings.NewReader(string(data)), min(limit, MaxResults))
		must.True(t, err != nil || len(body) <= limit && len(body) <= len(data)-4, "%d bytes of %d, limit %d", len(body), len(data), limit)
		e, err := ReadServerError(strings.NewReader(string(data)))
		must.True(t, err != nil || e.Error() != "", "an error without a text")
		for _, wide := range []bool{false, true} {
			var tally Tally
			if h, err := ParseDatagramHeader(data, wide); err == nil {
				tally.Add(h, 0)
			}
		}
		_, err = parsePlaintext(data)
		must.True(t, err == nil || errors.Is(err, ErrRefused), "%v", err)
	})
}
