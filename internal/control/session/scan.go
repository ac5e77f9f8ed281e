package session

import (
	"encoding/json"
	"reflect"
	"unicode/utf8"

	"linerate/internal/core/units"
)

// maxOpaque is how many tokens the JSON of a histogram, or of an engine's parameters, may have.
// A histogram has at most 2,345 buckets of four tokens (package hist), and a list of sizes
// 4,096.
const maxOpaque = 16 << 10

// scanner reads a JSON message (RFC 8259) along the type that it will be decoded into, without
// building it: two bytes on the wire can be two thousand in memory, so lists and maps are
// checked against their bounds first.
type scanner struct {
	check
	*shapes
	rest []byte // valid JSON
	cost units.Bytes
}

// scan returns the most memory that decoding b into a t takes, garbage included. The error
// wraps ErrInvalid: b is not JSON, a list exceeds its bound, a field is unknown or occurs twice.
func (s *shapes) scan(b []byte, t reflect.Type) (units.Bytes, error) {
	scan := scanner{shapes: s, rest: b}
	if !utf8.Valid(b) || !json.Valid(b) {
		scan.fail("no JSON")
	} else {
		scan.value(t, "message", rule{})
	}
	return scan.cost, scan.err
}

func (s *scanner) fail(format string, args ...any) {
	s.check.fail(format, args...)
	s.rest = nil
}

// next returns the next byte that is not a blank; 0 at the end and after a fault.
func (s *scanner) next() byte {
	for len(s.rest) > 0 {
		switch c := s.rest[0]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			s.rest = s.rest[1:]
		default:
			return c
		}
	}
	return 0
}

// text consumes a string and returns what is between its quotes.
func (s *scanner) text() string {
	for i := 1; i < len(s.rest); i++ {
		switch s.rest[i] {
		case '\\':
			i++
		case '"':
			text := s.rest[1:i]
			s.rest = s.rest[i+1:]
			s.cost += units.Bytes(3*len(text) + 16) // needed by the decoder besides the text itself
			return string(text)
		}
	}
	s.rest = nil
	return ""
}

// scalar consumes a number, true, false or null.
func (s *scanner) scalar() {
	for i, c := range s.rest {
		switch c {
		case ' ', '\t', '\n', '\r', ',', ']', '}':
			s.rest = s.rest[i:]
			return
		}
	}
	s.rest = nil
}

// any consumes a value whose own type decodes it.
func (s *scanner) any(field string) {
	depth, tokens := 0, 0
	for {
		switch s.next() {
		case 0:
			return
		case '{', '[':
			depth++
			s.rest = s.rest[1:]
		case '}', ']':
			depth--
			s.rest = s.rest[1:]
		case '"':
			s.text()
		default:
			s.scalar()
			s.cost += 16
		}
		if tokens++; tokens > maxOpaque {
			s.fail("%s has more than %d parts", field, maxOpaque)
		}
		if depth == 0 {
			return
		}
	}
}

// value consumes a value of type t.
func (s *scanner) value(t reflect.Type, field string, r rule) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
		s.cost += units.Bytes(t.Size())
	}
	shape := s.of(t)
	switch c := s.next(); {
	case c != '{' && c != '[':
		if c == '"' {
			s.text()
			return
		}
		s.scalar()
	case shape.opaque:
		s.cost += units.Bytes(t.Size())
		s.any(field)
	case c == '[' && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		s.list(t, field, r)
	case c == '{' && t.Kind() == reflect.Map:
		s.object(func(seen map[string]bool, name string) {
			if len(seen) > int(r.high) {
				s.fail("%s has more than %d entries", field, r.high)
			}
			s.cost += 4 * units.Bytes(t.Key().Size()+t.Elem().Size())
			s.value(t.Elem(), name, r.element())
		})
	case c == '{' && shape.fact:
		s.cost += 256 // it has a decoder of its own
		s.object(func(_ map[string]bool, name string) {
			switch name { // see fact.Of
			case "value":
				s.value(t.Field(0).Type, field, r)
			case "source", "unknown", "code":
				s.value(reflect.TypeFor[string](), name, rule{})
			default:
				s.fail("a fact has no field %.40q", name)
			}
		})
	case c == '{' && t.Kind() == reflect.Struct:
		s.object(func(_ map[string]bool, name string) {
			for _, f := range shape.fields {
				if f.name == name {
					s.value(f.typ, name, f.rule)
					return
				}
			}
			s.fail("there is no field %.40q", name)
		})
	default:
		s.fail("%s is not of its type", field)
	}
}

// list consumes a list.
func (s *scanner) list(t reflect.Type, field string, r rule) {
	if t.Kind() == reflect.Array {
		r.low, r.high = int64(t.Len()), int64(t.Len())
	}
	s.rest = s.rest[1:]
	n := int64(0)
	for c := s.next(); c != ']' && c != 0; c = s.next() {
		if n++; n > r.high {
			s.fail("%s has more than %d entries", field, r.high)
			return
		}
		s.cost += 4 * units.Bytes(t.Elem().Size()) // a growing list leaves smaller copies behind
		s.value(t.Elem(), field, r.element())
	}
	if n < r.low {
		s.fail("%s has %d entries, at least %d are needed", field, n, r.low)
	}
	if s.err == nil {
		s.rest = s.rest[1:]
	}
}

// object consumes an object. It calls member to consume the value of each name; a name may not
// occur twice.
func (s *scanner) object(member func(seen map[string]bool, name string)) {
	seen := map[string]bool{}
	s.rest = s.rest[1:]
	for c := s.next(); c != '}' && c != 0; c = s.next() {
		name := s.text()
		if seen[name] {
			s.fail("%.40q occurs twice", name)
			return
		}
		seen[name] = true
		s.next()
		member(seen, name)
	}
	if s.err == nil {
		s.rest = s.rest[1:]
	}
}
