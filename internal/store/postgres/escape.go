package postgres

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// marked begins a text that is stored encoded: PostgreSQL keeps no byte 0 and nothing
// that is not UTF-8 (section 8.3 of its manual), which names of others may hold.
const marked = "\x01"

// escape returns what is stored of a text: the text, or marked and its base64.
func escape(s string) string {
	if !strings.Contains(s, "\x00") && !strings.HasPrefix(s, marked) && utf8.ValidString(s) {
		return s
	}
	return marked + base64.StdEncoding.EncodeToString([]byte(s))
}

// plain returns the text that escape was given.
func plain(s string) string {
	encoded, ok := strings.CutPrefix(s, marked)
	if !ok {
		return s
	}
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return s // somebody else wrote it
	}
	return string(b)
}
