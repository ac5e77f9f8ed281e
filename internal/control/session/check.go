package session

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
)

// Bounds of messages that more than one tag needs; the others are in the tags. See rule.
const (
	MaxName        = 128            // bytes of a name
	MaxValue       = 4 << 10        // bytes of a knob's value
	MaxText        = 2 << 10        // bytes of a sentence
	MaxAddress     = 255            // bytes of an address (RFC 1035 section 2.3.4)
	MaxSecret      = 128            // bytes of a secret
	MaxDiff        = 32 << 10       // bytes of a diff
	MaxProof       = 32 << 10       // bytes of a proof
	MaxDuration    = 24 * time.Hour // of anything
	MinDeadline    = time.Second    // of applied knobs
	MinInterval    = time.Millisecond
	MaxStreams     = 1000 // per direction
	MaxAssignments = 256
	MaxSamples     = 4096 // in one event
	MaxComments    = 64
	MaxTargets     = 16
	MaxParams      = traffic.MaxParams

	maxRequest  = 256 << 10 // bytes
	maxResponse = 1 << 20   // bytes
	maxCount    = 1 << 60   // of bytes and of anything else
)

// check collects the first fault of a message.
type check struct{ err error }

func (c *check) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
}

func (c *check) that(ok bool, format string, args ...any) {
	if !ok {
		c.fail(format, args...)
	}
}

// isControl reports whether r may not occur in a text: it could control a terminal.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' }

// clean makes a sentence from another program or a kernel fit to send and show: one line of
// valid UTF-8, blanks for control characters and newlines, at most most bytes.
func clean(s string, most int) string {
	return cleanLines(strings.ReplaceAll(s, "\n", " "), most)
}

// cleanLines is clean for text that may have several lines.
func cleanLines(s string, most int) string {
	s = plain.Text(strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}
