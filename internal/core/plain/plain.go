// Package plain makes foreign text safe to display: without terminal control sequences, and
// without characters that disguise text. It also finds the known word nearest to a mistyped one.
package plain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mark replaces each character that is not shown.
const mark = '?'

// Harmful reports whether a character has an effect instead of a glyph:
//
//   - controls of ECMA-48 (Unicode Cc: U+0000-U+001F, U+007F-U+009F), of which
//     ESC and CSI begin terminal commands; except tab and newline;
//   - formats (Unicode Cf), which reverse the order of text (UAX #9: U+061C,
//     U+200E, U+200F, U+202A-U+202E, U+2066-U+2069), are invisible (U+200B,
//     U+2060, U+FEFF), or hide letters in others (U+E0001-U+E007F);
//   - the separators of lines and paragraphs (U+2028, U+2029).
func Harmful(r rune) bool {
	return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Clean reports whether Text would leave b unchanged.
func Clean(b []byte) bool {
	for i := 0; i < len(b); {
		if c := b[i]; c < utf8.RuneSelf {
			if c < ' ' && c != '\n' && c != '\t' && (c != '\r' || i+1 == len(b) || b[i+1] != '\n') || c == 0x7f {
				return false
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 || Harmful(r) {
			return false
		}
		i += size
	}
	return true
}

// Text returns s with a question mark for each harmful character and each byte that is not
// UTF-8. It keeps tabs and newlines, also those of Windows.
func Text(s string) string {
	if Clean([]byte(s)) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"):
			b.WriteByte('\r')
		case r == utf8.RuneError && size == 1, Harmful(r):
			b.WriteRune(mark)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// Line is Text for a one-line field: it replaces each newline by a blank, so that the text
// cannot fake one of linerate's own lines.
func Line(s string) string {
	s = Text(s)
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	return strings.NewReplacer("\r\n", " ", "\n", " ").Replace(s)
}

// Printable reports whether s is one line of visible text.
func Printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Brief makes s one Printable line of at most most bytes: with a blank for each newline and
// tab, a question mark for other invisible characters, and "..." at a cut.
func Brief(s string, most int) string {
	s = s[:min(len(s), 4*most)] // limits the work for long texts
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return mark
		}
		return r
	}, s))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most-3], "") + "..."
	}
	return s
}

// JSON escapes each harmful character of a JSON document, which keeps its meaning (RFC 8259
// section 7). doc must have none outside of strings, and none below U+0020 inside, as
// encoding/json writes it.
func JSON(doc []byte) []byte {
	if Clean(doc) {
		return doc
	}
	var b strings.Builder
	for _, r := range string(doc) {
		switch {
		case !Harmful(r) || r < ' ':
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return []byte(b.String())
}

// ShellWord quotes s as one word for a POSIX shell if necessary (POSIX.1-2017, Shell Command
// Language section 2.2).
func ShellWord(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n'\"\\$&;|<>()*?[]#~`!{}") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// UnitWord quotes a word of a command line of systemd (systemd.service(5), COMMAND LINES).
func UnitWord(s string) string {
	s = strings.NewReplacer(`%`, `%%`, `$`, `$$`).Replace(s)
	if s != "" && !strings.ContainsAny(s, " \t\n\"'\\;") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// ShellLine returns a command line that a shell splits into words.
func ShellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = ShellWord(w)
	}
	return strings.Join(quoted, " ")
}

// Count formats a count: "1 block", "2 blocks"; many is the plural if it is not word with an s.
func Count[N ~int | ~int64](n N, word string, many ...string) string {
	switch {
	case n == 1:
	case len(many) > 0:
		word = many[0]
	default:
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

// Join is strings.Join for named string types.
func Join[T ~string](list []T, between string) string {
	return strings.Join(Texts(list), between)
}

// Texts converts named strings to strings.
func Texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, name := range list {
		out[i] = string(name)
	}
	return out
}

// And lists words: "a", "a and b", "a, b and c".
func And(list []string) string {
	n := len(list)
	if n < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:n-1], ", ") + " and " + list[n-1]
}

// Spark draws the last numbers of a row in room characters, relative to the highest of them.
func Spark(row []float64, room int) string {
	row = row[max(0, len(row)-room):]
	most := 0.0
	for _, v := range row {
		most = max(most, v)
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range row {
		at := 0
		if most > 0 {
			at = min(len(levels)-1, int(v/most*float64(len(levels))))
		}
		b.WriteRune(levels[max(0, at)])
	}
	return b.String() + strings.Repeat(" ", room-len(row))
}
