package postgres

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// marked begins a text that is stored encoded: PostgreSQL accepts neither the byte 0 nor
// invalid UTF-8 (section 8.3 of its manual), which foreign names may contain.
const marked = "\x01"

// escape returns the stored form of a text: the text itself, or marked and its base64.
func escape(s string) string {
	if !strings.Contains(s, "\x00") && !strings.HasPrefix(s, marked) && utf8.ValidString(s) {
		return s
	}
	return marked + base64.StdEncoding.EncodeToString([]byte(s))
}

// plain reverses escape.
func plain(s string) string {
	encoded, ok := strings.CutPrefix(s, marked)
	if !ok {
		return s
	}
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return s // not written by escape
	}
	return string(b)
}
