package session

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
)

// Bounds of messages, as session.proto states them.
const (
	MaxName        = 128            // bytes of a name
	MaxValue       = 4 << 10        // bytes of a knob's value
	MaxText        = 2 << 10        // bytes of a sentence
	MaxAddress     = 255            // bytes of an address (RFC 1035 section 2.3.4)
	MaxSecret      = 128            // bytes of a secret
	MaxDuration    = 24 * time.Hour // of anything
	MinDeadline    = time.Second    // of applied knobs
	MinInterval    = time.Millisecond
	MaxStreams     = 1000 // per direction
	MaxKnobs       = 1024
	MaxAssignments = 256
	MaxChanges     = 1024
	MaxSamples     = 4096 // in one event
	MaxWarnings    = 64
	MaxPoints      = 4096 // of a run, such as sizes of messages
	MaxParams      = traffic.MaxParams
	MaxCounters    = 4096
	MaxNICs        = 64

	maxRequest  = 256 << 10 // bytes
	maxResponse = 1 << 20   // bytes
	maxBytes    = 1 << 60   // of payload
	maxBlock    = 64 << 20  // bytes per write
	maxCPUs     = 1 << 16
	maxMSS      = math.MaxUint16

	maxValues    = 256
	maxLatencies = 16
	maxTrials    = 1024
	maxListed    = 64       // addresses, parts or metrics of one thing
	maxModes     = 256      // link modes or offloads of one interface
	maxHistogram = 64 << 10 // bytes
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

// text returns s in one line if it has at most most bytes and no control characters.
func (c *check) text(field, s string, most int) string { return plain.Line(c.lines(field, s, most)) }

// lines is text that may have several lines.
func (c *check) lines(field, s string, most int) string {
	c.that(len(s) <= most, "%s has %d bytes, at most %d are allowed", field, len(s), most)
	c.that(utf8.ValidString(s) && !strings.ContainsFunc(s, isControl), "%s holds control characters", field)
	return plain.Text(s)
}

// name is text that must not be empty.
func (c *check) name(field, s string) string {
	c.that(s != "", "%s is empty", field)
	return c.text(field, s, MaxName)
}

func (c *check) texts(field string, list []string, most int) []string {
	c.count(field, len(list), most)
	if c.err != nil {
		return nil
	}
	var out []string
	for _, s := range list {
		out = append(out, c.text(field, s, MaxText))
	}
	return out
}

func (c *check) count(field string, n, most int) {
	c.that(n <= most, "%s has %d entries, at most %d are allowed", field, n, most)
}

// atMost returns n if it lies in 0…most.
func (c *check) atMost(field string, n, most int64) int64 {
	c.that(n >= 0 && n <= most, "%s is %d, allowed are 0 to %d", field, n, most)
	return n
}

// duration returns ns nanoseconds if they lie in low…high.
func (c *check) duration(field string, ns int64, low, high time.Duration) time.Duration {
	d := time.Duration(ns)
	c.that(d >= low && d <= high, "%s is %v, allowed are %v to %v", field, d, low, high)
	return d
}

func (c *check) finite(field string, v float64) float64 {
	c.that(!math.IsNaN(v) && !math.IsInf(v, 0), "%s is not a finite number", field)
	return v
}

// hostPort checks an address to connect to; "" is none.
func (c *check) hostPort(field, s string) string {
	if s == "" {
		return s
	}
	c.text(field, s, MaxAddress+8)
	host, port, err := net.SplitHostPort(s)
	n, perr := strconv.ParseUint(port, 10, 16)
	c.that(err == nil && perr == nil && host != "" && n != 0, "%s is not a host with a port", field)
	return s
}

// flow checks the parts of f that are the same for every engine. What an engine
// has of its own, and whether the run has an end, the engine checks.
func (c *check) flow(f model.Flow) {
	c.name("engine", f.Engine)
	c.text("congestion", f.Congestion, MaxName)
	c.atMost("streams", int64(f.Streams), MaxStreams)
	c.duration("duration", int64(f.Duration), 0, MaxDuration)
	c.duration("omit", int64(f.Omit), 0, MaxDuration)
	c.atMost("bytes", int64(f.Bytes), maxBytes)
	if f.Interval != 0 {
		c.duration("interval", int64(f.Interval), MinInterval, MaxDuration)
	}
	c.atMost("block", int64(f.Block), maxBlock)
	c.atMost("window", int64(f.Window), math.MaxInt32)
	c.atMost("mss", int64(f.MSS), maxMSS)
	c.duration("lead", int64(f.Lead), 0, MaxDuration)
	c.atMost("points", int64(f.Points), MaxPoints)
	c.that(len(f.Params) <= MaxParams, "parameters of the engine have %d bytes, at most %d are allowed", len(f.Params), MaxParams)
	c.that(f.Params == "" || f.Params[0] == '{' && json.Valid([]byte(f.Params)), "parameters of the engine are no JSON object")
}

// isControl reports what may not occur in a text: it could steer a terminal.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' }

// clean makes a sentence from another program or a kernel fit to be sent and
// shown: one line of valid UTF-8, blanks for control characters and newlines, at
// most most bytes.
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

func cleanAll(list []string) []string {
	list = list[:min(len(list), MaxWarnings)]
	var out []string
	for _, s := range list {
		out = append(out, clean(s, MaxText))
	}
	return out
}
