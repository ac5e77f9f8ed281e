package importer

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"

	"linerate/internal/core/units"
)

// utf8Of converts text from UTF-16, which PowerShell writes, to UTF-8, and returns any other
// text unchanged. Without a byte order mark, the order follows from the zero bytes in the first
// characters, which are ASCII in all formats.
func utf8Of(text []byte) []byte {
	order := binary.ByteOrder(binary.LittleEndian)
	switch {
	case bytes.HasPrefix(text, []byte{0xff, 0xfe}), zeroBytes(text, 1):
	case bytes.HasPrefix(text, []byte{0xfe, 0xff}), zeroBytes(text, 0):
		order = binary.BigEndian
	default:
		return text
	}
	var units []uint16
	for i := 0; i+1 < len(text); i += 2 {
		units = append(units, order.Uint16(text[i:]))
	}
	return []byte(string(utf16.Decode(units)))
}

// zeroBytes reports whether, in each pair of bytes at the beginning of text, the one at high is
// zero and the other is not.
func zeroBytes(text []byte, high int) bool {
	head := text[:min(len(text), 64)&^1]
	for i := 0; i < len(head); i += 2 {
		if head[i+high] != 0 || head[i+1-high] == 0 {
			return false
		}
	}
	return len(head) > 0
}

// isJSON reports whether text begins like a JSON document or array.
func isJSON(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}

// maxSkipped is the most lines around documents that are skipped; a text with more is not JSON.
const maxSkipped = 1000

// documents returns iperf3's JSON with all lines of a shell or of stderr around its documents
// blanked, and a note on each. It returns any other text unchanged.
func documents(text string) (string, []string) {
	if !strings.Contains(text, `"intervals"`) && !strings.Contains(text, `"event"`) {
		return text, nil
	}
	var bare []byte
	var skipped []string
	begin, n, depth, quoted := 0, 0, 0, false
	for l := range strings.SplitSeq(text, "\n") {
		n++
		switch {
		case l != "" && depth == 0 && !strings.ContainsRune("{}[]\", \t\r", rune(l[0])):
			if bare == nil {
				bare = []byte(text)
			}
			copy(bare[begin:], strings.Repeat(" ", len(l)))
			skipped = append(skipped, fmt.Sprintf("line %d is not of iperf3's JSON, and was skipped: %.80q", n, strings.TrimSpace(l)))
			if len(skipped) > maxSkipped {
				return text, nil
			}
		default:
			depth, quoted = nesting(l, depth, quoted)
		}
		begin += len(l) + 1
	}
	if len(skipped) > 0 && (isIperf3JSON(string(bare)) || isIperf3Stream(string(bare))) {
		return string(bare), skipped
	}
	return text, nil
}

// nesting returns the depth of JSON after line, and whether it is inside a string.
func nesting(line string, depth int, quoted bool) (int, bool) {
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
	}
	return depth, quoted
}

// unpack returns text, decompressed if necessary.
func unpack(text []byte) ([]byte, error) {
	if !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		if len(text) > int(MaxBytes) {
			return nil, faultf(0, "larger than %s", MaxBytes)
		}
		return text, nil
	}
	most := min(int64(MaxBytes), roomAnyway+roomTimes*int64(len(text)))
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(z, most+1))
	}
	switch {
	case err != nil:
		return nil, faultf(0, "its compression is broken, so it was cut off or changed: %w", err)
	case int64(len(text)) > most:
		return nil, faultf(0, "unpacked it is larger than %s", units.Bytes(most))
	}
	return text, nil
}

// fits rejects a text that would take far more memory than its length: JSON with more objects
// or elements than any program writes, or an endless line.
func fits(text string) error {
	if !isJSON(text) {
		n := 0
		for l := range strings.SplitSeq(text, "\n") {
			if n++; len(l) > maxLine {
				return faultf(n, "the line has %d bytes, at most %d are read", len(l), maxLine)
			}
		}
		if n > maxLines {
			return faultf(0, "it has %d lines, at most %d are read: cut it into several files", n, maxLines)
		}
		if n := strings.Count(text, ",") + strings.Count(text, ";") + strings.Count(text, "\t"); n > maxFields {
			return faultf(0, "it has %d cells, at most %d are read", n, maxFields)
		}
		return nil
	}
	if n := strings.Count(text, "{"); n > maxObjects {
		return faultf(0, "it has %d objects, at most %d are read", n, maxObjects)
	}
	if n := strings.Count(text, ",") + strings.Count(text, "["); n > maxFields {
		return faultf(0, "it has %d elements, at most %d are read", n, maxFields)
	}
	return nil
}
