// Package traffic describes the kinds of traffic: the parameters of each engine, and how they
// are parsed, formatted and limited. A folder below it holds the parameters of one engine; the
// engine itself is in package measure.
package traffic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"linerate/internal/core/model"
)

// MaxParams is the most bytes of an engine's parameters: enough for the 4096 sizes of a sweep.
const MaxParams = 64 << 10

// Read parses parameters of type T, which is a struct; the empty text is its zero value. It
// returns an error if the text is too long, is not one JSON object, or has a key that T lacks.
// It does not check the values: that is the engine's task.
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

// Write returns the text of v, a struct whose fields encoding/json supports. For values that
// JSON cannot represent, such as a rate that is NaN, it returns a text that Read rejects.
func Write[T any](v T) model.Params {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(err.Error()) // a string
	}
	return model.Params(b)
}
