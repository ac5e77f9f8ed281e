package netpipe

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"linerate/internal/core/units"
)

// mebi is the unit of NetPIPE 3: its "Mbps" are 2^20 bits per second.
const mebi = 1 << 20

// Line is one result in the format of np.out.
type Line struct {
	Bytes   int     // of the message, twice that with -2; 1 to MaxBytes
	Mebibit float64 // 2^20 bits per second, which NetPIPE calls Mbps; 0 in an integrity check
	Seconds float64 // one-way time of the fastest trial; 0 in an integrity check
	Repeats int     // messages per trial, in an integrity check only; 0 otherwise
}

// NewLine returns the result of point p of a test with settings s: seconds is the result of
// Fastest, and repeats matters for an integrity check only.
func NewLine(s Settings, p Point, seconds float64, repeats int) Line {
	l := Line{Bytes: p.Bytes}
	if s.Bidirectional {
		l.Bytes *= 2
	}
	if s.Integrity {
		l.Repeats = repeats
		return l
	}
	l.Seconds = seconds
	l.Mebibit = float64(l.Bytes) * 8 / (seconds * mebi)
	return l
}

// BitRate returns the rate of l in bits per second.
func (l Line) BitRate() units.BitRate { return units.BitRate(l.Mebibit * mebi) }

// String returns l as NPtcp writes it, without the newline. ParseLine parses it again, rounded
// to six and eight decimals.
func (l Line) String() string {
	if l.Repeats > 0 {
		return fmt.Sprintf("%8d %d", l.Bytes, l.Repeats)
	}
	return fmt.Sprintf("%8d %f %12.8f", l.Bytes, l.Mebibit, l.Seconds)
}

// Bounds of an np.out: NPtcp keeps at most 8,000 points, and no path has a rate or a time near
// the largest decimal.
const (
	maxLineBytes = 128
	maxLines     = 8000
	maxDecimal   = 1e12
)

// ParseLine parses one line of an np.out, without the newline. It rejects values out of range,
// such as the negative rates of sizes from 256 MiB.
//
// A result and a line of an integrity check:
//
//	1021 847.131083   0.00000920
//	  13 20
func ParseLine(text string) (Line, error) {
	l, err := parseLine(text)
	if err != nil {
		return Line{}, fmt.Errorf("np.out line %q: %w", text[:min(len(text), maxLineBytes)], err)
	}
	return l, nil
}

func parseLine(text string) (Line, error) {
	if len(text) > maxLineBytes {
		return Line{}, fmt.Errorf("more than %d bytes", maxLineBytes)
	}
	fields := strings.Fields(text)
	if len(fields) != 2 && len(fields) != 3 {
		return Line{}, fmt.Errorf("%d fields, not bytes, rate and seconds, or bytes and repeats", len(fields))
	}
	var l Line
	var err error
	if l.Bytes, err = parseCount(fields[0], MaxBytes); err != nil {
		return Line{}, fmt.Errorf("bytes: %w (NetPIPE's own count overflows at 256 MiB)", err)
	}
	if len(fields) == 2 {
		if l.Repeats, err = parseCount(fields[1], MaxRepeats); err != nil {
			return Line{}, fmt.Errorf("repeats: %w", err)
		}
		return l, nil
	}
	if l.Mebibit, err = parseDecimal(fields[1]); err != nil {
		return Line{}, fmt.Errorf("rate: %w", err)
	}
	if l.Seconds, err = parseDecimal(fields[2]); err != nil {
		return Line{}, fmt.Errorf("seconds: %w", err)
	}
	return l, nil
}

func parseCount(field string, most int) (int, error) {
	n, err := strconv.Atoi(field)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s is not a number from 1 to %d", field, most)
	}
	return n, nil
}

// parseDecimal rejects signs, exponents and names, which strconv accepts and NetPIPE never
// writes.
func parseDecimal(field string) (float64, error) {
	v, err := strconv.ParseFloat(field, 64)
	if err != nil || v > maxDecimal || strings.Trim(field, "0123456789.") != "" {
		return 0, fmt.Errorf("%s is not a decimal number from 0 to %g", field, float64(maxDecimal))
	}
	return v, nil
}

// Parse reads a whole np.out. It skips empty lines. More points than NPtcp can write are an
// error.
func Parse(r io.Reader) ([]Line, error) {
	var lines []Line
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 0, 2*maxLineBytes), 2*maxLineBytes)
	for scan.Scan() {
		text := strings.TrimSpace(scan.Text())
		if text == "" {
			continue
		}
		l, err := ParseLine(text)
		if err != nil {
			return nil, err
		}
		if len(lines) == maxLines {
			return nil, fmt.Errorf("read np.out: more than %d points", maxLines)
		}
		lines = append(lines, l)
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("read np.out: %w", err)
	}
	return lines, nil
}
