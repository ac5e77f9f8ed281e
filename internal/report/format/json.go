// Package format renders sessions and reports for other programs and for people: JSON, CSV, the
// files of Flent and of Go's benchmarks, OpenMetrics, Markdown, and the few lines of a ticket.
//
// Each JSON document is one object whose first field names its format and version:
//
//	{"schema": "linerate/session/v1", …}
//
// docs/json.md says what may change within a version; docs/schema holds a JSON Schema for each.
package format

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/report"
)

// The formats that this package writes or names for others. A format's version changes when a
// field is removed or changes its meaning.
const (
	SessionSchema = "linerate/session/v1"
	ListSchema    = "linerate/list/v1"
	LimitsSchema  = "linerate/limits/v1"
	KnobsSchema   = "linerate/knobs/v1"
	FactsSchema   = "linerate/facts/v1"
	CheckSchema   = "linerate/check/v1"
	DryRunSchema  = "linerate/dryrun/v1"
)

// The level of detail of a session's document.
const (
	brief = "brief" // for people and most programs
	full  = "full"  // all known facts
)

// document is linerate/session/v1.
type document struct {
	Detail  string    `json:"detail"`
	Session session   `json:"session"`
	Report  sectioned `json:"report"`
}

// sectioned is a report with the engine's section as an additional member.
type sectioned struct{ report.Document }

// MarshalJSON writes the section's data under its own key.
func (d sectioned) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(d.Document)
	if err != nil || d.Section == nil {
		return text, err
	}
	more, err := json.Marshal(map[string]any{d.Section.Key: d.Section.Data})
	if err != nil {
		return nil, err
	}
	return slices.Concat(text[:len(text)-1], []byte(","), more[1:]), nil
}

// session is a model.Session with hosts and runs in document form. Its runs are written one by
// one.
type session struct {
	model.Session
	Hosts []host     `json:"hosts"`
	Runs  []struct{} `json:"runs"`
}

// host is the facts of a host. In brief form it counts the settings, includes only those that
// limit a single flow or that the session sets, and omits the machine, its route and its
// interfaces.
type host struct {
	model.HostFacts
	Settings *settings                        `json:"settings,omitempty"`
	Knobs    map[model.KnobID]fact.Of[string] `json:"knobs,omitempty"`
	Machine  *model.Machine                   `json:"machine,omitempty"`
	Route    *model.Route                     `json:"route,omitempty"`
	NICs     []model.NIC                      `json:"nics,omitempty"`
}

// settings counts the settings of a host.
type settings struct {
	Known   int                 `json:"known"`
	Unknown map[knob.Reason]int `json:"unknown"`
}

// run is a run with the reports of its ends, which a brief document omits: the run's values
// summarise them.
type run struct {
	model.Run
	Ends []model.EndReport `json:"ends,omitempty"`
}

// runSamples are the samples of one run.
type runSamples struct {
	Run     int            `json:"run"`
	Samples []model.Sample `json:"samples"`
}

// JSONOptions select what a session's document has beyond the session and its report. The zero
// value is a brief document without samples.
type JSONOptions struct {
	// Full includes every fact: each setting of each host, all interfaces, the reports of both
	// ends of each run, and all sources.
	Full bool
	// Samples of the runs to write, nil for none.
	Samples model.Samples
}

// JSON writes s and its report d to w as linerate/session/v1. Of p values and evidence, it
// writes those of the session's mode. NaN and infinite values cannot be written: the error
// names the first one, and nothing is written. It holds only one run with its samples in memory
// at a time.
func JSON(w io.Writer, s model.Session, d report.Document, o JSONOptions) error {
	doc := document{Detail: brief, Session: session{Session: s, Runs: []struct{}{}}, Report: sectioned{d}}
	if o.Full {
		doc.Detail = full
	}
	doc.Session.Verdicts = make([]model.Verdict, len(s.Verdicts))
	for i, v := range s.Verdicts {
		switch s.Plan.Mode {
		case model.FixedBlocks:
			v.Evidence = nil
		case model.Sequential:
			v.P = nil
		}
		doc.Session.Verdicts[i] = v
	}
	named := model.PublicKnobs()
	for _, set := range s.Plan.Settings {
		for _, a := range set.Assignments {
			named = append(named, a.Knob)
		}
	}
	for _, h := range s.Hosts {
		doc.Session.Hosts = append(doc.Session.Hosts, hostOf(h, o.Full, named))
	}
	body, err := enveloped(SessionSchema, doc)
	if err != nil {
		return err
	}
	if err := writable(s.Runs, o); err != nil {
		return err
	}
	p := printer{out: bufio.NewWriterSize(w, 64<<10), brief: !o.Full}
	root := p.parse(body)
	if len(s.Runs) > 0 {
		root.member("session").member("runs").more = func(yield func(any) bool) {
			for _, r := range s.Runs {
				if !yield(runOf(r, o.Full)) {
					return
				}
			}
		}
	}
	samples := func(yield func(any) bool) {
		for _, r := range s.Runs {
			if of := o.Samples.Of(r.Number); len(of) > 0 && !yield(runSamples{r.Number, of}) {
				return
			}
		}
	}
	if o.Samples != nil && slices.ContainsFunc(s.Runs, func(r model.Run) bool { return len(o.Samples.Of(r.Number)) > 0 }) {
		root.members = append(root.members, member{[]byte(`"samples"`), &node{open: '[', more: samples}})
	}
	if p.document(root); p.err != nil {
		return p.err
	}
	return p.out.Flush()
}

// runOf returns a run in document form.
func runOf(r model.Run, full bool) run {
	one := run{Run: r}
	if full {
		one.Ends = r.Ends
	}
	return one
}

// writable returns the error of the first run or sample that JSON cannot hold.
func writable(runs []model.Run, o JSONOptions) error {
	for _, r := range runs {
		if err := json.NewEncoder(io.Discard).Encode(runOf(r, o.Full)); err != nil {
			return fmt.Errorf("write %s: %w", SessionSchema, err)
		}
		if o.Samples == nil {
			continue
		}
		for _, x := range o.Samples.Of(r.Number) {
			if x.Value-x.Value != 0 { // far cheaper than to encode it
				return fmt.Errorf("write %s: json: unsupported value: %g, a sample of %s in run %d", SessionSchema, x.Value, x.Metric, r.Number)
			}
		}
	}
	return nil
}

// hostOf returns the facts of a host in document form: all settings or only the named ones.
func hostOf(f model.HostFacts, all bool, named []model.KnobID) host {
	if all {
		return host{HostFacts: f, Knobs: f.Knobs, Machine: f.Machine, Route: f.Route, NICs: f.NICs}
	}
	h := host{HostFacts: f, Knobs: map[model.KnobID]fact.Of[string]{}, Settings: &settings{Unknown: map[knob.Reason]int{}}}
	for id, v := range f.Knobs {
		if slices.Contains(named, id) {
			h.Knobs[id] = v
		}
		if v.IsKnown() {
			h.Settings.Known++
		} else {
			h.Settings.Unknown[knob.ReasonOf(v)]++
		}
	}
	return h
}

// Envelope writes v, which must become a JSON object without a field "schema" of its own, to w
// as one indented document whose first field is the schema. It writes nothing if v cannot be
// encoded.
func Envelope(w io.Writer, schema string, v any) error {
	whole, err := enveloped(schema, v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, whole, "", "  "); err != nil {
		return fmt.Errorf("write %s: %w", schema, err)
	}
	out.WriteByte('\n')
	_, err = w.Write(plain.JSON(out.Bytes())) // w may be a terminal
	return err
}

// enveloped returns v as one object whose first field is the schema.
func enveloped(schema string, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", schema, err)
	}
	body = bytes.TrimSpace(body)
	if len(body) == 0 || body[0] != '{' {
		return nil, fmt.Errorf("write %s: %w", schema, errors.New("not an object"))
	}
	name, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", schema, err)
	}
	rest := body[1:]
	if rest[0] != '}' {
		rest = append([]byte{','}, rest...)
	}
	return append(append([]byte(`{"schema":`), name...), rest...), nil
}
