package iperf3

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// object is a JSON object by its keys. Of a key that occurs twice the first
// counts, as in every iperf3 (section 4); package encoding/json alone would
// take the last, and match keys in any case.
type object map[string]json.RawMessage

// maxKeys bounds what an object of many tiny values may cost: no version has
// half as many keys.
const maxKeys = 128

// parseObject reads one JSON object and nothing after it.
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

// reader takes typed values out of an object and keeps the first error.
type reader struct {
	o   object
	err error
}

func (r *reader) fail(key string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%q: %w", key, err)
	}
}

var errMissing = errors.New("missing")

// has reports whether the key is present; need notes an error where it is not.
func (r *reader) has(key string) bool { _, ok := r.o[key]; return ok }

func (r *reader) need(keys ...string) {
	for _, k := range keys {
		if !r.has(k) {
			r.fail(k, errMissing)
		}
	}
}

// integer stores the value of key in to; without the key it leaves to alone.
func (r *reader) integer(key string, to *int64) {
	raw, ok := r.o[key]
	if !ok {
		return
	}
	v, err := parseInteger(raw)
	if err != nil {
		r.fail(key, err)
		return
	}
	*to = v
}

func (r *reader) number(key string, to *float64) {
	raw, ok := r.o[key]
	if !ok {
		return
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !isNumber(raw) {
		r.fail(key, fmt.Errorf("%s is not a number", shown(raw)))
		return
	}
	*to = v
}

func (r *reader) text(key string, to *string) {
	raw, ok := r.o[key]
	if !ok {
		return
	}
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, to) != nil {
		r.fail(key, fmt.Errorf("%s is not a string", shown(raw)))
	}
}

// flag accepts what any version writes or takes for a switch: a boolean, or a
// number that is on unless zero.
func (r *reader) flag(key string, to *bool) {
	raw, ok := r.o[key]
	if !ok {
		return
	}
	switch string(raw) {
	case "true":
		*to = true
	case "false":
		*to = false
	default:
		var v int64
		r.integer(key, &v)
		*to = v != 0
	}
}

// parseInteger reads an integer in each of the forms that versions write
// (section 8):
//
//	-1
//	18446744073709551615
//	1.5e+15
//
// The second is -1 as 3.12 and 3.13 print it. A fraction, and a float beyond
// 64 bits, are errors.
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

// isNumber keeps out what strconv reads and JSON does not know, as "inf".
func isNumber(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// shown is a value as an error shows it: a peer's megabyte stays out of the log.
func shown(raw json.RawMessage) string {
	const most = 40
	if len(raw) > most {
		return strconv.Quote(string(raw[:most]) + "...")
	}
	return strconv.Quote(string(raw))
}

// writer builds an object in the order of its calls, compactly, as iperf3 does.
type writer struct{ b []byte }

func (w *writer) key(name string) {
	if len(w.b) == 0 {
		w.b = append(w.b, '{')
	} else {
		w.b = append(w.b, ',')
	}
	w.b = append(strconv.AppendQuote(w.b, name), ':')
}

func (w *writer) integer(name string, v int64) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *writer) number(name string, v float64) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	w.raw(name, b)
	return nil
}

// text writes a string without the escapes for HTML.
func (w *writer) text(name, v string) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	// A string and a buffer leave nothing to go wrong.
	_ = e.Encode(v)
	w.raw(name, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

func (w *writer) raw(name string, v []byte) {
	w.key(name)
	w.b = append(w.b, v...)
}

func (w *writer) end() []byte {
	if len(w.b) == 0 {
		return []byte("{}")
	}
	return append(w.b, '}')
}
