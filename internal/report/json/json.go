// Package json renders reports as JSON documents. Each document is one object
// whose first field names its format and version:
//
//	{"schema": "linerate/session/v1", …}
//
// docs/json.md says what may change within a version; docs/schema holds a JSON
// Schema for each.
package json

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/report"
)

// The formats that this package writes or names for others. A format changes
// its version when a field goes away or changes its meaning.
const (
	SessionSchema = "linerate/session/v1"
	ListSchema    = "linerate/list/v1"
	LimitsSchema  = "linerate/limits/v1"
	KnobsSchema   = "linerate/knobs/v1"
	FactsSchema   = "linerate/facts/v1"
)

// document is linerate/session/v1.
type document struct {
	Session model.Session   `json:"session"`
	Report  report.Document `json:"report"`
	Samples []runSamples    `json:"samples,omitempty"`
}

// runSamples are the samples of one run.
type runSamples struct {
	Run     int            `json:"run"`
	Samples []model.Sample `json:"samples"`
}

// Options choose what a session's document holds beyond the session and its
// report. The zero value is a document without samples.
type Options struct {
	// Samples of the runs to write, by number of run.
	Samples map[int][]model.Sample
}

// Render writes s and its report d to w as linerate/session/v1. Of the numbers
// that only one mode may show, p values and evidence, it writes those of the
// session's mode. A value that is not a number cannot be written; the error
// says which type held it, and nothing is written then.
func Render(w io.Writer, s model.Session, d report.Document, o Options) error {
	doc := document{Session: s, Report: d}
	doc.Session.Runs = append([]model.Run{}, s.Runs...)
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
	for _, r := range s.Runs {
		if samples := o.Samples[r.Number]; len(samples) > 0 {
			doc.Samples = append(doc.Samples, runSamples{r.Number, samples})
		}
	}
	return Envelope(w, SessionSchema, doc)
}

// Envelope writes v, which must become a JSON object without a field "schema"
// of its own, to w as one indented document whose first field is the schema.
// Nothing is written when v cannot be.
func Envelope(w io.Writer, schema string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", schema, err)
	}
	body = bytes.TrimSpace(body)
	if len(body) == 0 || body[0] != '{' {
		return fmt.Errorf("write %s: %w", schema, errors.New("not an object"))
	}
	name, err := json.Marshal(schema)
	if err != nil {
		return fmt.Errorf("write %s: %w", schema, err)
	}
	rest := body[1:]
	if rest[0] != '}' {
		rest = append([]byte{','}, rest...)
	}
	whole := append(append([]byte(`{"schema":`), name...), rest...)
	var out bytes.Buffer
	if err := json.Indent(&out, whole, "", "  "); err != nil {
		return fmt.Errorf("write %s: %w", schema, err)
	}
	out.WriteByte('\n')
	_, err = w.Write(plain.JSON(out.Bytes())) // also a terminal may be there
	return err
}
