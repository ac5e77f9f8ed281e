// Package traffic is the paper half of the kinds of traffic: the parameters that
// an engine owns, and how they are read, written and bounded. A folder below it
// holds the parameters of one engine; the engine itself is in package measure.
package traffic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"linerate/internal/core/model"
)

// MaxParams is the most bytes that an engine's parameters have: enough for the
// 4096 sizes of a sweep.
const MaxParams = 64 << 10

// Read returns parameters of type T, which is a struct; no text is its zero value.
// The error is for text that is too long, is not one JSON object, or has a key that
// T has not. It says nothing of the values: an engine bounds those.
func Read[T any](p model.Params) (T, error) {
	var v T
	if p == "" {
		return v, nil
	}
	if len(p) > MaxParams {
		return v, fmt.Errorf("parameters of %d bytes: at most %d", len(p), MaxParams)
	}
	if p[0] != '{' {
		return v, errors.New("parameters are no JSON object")
	}
	d := json.NewDecoder(bytes.NewReader([]byte(p)))
	d.DisallowUnknownFields()
	err := d.Decode(&v)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more than one JSON object")
		}
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("parameters: %w", err)
	}
	return v, nil
}

// Write is the text of v, a struct whose fields encoding/json knows. What JSON
// cannot hold, such as a rate that is not a number, makes a text that Read refuses.
func Write[T any](v T) model.Params {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(err.Error()) // a string
	}
	return model.Params(b)
}
