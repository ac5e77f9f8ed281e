package format_test

import (
	"bytes"
	stdjson "encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/format"
	"linerate/internal/report/reporttest"
)

// schema returns the published schema in that file.
func schema(t *testing.T, name string) (*jsonschema.Schema, *jsonschema.Resolved) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "docs", "schema", name)))(t)
	s := new(jsonschema.Schema)
	must.Do(t, stdjson.Unmarshal(text, s))
	return s, must.Get(s.Resolve(nil))(t)
}

func renderJSON(t *testing.T, c reporttest.Case, o format.JSONOptions) map[string]any {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, format.JSON(&b, c.Session, report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()}), o))
	return parse(t, b.Bytes())
}

func parse(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var doc map[string]any
	err := stdjson.Unmarshal(text, &doc)
	must.Need(t, err == nil, "%v in %s", err, text)
	return doc
}

func TestSessionSchema(t *testing.T) {
	_, resolved := schema(t, "session-v1.schema.json")
	for _, c := range reporttest.Cases() {
		for name, o := range map[string]format.JSONOptions{"": {}, " in full": {Full: true}, " with samples": {Full: true, Samples: c.Samples}} {
			t.Run(c.Name+name, func(t *testing.T) {
				doc := renderJSON(t, c, o)
				must.OK(t, resolved.Validate(doc))
				_, ok := doc["samples"]
				must.True(t, ok == (o.Samples != nil && len(c.Samples) > 0), "samples written: %v", ok)
			})
		}
	}
}

// TestSchemaRefuses demands that the schema does not accept everything.
func TestSchemaRefuses(t *testing.T) {
	_, resolved := schema(t, "session-v1.schema.json")
	for name, spoil := range map[string]func(doc map[string]any){
		"version":        func(doc map[string]any) { doc["schema"] = "linerate/session/v2" },
		"unknown field":  func(doc map[string]any) { doc["session"].(map[string]any)["extra"] = 1.0 },
		"missing field":  func(doc map[string]any) { delete(doc["session"].(map[string]any), "plan") },
		"unknown state":  func(doc map[string]any) { doc["session"].(map[string]any)["state"] = "great" },
		"rate as string": func(doc map[string]any) { doc["session"].(map[string]any)["wire_rate"] = "1 Gbit/s" },
		"both facts": func(doc map[string]any) {
			doc["session"].(map[string]any)["wire_rate"] = map[string]any{"value": 1.0, "unknown": "x"}
		},
	} {
		doc := renderJSON(t, reporttest.Cases()[0], format.JSONOptions{})
		spoil(doc)
		must.Fail(t, resolved.Validate(doc), "%s: accepted", name)
	}
}

// TestSchemaNamesWhatIsWritten demands that some case writes every property of the schema's
// definitions, except those listed here.
func TestSchemaNamesWhatIsWritten(t *testing.T) {
	s, _ := schema(t, "session-v1.schema.json")
	seen := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				seen[k] = true
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	for _, c := range reporttest.Cases() {
		walk(renderJSON(t, c, format.JSONOptions{Full: true, Samples: c.Samples}))
	}
	rare := map[string]bool{ // optional fields of flows, ends and plans that no case uses
		"own": true, "again": true, "leave": true, "streams": true, "bytes": true, "block": true, "window": true, "mss": true, "nagle": true, "congestion": true, "waiting": true, "held": true, "incomplete": true, "subflows": true,
	}
	for name, def := range s.Defs {
		for property := range def.Properties {
			must.True(t, seen[property] || rare[property], "%s.%s is in the schema and never written", name, property)
		}
	}
}

// TestReadsBack demands that the session in a document equals the original, and that unbounded
// ends are null.
func TestReadsBack(t *testing.T) {
	for _, c := range reporttest.Cases() {
		var b bytes.Buffer
		must.Do(t, format.JSON(&b, c.Session, report.Build(c.Session, report.Options{Kinds: reporttest.Kinds()}), format.JSONOptions{Full: true, Samples: c.Samples}))
		var doc struct {
			Session model.Session `json:"session"`
			Samples []struct {
				Run     int            `json:"run"`
				Samples []model.Sample `json:"samples"`
			} `json:"samples"`
		}
		must.Do(t, stdjson.Unmarshal(b.Bytes(), &doc))
		want, got := marshal(t, c.Session), marshal(t, doc.Session)
		must.True(t, c.Session.Runs == nil || want == got, "%s: wrote %s, read %s", c.Name, want, got)
		must.True(t, len(doc.Samples) == len(c.Samples), "%s: samples of %d runs, want %d", c.Name, len(doc.Samples), len(c.Samples))
		if c.Name == "interrupted" && !math.IsInf(float64(doc.Session.Verdicts[0].Interval.High), 1) {
			t.Errorf("unbounded end read as %v", doc.Session.Verdicts[0].Interval.High)
		}
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	return string(must.Get(stdjson.Marshal(v))(t))
}

func TestNumbersOfTheOtherMode(t *testing.T) {
	p, e := 0.01, 50.0
	for mode, want := range map[model.Mode][2]bool{model.FixedBlocks: {true, false}, model.Sequential: {false, true}} {
		s := model.Session{Plan: model.Plan{Mode: mode}, Verdicts: []model.Verdict{{P: &p, Evidence: &e}}}
		doc := renderJSON(t, reporttest.Case{Session: s}, format.JSONOptions{})
		v := doc["session"].(map[string]any)["verdicts"].([]any)[0].(map[string]any)
		_, hasP := v["p"]
		_, hasE := v["evidence"]
		must.True(t, hasP == want[0] && hasE == want[1], "%s: p %v, evidence %v", mode, hasP, hasE)
		must.True(t, s.Verdicts[0].P != nil && s.Verdicts[0].Evidence != nil, "the caller's session was changed")
	}
}

func TestListSchema(t *testing.T) {
	_, resolved := schema(t, "list-v1.schema.json")
	l := report.List{Sessions: []report.ListItem{}}
	for _, c := range append(reporttest.Cases(), reporttest.Case{}) {
		var b bytes.Buffer
		must.Do(t, format.Envelope(&b, format.ListSchema, l))
		must.OK(t, resolved.Validate(parse(t, b.Bytes())))
		s := c.Session
		l.Sessions = append(l.Sessions, report.NewListItem(model.Item{ID: s.ID, Kind: s.Kind, Created: s.Created, Ended: s.Ended, State: s.State, Reason: s.Reason, Runs: len(s.Runs)}, s))
	}
}

func TestEnvelope(t *testing.T) {
	for name, test := range map[string]struct {
		v    any
		want string // "" expects an error
	}{
		"object":       {struct{ A int }{1}, "{\n  \"schema\": \"x/v1\",\n  \"A\": 1\n}\n"},
		"empty":        {struct{}{}, "{\n  \"schema\": \"x/v1\"\n}\n"},
		"array":        {[]int{1}, ""},
		"null":         {nil, ""},
		"not a number": {struct{ A float64 }{math.NaN()}, ""},
	} {
		var b strings.Builder
		err := format.Envelope(&b, "x/v1", test.v)
		must.True(t, (err != nil) == (test.want == "") && b.String() == test.want, "%s: %q, %v; want %q", name, b.String(), err, test.want)
	}
}

// TestNotANumber: a value that JSON cannot hold gives an error, and so does a writer that
// fails.
func TestNotANumber(t *testing.T) {
	c := reporttest.Cases()[0]
	d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
	o := format.JSONOptions{Samples: c.Samples}
	r, w := io.Pipe()
	must.Do(t, r.Close())
	must.Is(t, format.JSON(w, c.Session, d, o), io.ErrClosedPipe)
	c.Session.Runs[0].Values = []model.Value{{Metric: model.Goodput, Value: math.NaN()}}
	must.Say(t, format.JSON(io.Discard, c.Session, d, o), "write linerate/session/v1: json: unsupported value: NaN")
}

// TestAllOrNothing: a document with a value that JSON cannot hold is not begun, however long
// what stands before that value is.
func TestAllOrNothing(t *testing.T) {
	for name, spoil := range map[string]func(*model.Session, model.Held){
		"a value of a run":  func(s *model.Session, _ model.Held) { s.Runs[1].Values = []model.Value{{Value: math.Inf(1)}} },
		"a sample of a run": func(_ *model.Session, all model.Held) { all[2][len(all[2])-1].Value = math.NaN() },
	} {
		c := reporttest.Cases()[0]
		c.Session.Runs = []model.Run{{Number: 1}, {Number: 2}}
		all := model.Held{1: make([]model.Sample, 2000), 2: make([]model.Sample, 2000)}
		o := format.JSONOptions{Samples: all}
		d := report.Build(c.Session, report.Options{Kinds: reporttest.Kinds()})
		var b bytes.Buffer
		must.Do(t, format.JSON(&b, c.Session, d, o))
		must.Need(t, b.Len() > 200<<10, "only %d bytes", b.Len())
		b.Reset()
		spoil(&c.Session, all)
		must.Say(t, format.JSON(&b, c.Session, d, o), "write linerate/session/v1: json: unsupported value", "%s", name)
		must.Equal(t, b.Len(), 0, "%s: bytes written", name)
	}
}

// TestNothingTwice: the part on a sweep or copies does not repeat the session's report.
func TestNothingTwice(t *testing.T) {
	parts := 0
	for _, c := range reporttest.Cases() {
		doc := renderJSON(t, c, format.JSONOptions{Full: true})["report"].(map[string]any)
		for _, name := range []string{"sweep", "copy"} {
			part, _ := doc[name].(map[string]any)
			if part != nil {
				parts++
			}
			for _, key := range []string{"id", "kind", "title", "created", "state", "ending", "header"} {
				_, again := part[key]
				must.True(t, !again, "%s: report.%s.%s again", c.Name, name, key)
			}
		}
	}
	must.True(t, parts >= 2, "only %d sweeps and copies", parts)
}

// TestBrief: a brief document has each value in the same place as the full one, without its
// source, and counts the settings that it omits.
func TestBrief(t *testing.T) {
	for _, c := range reporttest.Cases() {
		short, whole := renderJSON(t, c, format.JSONOptions{}), renderJSON(t, c, format.JSONOptions{Full: true})
		must.True(t, short["detail"] == "brief" && whole["detail"] == "full", "%s: detail %v and %v", c.Name, short["detail"], whole["detail"])
		within(t, c.Name, short, whole)
		hosts, _ := short["session"].(map[string]any)["hosts"].([]any)
		for i, h := range hosts {
			all := whole["session"].(map[string]any)["hosts"].([]any)[i].(map[string]any)["knobs"].(map[string]any)
			counts := h.(map[string]any)["settings"].(map[string]any)
			n := counts["known"].(float64)
			for _, v := range counts["unknown"].(map[string]any) {
				n += v.(float64)
			}
			must.True(t, int(n) == len(all), "%s: %v settings counted, %d told in full", c.Name, n, len(all))
		}
	}
}

// within demands that whole contains all of short.
func within(t *testing.T, at string, short, whole any) {
	t.Helper()
	switch s := short.(type) {
	case map[string]any:
		w, ok := whole.(map[string]any)
		must.True(t, ok, "%s: an object in brief, %T in full", at, whole)
		_, value := s["value"]
		must.True(t, !value || s["source"] == nil || len(s) != 2, "%s: a brief fact tells its source", at)
		for k, v := range s {
			if _, counts := s["knobs"]; k == "detail" || k == "settings" && counts {
				continue // of the document, and of a host: only brief documents count
			}
			within(t, at+"."+k, v, w[k])
		}
	case []any:
		w, _ := whole.([]any)
		if len(w) != len(s) {
			t.Errorf("%s: %d in brief, %d in full", at, len(s), len(w))
			return
		}
		for i := range s {
			within(t, at, s[i], w[i])
		}
	default:
		must.True(t, short == whole, "%s: %v in brief, %v in full", at, short, whole)
	}
}

// TestReasonsOfSettings: the code beside the reason for an unknown setting is one of a closed list.
func TestReasonsOfSettings(t *testing.T) {
	s := reporttest.Cases()[0].Session
	s.Hosts = []model.HostFacts{{Host: model.Near, Knobs: map[model.KnobID]fact.Of[string]{
		"tcp.sack":       fact.Known("1", "net.ipv4.tcp_sack"),
		"tcp.timestamps": fact.Coded[string](string(knob.OtherReason), "read tcp.timestamps (x): input/output error"),
	}}}
	doc := renderJSON(t, reporttest.Case{Name: "reasons", Session: s}, format.JSONOptions{Full: true})
	_, resolved := schema(t, "session-v1.schema.json")
	must.OK(t, resolved.Validate(doc))
	got := doc["session"].(map[string]any)["hosts"].([]any)[0].(map[string]any)["knobs"].(map[string]any)
	must.NoDiff(t, cmp.Diff(map[string]any{"unknown": "read tcp.timestamps (x): input/output error", "code": "other"}, got["tcp.timestamps"]))
	got["tcp.sack"] = map[string]any{"unknown": "x", "code": "no_idea"}
	must.Fail(t, resolved.Validate(doc), "the schema takes a code that is not of the list")
}

// TestLayout: the layout of a document does not change its content, and no line with several
// values is long.
func TestLayout(t *testing.T) {
	s := reporttest.Cases()[0].Session
	s.Title = `a "quoted" \ } ] , : { [ text`
	text, whole := new(bytes.Buffer), report.Build(s, report.Options{})
	must.Do(t, format.JSON(text, s, whole, format.JSONOptions{Full: true}))
	must.Equal(t, parse(t, text.Bytes())["session"].(map[string]any)["title"], any(s.Title), "title")
	for line := range strings.Lines(text.String()) {
		must.True(t, len(line) <= 111 || !strings.Contains(line, ", ") || strings.Contains(line, `": "`), "a line of %d bytes: %s", len(line), line)
	}
	must.True(t, strings.Contains(text.String(), "\n  \"detail\": \"full\",\n") && strings.HasSuffix(text.String(), "}\n}\n"), "%s", text)
}
