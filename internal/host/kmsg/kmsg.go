// Package kmsg returns what the kernel logged since a given moment: drivers log why a network
// got slow, or stopped.
package kmsg

import (
	"bytes"
	"fmt"
	"strconv"

	"linerate/internal/core/plain"
)

// Limits on the output.
const (
	maxLines   = 20     // of one call of Lines
	maxText    = 300    // bytes of one line
	maxRecords = 10_000 // read in one call
)

// Reader reads the kernel log from the moment when it was opened. It is not safe for
// concurrent use.
type Reader struct{ reader }

// Open returns a reader that starts at the present end of the log. The error wraps
// fs.ErrPermission if this user may not read it (on Linux without CAP_SYSLOG, while
// kernel.dmesg_restrict is 1), and errors.ErrUnsupported if there is no such log.
func Open() (*Reader, error) {
	r, err := open()
	if err != nil {
		return nil, fmt.Errorf("open kernel log: %w", err)
	}
	return &Reader{r}, nil
}

// Lines returns the lines of the kernel itself since the last call, oldest first, without
// debug messages: at most 20, and a last one that says how many more there were. It does not
// wait.
func (r *Reader) Lines() ([]string, error) { return collect(r.next) }

// Each passes every line that Lines would return to yield, without the limit.
func (r *Reader) Each(yield func(line string)) error { return each(r.next, yield) }

// collect reads records from next until it returns nil.
func collect(next func() ([]byte, error)) ([]string, error) {
	var lines []string
	more := 0
	err := each(next, func(line string) {
		if len(lines) == maxLines {
			more++
			return
		}
		lines = append(lines, line)
	})
	if more > 0 && err == nil {
		lines = append(lines, fmt.Sprintf("… and %d more lines", more))
	}
	return lines, err
}

// each reads records from next until it returns nil.
func each(next func() ([]byte, error), yield func(line string)) error {
	for range maxRecords { // a kernel may log faster than this reads
		b, err := next()
		if err != nil {
			return fmt.Errorf("read kernel log: %w", err)
		}
		if b == nil {
			break
		}
		rec, err := parse(b)
		switch {
		case err != nil:
			return fmt.Errorf("read kernel log: %w", err)
		case rec.facility != kernel || rec.level > info || rec.text == "":
		default:
			yield(rec.text)
		}
	}
	return nil
}

// Close closes the log.
func (r *Reader) Close() error { return r.close() }

// The facility of the kernel and the last level above debug (include/linux/kern_levels.h;
// syslog(2)).
const (
	kernel = 0
	info   = 6
)

// record is one entry of the log.
type record struct {
	facility, level int
	text            string
}

// parse parses one record as /dev/kmsg returns it, at most one at a time
// (Documentation/ABI/testing/dev-kmsg):
//
//	6,339,5140900,-;NET: Registered protocol family 10
//	 SUBSYSTEM=net
//	 DEVICE=n2
//
// The first number is facility × 8 + level. Later kernels may add fields before the
// semicolon. Unprintable bytes are written as \x and two hex digits, which stay.
func parse(b []byte) (record, error) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	head, text, found := bytes.Cut(line, []byte(";"))
	if !found {
		return record{}, fmt.Errorf("record %q has no text", clip(string(line)))
	}
	number, _, _ := bytes.Cut(head, []byte(","))
	priority, err := strconv.ParseUint(string(number), 10, 31)
	if err != nil {
		return record{}, fmt.Errorf("record %q has no priority", clip(string(line)))
	}
	return record{facility: int(priority >> 3), level: int(priority & 7), text: clip(string(text))}, nil
}

func clip(s string) string { return plain.Brief(s, maxText) }
