package iperf3

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
)

// object is a JSON object by its keys. The first of duplicate keys counts, as in every iperf3
// (section 4); package encoding/json alone would take the last, and ignore case.
type object map[string]json.RawMessage

// maxKeys bounds the cost of an object of many tiny values: no version has half as many keys.
const maxKeys = 128

// parseObject parses exactly one JSON object.
func parseObject(data []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	open, err := d.Token()
	if err != nil {
		return nil, err
	}
	if open != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	o := object{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, errors.New("key is not a string")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		if _, seen := o[name]; !seen {
			o[name] = value
		}
		if len(o) > maxKeys {
			return nil, fmt.Errorf("more than %d keys", maxKeys)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return o, nil
}

var errMissing = errors.New("missing")

// field is a key of an object, a pointer to its value (*int64, *float64, *bool, *string or
// *json.RawMessage), and how it is written.
type field struct {
	key  string
	of   any
	form form
}

type form int

const (
	always   form = iota // whatever the value
	optional             // omitted if 0, false or empty
	isOne                // a switch: 1, or omitted if false
	digit                // 1 or 0
)

// read stores the values of o in fields, and returns the first error. A key that o lacks leaves
// its value unchanged; if needed is true, a missing field with form always is an error.
func (o object) read(fields []field, needed bool) error {
	for _, f := range fields {
		raw, ok := o[f.key]
		err := error(nil)
		switch to := f.of.(type) {
		case *int64:
			if ok {
				*to, err = parseInteger(raw)
			}
		case *float64:
			if ok {
				if *to, err = strconv.ParseFloat(string(raw), 64); err != nil || !isNumber(raw) {
					err = fmt.Errorf("%s is not a number", shown(raw))
				}
			}
		case *string:
			if ok && (raw[0] != '"' || json.Unmarshal(raw, to) != nil) {
				err = fmt.Errorf("%s is not a string", shown(raw))
			}
		case *bool: // a boolean, or a number that is true unless 0: versions write both
			if ok && json.Unmarshal(raw, to) != nil || string(raw) == "null" {
				var v int64
				v, err = parseInteger(raw)
				*to = v != 0
			}
		case *json.RawMessage:
			*to = raw
		}
		if !ok && needed && f.form == always {
			err = errMissing
		}
		if err != nil {
			return fmt.Errorf("%q: %w", f.key, err)
		}
	}
	return nil
}

// write returns an object with fields in their order, in the compact form of iperf3.
func write(fields []field) ([]byte, error) {
	var b bytes.Buffer
	for _, f := range fields {
		v := reflect.ValueOf(f.of).Elem()
		empty := v.IsZero()
		if empty && (f.form == optional || f.form == isOne) {
			continue
		}
		open := ","
		if b.Len() == 0 {
			open = "{"
		}
		fmt.Fprintf(&b, "%s%q:", open, f.key)
		value := v.Interface()
		if f.form == isOne || f.form == digit {
			value = map[bool]int{false: 1}[empty]
		}
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(value); err != nil {
			return nil, fmt.Errorf("%q: %w", f.key, err)
		}
		b.Truncate(b.Len() - 1) // the trailing newline
	}
	if b.Len() == 0 {
		return []byte("{}"), nil
	}
	return append(b.Bytes(), '}'), nil
}

// parseInteger parses an integer in each of the forms that versions write (section 8):
//
//	-1
//	18446744073709551615
//	1.5e+15
//
// The second is -1 as 3.12 and 3.13 print it. A fraction, and a float beyond 64 bits, are
// errors.
func parseInteger(raw json.RawMessage) (int64, error) {
	text := string(raw)
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, nil
	}
	if v, err := strconv.ParseUint(text, 10, 64); err == nil {
		return int64(v), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !isNumber(raw) || f != math.Trunc(f) || f < -(1<<63) || f >= 1<<63 {
		return 0, fmt.Errorf("%s is not a 64-bit integer", shown(raw))
	}
	return int64(f), nil
}

// isNumber rejects values that strconv accepts and JSON does not, such as "inf".
func isNumber(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// shown shortens a value for an error: a peer's megabyte stays out of the log.
func shown(raw json.RawMessage) string {
	const most = 40
	if len(raw) > most {
		return strconv.Quote(string(raw[:most]) + "...")
	}
	return strconv.Quote(string(raw))
}
