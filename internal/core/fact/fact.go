// Package fact holds values that may be unknown, each with its source.
//
// Unknown is not zero and not false: a NIC whose speed could not be read has no speed, and a
// ceiling computed from it is unknown too.
package fact

import (
	"encoding/json"
	"reflect"
)

// Of is a value that is either known, with its source, or unknown, with the
// reason. The zero value is unknown for an unstated reason.
type Of[T any] struct {
	value  T
	known  bool
	source string // the source if known; the reason if unknown
	code   string // of the reason, "" if it has none
}

// Known returns a known value. source names its origin, for example "TCP_INFO", "sysfs" or
// "user".
func Known[T any](v T, source string) Of[T] {
	return Of[T]{value: v, known: true, source: source}
}

// Unknown returns an unknown value with the reason, for example
// "not available on freebsd".
func Unknown[T any](reason string) Of[T] { return Of[T]{source: reason} }

// Coded returns an unknown value with the reason, and with a word for it of a closed list.
func Coded[T any](code, reason string) Of[T] { return Of[T]{source: reason, code: code} }

// If returns v as a known value if ok, else unknown for the reason why.
func If[T any](ok bool, v T, source, why string) Of[T] {
	if ok {
		return Known(v, source)
	}
	return Unknown[T](why)
}

// Any is a pointer to an Of of any type.
type Any interface {
	// Fields returns pointers to the value, nil if unknown, to its source or reason, and to the
	// code of that.
	Fields() (value any, source, code *string)
}

// Explain sets the reason of every value of the struct at p that is unknown without one.
func Explain(p any, why string) {
	explain(reflect.ValueOf(p).Elem(), why)
}

func explain(v reflect.Value, why string) {
	if f, ok := reflect.TypeAssert[Any](v.Addr()); ok {
		if value, reason, _ := f.Fields(); value == nil && *reason == "" {
			*reason = why
		}
		return
	}
	for i := 0; v.Kind() == reflect.Struct && i < v.NumField(); i++ {
		if v.Type().Field(i).IsExported() {
			explain(v.Field(i), why)
		}
	}
}

// Get returns the value and whether it is known.
func (f Of[T]) Get() (T, bool) { return f.value, f.known }

// Or returns the value if it is known, else fallback.
func (f Of[T]) Or(fallback T) T {
	if f.known {
		return f.value
	}
	return fallback
}

// IsKnown reports whether the value is known.
func (f Of[T]) IsKnown() bool { return f.known }

// Source returns the source of a known value, and "" for an unknown one.
func (f Of[T]) Source() string {
	if f.known {
		return f.source
	}
	return ""
}

// Reason returns why the value is unknown, and "" for a known one.
func (f Of[T]) Reason() string {
	if f.known {
		return ""
	}
	return f.source
}

// Code returns the word that Coded gave the reason of an unknown value, else "".
func (f Of[T]) Code() string { return f.code }

// Fields implements Any.
func (f *Of[T]) Fields() (value any, source, code *string) {
	if !f.known {
		return nil, &f.source, &f.code
	}
	return &f.value, &f.source, &f.code
}

// document is the JSON form: {"value": 1, "source": "x"} or {"unknown": "why", "code": "word"}.
type document[T any] struct {
	Value   *T      `json:"value,omitempty"`
	Source  string  `json:"source,omitempty"`
	Unknown *string `json:"unknown,omitempty"`
	Code    string  `json:"code,omitempty"`
}

// MarshalJSON writes {"value": …, "source": …} or {"unknown": reason, "code": …}.
func (f Of[T]) MarshalJSON() ([]byte, error) {
	if f.known {
		return json.Marshal(document[T]{Value: &f.value, Source: f.source})
	}
	return json.Marshal(document[T]{Unknown: &f.source, Code: f.code})
}

// UnmarshalJSON reads what MarshalJSON writes; null is unknown.
func (f *Of[T]) UnmarshalJSON(b []byte) error {
	var d document[T]
	if err := json.Unmarshal(b, &d); err != nil {
		return err
	}
	*f = Of[T]{}
	switch {
	case d.Value != nil:
		*f = Known(*d.Value, d.Source)
	case d.Unknown != nil:
		*f = Coded[T](d.Code, *d.Unknown)
	}
	return nil
}
