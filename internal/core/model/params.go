package model

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Params are an engine's own parameters, as the text of one JSON object that only
// that engine reads and writes; "" is its defaults. Flow, protocol and store carry
// them as they are. Package traffic reads them.
type Params string

// MarshalJSON writes the object, and null for none. The error is for text that is
// no JSON.
func (p Params) MarshalJSON() ([]byte, error) {
	if p == "" {
		return []byte("null"), nil
	}
	if !json.Valid([]byte(p)) {
		return nil, errors.New("parameters of an engine are no JSON")
	}
	return []byte(p), nil
}

// UnmarshalJSON keeps the text, without its blanks; null is none.
func (p *Params) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*p = ""
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return err
	}
	*p = Params(b.String())
	return nil
}
