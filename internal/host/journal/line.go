package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"unicode/utf8"
)

// version is the version of the lines that this program reads and writes.
const version = 1

// A line is a record on disk:
//
//	{"crc":"9a3c11f0","v":1,"seq":7,"prev":6,"by":"1.4.0","record":{"kind":"intent",…}}
//
// Every later version keeps these first two fields and "by". The checksum is CRC-32C (RFC
// 3720 section 12.1) of all bytes of the line after it and its comma, without the line feed.
//
// The start cannot occur within a line, where quotation marks are escaped: so damage between
// two starts does not hide the records around it.
const (
	lineStart = `{"crc":"`
	crcDigits = 8

	maxSeq = 1 << 53 // what every JSON reader can represent
)

// line is what the checksum covers. Seq numbers all records ever written to a journal from 1,
// and Prev is the number of the line before, 0 for none.
type line struct {
	V      int             `json:"v"`
	Seq    uint64          `json:"seq"`
	Prev   uint64          `json:"prev,omitempty"`
	By     string          `json:"by,omitempty"`
	Record json.RawMessage `json:"record"`
}

// entry is a record with its place in the order of all records.
type entry struct {
	seq, prev uint64
	raw       []byte // the line as on disk, with its line feed
	Record
}

func checksum(b []byte) string {
	return fmt.Sprintf("%0*x", crcDigits, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// encode returns the line of a record.
func encode(r Record, seq, prev uint64, by string) ([]byte, error) {
	if r.Intent != nil && (!utf8.ValidString(r.Intent.Old) || !utf8.ValidString(r.Intent.New)) {
		return nil, fmt.Errorf("old text %q or new text %q of %s cannot be kept: not UTF-8", r.Intent.Old, r.Intent.New, r.Intent.Place)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(line{V: version, Seq: seq, Prev: prev, By: by, Record: body})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s%s\",%s\n", lineStart, checksum(b[1:]), b[1:]), nil
}

// NewerError reports a record that a linerate with a newer format wrote. It wraps ErrNewer.
type NewerError struct {
	Path    string
	Version int    // of the format
	By      string // the version of that linerate; "" is unknown
}

// Error says what to do: this program cannot undo anything.
func (e *NewerError) Error() string {
	who := "a newer linerate"
	if e.By != "" {
		who = "linerate " + e.By
	}
	return fmt.Sprintf("%s: written by %s in version %d of the format, this program knows %d: it is left as it is, use that linerate", e.Path, who, e.Version, version)
}

// Unwrap returns ErrNewer.
func (e *NewerError) Unwrap() error { return ErrNewer }

// decode reads a line without its line feed.
func decode(b []byte) (entry, error) {
	rest, ok := bytes.CutPrefix(b, []byte(lineStart))
	if !ok || len(rest) < crcDigits+2 || string(rest[crcDigits:crcDigits+2]) != `",` {
		return entry{}, errors.New("not a record")
	}
	sum, rest := string(rest[:crcDigits]), rest[crcDigits+2:]
	if sum != checksum(rest) {
		return entry{}, errors.New("checksum does not match")
	}
	var l struct {
		line
		Record Record `json:"record"`
	}
	err := json.Unmarshal(append([]byte{'{'}, rest...), &l)
	if l.V > version { // even if its record cannot be parsed
		return entry{}, &NewerError{Version: l.V, By: l.By}
	}
	if err != nil {
		return entry{}, errors.New("not a record")
	}
	if l.V != version || l.Seq == 0 || l.Seq > maxSeq || l.Prev >= l.Seq {
		return entry{}, errors.New("numbers out of order")
	}
	e := entry{seq: l.Seq, prev: l.Prev, raw: append(bytes.Clone(b), '\n'), Record: l.Record}
	if e.Kind == KindIntent && e.Intent == nil {
		return entry{}, errors.New("intent without its change")
	}
	return e, nil
}

// region is a stretch of a copy that is not a record.
type region struct {
	line   int    // its first line, 1…
	after  uint64 // number of the record before it, 0 for none
	bytes  int
	last   bool // no record follows
	torn   bool // it is the last one, without a line feed: what a crash leaves of a write
	reason string
}

// scanned is the content of one copy.
type scanned struct {
	text    []byte
	entries []entry
	regions []region
	exact   bool // only whole records of this version, each with its predecessor
	newer   *NewerError
}

func (s scanned) last() uint64 {
	if len(s.entries) == 0 {
		return 0
	}
	return s.entries[len(s.entries)-1].seq
}

// behind returns how many bytes of records follow the record with a number.
func (s scanned) behind(seq uint64) int {
	n := 0
	for _, e := range s.entries {
		if e.seq > seq {
			n += len(e.raw)
		}
	}
	return n
}

// scan reads every whole record of a copy, whatever is between them.
func scan(text []byte) scanned {
	s := scanned{text: text, exact: true}
	for number, rest := 1, text; len(rest) > 0; {
		e, n, err := one(rest)
		if newer, ok := errors.AsType[*NewerError](err); ok && s.newer == nil {
			s.newer = newer
		}
		if err == nil {
			s.add(e, rest[:n])
		} else {
			n = next(rest)
			s.regions = append(s.regions, region{
				line: number, after: s.last(), bytes: n, last: n == len(rest), reason: err.Error(),
				torn: n == len(rest) && !bytes.Contains(rest, []byte("\n")),
			})
			s.exact = false
		}
		number += bytes.Count(rest[:n], []byte("\n"))
		rest = rest[n:]
	}
	return s
}

// add adds a record, which is in the copy as text.
func (s *scanned) add(e entry, text []byte) {
	last := s.last()
	if e.seq <= last { // linerate never writes that
		s.exact = false
		return
	}
	s.exact = s.exact && e.prev == last && bytes.Equal(e.raw, text)
	s.entries = append(s.entries, e)
}

// one reads the record at the start of text. It returns its length including the byte that
// ends its line, which may be damaged or missing.
func one(text []byte) (entry, int, error) {
	if !begins(text) {
		return entry{}, 0, errors.New("not a record")
	}
	why := errors.New("cut off")
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		e, err := decode(text[:end])
		if _, newer := errors.AsType[*NewerError](err); err == nil || newer {
			return e, end + 1, err
		}
		why = err
	}
	var object json.RawMessage
	if json.NewDecoder(bytes.NewReader(text)).Decode(&object) != nil {
		return entry{}, 0, why
	}
	e, err := decode(object)
	n := len(object)
	if n < len(text) && !begins(text[n:]) {
		n++
	}
	return e, n, err
}

func begins(text []byte) bool { return bytes.HasPrefix(text, []byte(lineStart)) }

// next returns where the next record may begin after the first byte of text.
func next(text []byte) int {
	if i := bytes.Index(text[1:], []byte(lineStart)); i >= 0 {
		return i + 1
	}
	return len(text)
}
