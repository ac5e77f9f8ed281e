package session

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
)

// A rule says what a field of a message may hold. It is the field's bound tag:
//
//	bound:"name"       a kind of text, see textKinds
//	bound:"end"        the end that the agent is
//	bound:"to|from"    one of these words; "|to" also allows ""
//	bound:"1ms..24h"   a number or a length of time in this range; "9" is "0..9"
//	bound:"64,name"    a list or map with at most 64 elements, and the rule of each
//
// Without a tag a text is a word of at most MaxName bytes, a KnobID or Metric is a
// name, a count is at most maxCount and a length of time at most MaxDuration. In a
// fact a text is a value, and a length of time may be as large as a count. The keys of
// a map are names. Real numbers are finite. Every list and map has a tag.
type rule struct {
	kind      string   // of text
	words     []string // nil allows any
	ranged    bool
	low, high int64
	each      *rule // of the elements; nil for that of their type
}

// textKind says what a text may contain.
type textKind struct {
	most  int  // bytes
	empty bool // may be empty
	lines bool // may have several lines
	exact bool // refused instead of cleaned if it holds unprintable characters
}

func textKinds(kind string) textKind {
	switch kind {
	case "name":
		return textKind{most: MaxName}
	case "address":
		return textKind{most: MaxAddress, empty: true}
	case "endpoint":
		return textKind{most: MaxAddress + len("[]:65535"), empty: true}
	case "value":
		return textKind{most: MaxValue, empty: true}
	case "text":
		return textKind{most: MaxText, empty: true}
	case "command":
		return textKind{most: MaxValue, empty: true, exact: true}
	case "proof":
		return textKind{most: MaxProof, empty: true}
	case "diff":
		return textKind{most: MaxDiff, empty: true, lines: true}
	case "":
		return textKind{most: MaxName, empty: true}
	}
	panic("session: no kind of text is called " + kind)
}

func parseRule(tag string) rule {
	tag, rest, more := strings.Cut(tag, ",")
	var r rule
	if more {
		each := parseRule(rest)
		r.each = &each
	}
	low, high, isRange := strings.Cut(tag, "..")
	if !isRange {
		low, high = "0", tag
	}
	switch {
	case strings.Contains(tag, "|"):
		r.words = strings.Split(tag, "|")
	case isRange || tag != "" && tag[0] >= '0' && tag[0] <= '9':
		r.ranged, r.low, r.high = true, parseBound(low), parseBound(high)
	default:
		r.kind = tag
	}
	return r
}

// parseBound returns a whole number, or a length of time in nanoseconds.
func parseBound(s string) int64 {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		panic("session: bound " + s + " is neither a number nor a length of time")
	}
	return int64(d)
}

// inFact returns the rule for the value of a fact whose field has r.
func (r rule) inFact() rule {
	if r.kind == "" {
		r.kind = "value"
	}
	return r.upTo(maxCount)
}

// upTo returns r with the range from 0 to high if it has none.
func (r rule) upTo(high int64) rule {
	if !r.ranged {
		r.low, r.high = 0, high
	}
	r.ranged = true
	return r
}

// element returns the rule for each element of a list or map.
func (r rule) element() rule {
	if r.each == nil {
		return rule{}
	}
	return *r.each
}

// shape is what the walkers need to know of a type.
type shape struct {
	fact   bool // a fact.Of
	opaque bool // has a JSON form of its own, which its own code checks
	fields []field
}

// field is one field of a message.
type field struct {
	index int
	name  string // in JSON
	typ   reflect.Type
	rule  rule
}

// shapes caches the types of a session's messages.
type shapes struct{ known sync.Map }

func (s *shapes) of(t reflect.Type) *shape {
	if known, ok := s.known.Load(t); ok {
		return known.(*shape)
	}
	p := reflect.PointerTo(t)
	is := &shape{fact: p.Implements(reflect.TypeFor[fact.Any]())}
	is.opaque = !is.fact && t.Kind() != reflect.Slice &&
		(p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()))
	if t.Kind() == reflect.Struct && !is.fact && !is.opaque {
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				panic(fmt.Sprintf("session: field %s of %s has no name in JSON", f.Name, t))
			}
			if name != "-" {
				is.fields = append(is.fields, field{i, name, f.Type, parseRule(f.Tag.Get("bound"))})
			}
		}
	}
	s.known.Store(t, is)
	return is
}

// bounds walks over a message. It stores the first fault in its check. With fit it instead
// makes the message pass the check: it cleans and shortens, in copies, what comes from kernels
// and programs.
type bounds struct {
	check
	*shapes
	end model.Host // that the agent is
	fit bool
}

// value walks over v, which can be set.
func (b *bounds) value(v reflect.Value, field string, r rule) {
	if b.err != nil {
		return
	}
	shape := b.of(v.Type())
	if shape.fact {
		value, source, code := v.Addr().Interface().(fact.Any).Fields()
		*source, *code = b.text(field, *source, textKinds("text")), b.text(field, *code, textKinds("text"))
		if value != nil {
			b.value(reflect.ValueOf(value).Elem(), field, r.inFact())
		}
		return
	}
	if shape.opaque {
		b.message(v)
		return
	}
	switch v.Kind() {
	case reflect.String:
		b.word(v, field, r)
	case reflect.Int, reflect.Int64:
		b.number(v, field, r)
	case reflect.Uint32, reflect.Uint64:
		if r.ranged && v.Uint() > uint64(r.high) {
			b.fail("%s is %d, at most %d is allowed", field, v.Uint(), r.high)
		}
	case reflect.Float64:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			b.fail("%s is not a finite number", field)
		}
	case reflect.Slice:
		b.list(v, field, r)
	case reflect.Map:
		b.entries(v, field, r)
	case reflect.Pointer:
		if v.IsNil() || b.of(v.Type().Elem()).opaque {
			return
		}
		if b.fit {
			fresh := reflect.New(v.Type().Elem())
			fresh.Elem().Set(v.Elem())
			v.Set(fresh)
		}
		b.value(v.Elem(), field, r)
	case reflect.Struct:
		for _, f := range shape.fields {
			b.value(v.Field(f.index), f.name, f.rule)
		}
		b.message(v)
	default: // a switch, or an array of bytes
	}
}

// word walks over a text.
func (b *bounds) word(v reflect.Value, field string, r rule) {
	switch v.Type() {
	case reflect.TypeFor[model.Host]():
		if r.kind == "end" {
			v.SetString(string(b.end))
			return
		}
		r.words = []string{"", string(model.Near), string(model.Far)}
	case reflect.TypeFor[model.KnobID](), reflect.TypeFor[model.Metric]():
		r.kind = "name"
	}
	if r.words != nil {
		if !b.fit && !slices.Contains(r.words, v.String()) {
			b.fail("%s is %.20q, allowed are %.100q", field, v.String(), r.words)
		}
		return
	}
	v.SetString(b.text(field, v.String(), textKinds(r.kind)))
}

// number walks over a whole number or a length of time.
func (b *bounds) number(v reflect.Value, field string, r rule) {
	isTime := v.Type() == reflect.TypeFor[time.Duration]()
	if isTime {
		r = r.upTo(int64(MaxDuration))
	}
	r = r.upTo(maxCount)
	switch n := v.Int(); {
	case b.fit || n >= r.low && n <= r.high:
	case isTime:
		b.fail("%s is %v, allowed are %v to %v", field, time.Duration(n), time.Duration(r.low), time.Duration(r.high))
	default:
		b.fail("%s is %d, allowed are %d to %d", field, n, r.low, r.high)
	}
}

// list walks over a list.
func (b *bounds) list(v reflect.Value, field string, r rule) {
	b.count(field, v.Len(), r)
	if b.err != nil {
		return
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return
	}
	if b.fit && !v.IsNil() {
		most := min(v.Len(), int(r.high))
		fresh := reflect.MakeSlice(v.Type(), most, most)
		reflect.Copy(fresh, v)
		v.Set(fresh)
	}
	for i := range v.Len() {
		b.value(v.Index(i), field, r.element())
	}
	b.message(v)
}

// entries walks over a map.
func (b *bounds) entries(v reflect.Value, field string, r rule) {
	b.count(field, v.Len(), r)
	if b.err != nil || v.IsNil() {
		return
	}
	fresh := reflect.MakeMapWithSize(v.Type(), min(v.Len(), int(r.high)))
	keys := v.MapKeys()
	slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
	for _, key := range keys[:min(len(keys), int(r.high))] {
		name, value := reflect.New(key.Type()).Elem(), reflect.New(v.Type().Elem()).Elem()
		name.SetString(b.text(field, key.String(), textKinds("name")))
		value.Set(v.MapIndex(key))
		b.value(value, field, r.element())
		fresh.SetMapIndex(name, value)
	}
	v.Set(fresh)
}

func (b *bounds) count(field string, n int, r rule) {
	if !b.fit && (int64(n) < r.low || int64(n) > r.high) {
		b.fail("%s has %d entries, allowed are %d to %d", field, n, r.low, r.high)
	}
}

// text returns s in displayable form, in one line unless its kind allows several.
func (b *bounds) text(field, s string, k textKind) string {
	if s != "" && len(s) <= k.most && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return s // the usual case
	}
	if b.fit {
		switch {
		case k.exact:
			return s
		case k.lines:
			return cleanLines(s, k.most)
		}
		return clean(s, k.most)
	}
	if s == "" {
		b.that(k.empty, "%s is empty", field)
		return s
	}
	if len(s) > k.most {
		b.fail("%s has %d bytes, at most %d are allowed", field, len(s), k.most)
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, isControl) {
		b.fail("%s holds control characters", field)
	}
	shown := plain.Text(s)
	if !k.lines {
		shown = strings.ReplaceAll(shown, "\n", " ")
	}
	if k.exact && shown != s {
		b.fail("%s has characters that are not shown", field)
	}
	return shown
}

// message checks a value against the rules that go beyond one field.
func (b *bounds) message(v reflect.Value) {
	if b.err == nil && !b.fit {
		b.whole(v.Addr().Interface())
	}
}

// fitted returns a copy of a message that passes the other end's check; see bounds.
func (s *shapes) fitted(message any, end model.Host) any {
	fresh := reflect.New(reflect.TypeOf(message).Elem())
	fresh.Elem().Set(reflect.ValueOf(message).Elem())
	b := bounds{shapes: s, end: end, fit: true}
	b.value(fresh.Elem(), "message", rule{})
	return fresh.Interface()
}
