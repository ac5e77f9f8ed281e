package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxParts is the most tests of a file that are read separately.
const maxParts = 1000

// cutOff is the fault of a test without results.
const cutOff = "the test that begins here has no result: it was cut off"

// begins returns a function that recognises the first line of a test, for formats whose files
// may hold several; nil for others. It must be called for each line in turn.
func begins(format string) func(line string) bool {
	running, last := false, "" // a test, and the banner of iperf 2 without a result so far
	switch format {
	case "iperf3":
		return func(l string) bool {
			banner := banner3.MatchString(l)
			fresh := banner || !running && strings.HasPrefix(l, "iperf3: error - ")
			running = banner || running && l != "iperf Done."
			return fresh
		}
	case "iperf3-json":
		return func(l string) bool { return strings.HasPrefix(l, "{") }
	case "iperf3-stream":
		return func(l string) bool {
			banner := strings.HasPrefix(l, `{"event":"start"`)
			fresh := banner || !running && strings.HasPrefix(l, `{"event":"error"`)
			running = banner || running && !strings.HasPrefix(l, `{"event":"end"`)
			return fresh
		}
	case "iperf2": // a client that listens for the reverse direction has two banners
		return func(l string) bool {
			banner := banner2.FindString(l)
			banner = banner[:min(len(banner), len("Client"))]
			fresh := banner != "" && (last == "" || last == banner)
			if banner != "" || connected.MatchString(l) || row.MatchString(l) {
				last = banner
			}
			return fresh
		}
	case "iperf2-csv":
		return func(l string) bool {
			before := running // a line of a failure was the last one
			running = failed2.MatchString(l)
			return before || running
		}
	case "sockperf":
		banner := false
		return func(l string) bool {
			l = escape.ReplaceAllString(l, "")
			last := banner
			banner = perfBanner.MatchString(l) || banner && !perfEnd.MatchString(l)
			return perfBanner.MatchString(l) || !last && perfEnd.MatchString(l)
		}
	case "perftest":
		return perftestBegins()
	case "nuttcp":
		return nuttcpBegins()
	case "netperf":
		return netperfHead.MatchString
	case "qperf":
		return qperfHead.MatchString
	}
	return nil
}

// part is the section of a file on one test.
type part struct {
	from, to    int // bytes
	first, last int // lines, 1…
}

// testsOf splits text before each line that begins a test.
func testsOf(text string, begin func(line string) bool) []part {
	all := []part{{first: 1}}
	n, at := 0, 0
	for l := range strings.SplitAfterSeq(text, "\n") {
		n++
		now := &all[len(all)-1]
		if begin(strings.TrimRight(l, " \t\r\n")) && at > 0 {
			now.to = at
			all = append(all, part{from: at, first: n})
			now = &all[len(all)-1]
		}
		if strings.TrimSpace(l) != "" {
			now.last = n
		}
		at += len(l)
	}
	all[len(all)-1].to = at
	return all
}

// leftOut says which test is not read, and why.
func (p part) leftOut(why error) string {
	where := fmt.Sprintf("line %d", p.first)
	if p.last > p.first {
		where = fmt.Sprintf("lines %d to %d", p.first, p.last)
	}
	if f, ok := errors.AsType[*Fault](why); ok && f.Line == p.first {
		why = f.Err
	}
	return fmt.Sprintf("%s: a test is not imported: %v", where, why)
}

// tests reads a text, or its intact tests.
func (f Format) tests(text string, o Options) (File, error) {
	got, err := f.read(text, o)
	if err != nil {
		return f.rest(text, o, err)
	}
	return got, nil
}

// unended returns a note if the last line of a text matters to what was read from it, and has no
// end: the text may be cut off in the middle of a number. JSON shows that itself.
func (f Format) unended(text string, got File, o Options) string {
	text = strings.TrimRight(text, " \t\r")
	if strings.HasSuffix(text, "\n") || isJSON(text) || len(got.Tests) == 0 {
		return ""
	}
	without, err := f.tests(text[:strings.LastIndexByte(text, '\n')+1], o)
	if err == nil && slices.EqualFunc(got.Tests, without.Tests, func(a, b Test) bool {
		return slices.Equal(a.Values, b.Values) && len(a.Points) == len(b.Points) && slices.Equal(a.Notes, b.Notes)
	}) {
		return ""
	}
	return fmt.Sprintf("line %d, the last one, has no end: if the file was cut off there, its numbers are not whole", strings.Count(text, "\n")+1)
}

// rest reads the intact tests of a text, given the fault why of the whole text: a test that
// failed or was cut off does not affect the others.
func (f Format) rest(text string, o Options, why error) (File, error) {
	begin := begins(f.Name)
	if begin == nil {
		return File{}, why
	}
	all := testsOf(text, begin)
	if len(all) > maxParts {
		return File{}, why
	}
	left, good := []byte(text), 0
	var out []string
	for _, p := range all {
		got, err := f.read(strings.Repeat("\n", p.first-1)+text[p.from:p.to], o)
		if err == nil {
			good += len(got.Tests)
			continue
		}
		out = append(out, p.leftOut(err))
		for i := p.from; i < p.to; i++ {
			if left[i] != '\n' {
				left[i] = ' '
			}
		}
	}
	if good == 0 || len(out) == 0 {
		return File{}, why
	}
	got, err := f.read(string(left), o)
	if err != nil || len(got.Tests) == 0 {
		return File{}, why
	}
	for _, text := range out {
		got.Tests[0].note(text)
	}
	return got, nil
}
