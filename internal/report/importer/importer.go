// Package importer reads the measurements of other programs from their files: text of iperf 2
// and iperf 3, JSON of iperf3, NetPIPE's np.out, netperf's key=value, nuttcp, sockperf, qperf,
// perftest, flent, and tables of comma-separated values with columns named by the user.
//
// It does not guess. From a log of several tests it reads the intact ones, and names the lines
// of the others. A rate counted by a sender is a rate of the sender; the summary line of a test
// is not an interval. It rejects a file that is cut off, has foreign lines in between, or uses
// decimal commas, and names the first faulty line.
package importer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// MaxBytes is the largest unpacked size of a file that is read. An hour of iperf3 -J with 20
// streams has 24 MB.
const MaxBytes units.Bytes = 32 << 20

// Limits of a file other than its size. Parsed, a text takes many times its length.
const (
	roomAnyway = 4 << 20   // to which any compressed file may unpack
	roomTimes  = 50        // and this many times its size: text of real programs unpacks to 4 to 20 times
	maxObjects = 150_000   // of JSON; an hour with 20 streams has 76,000
	maxFields  = 2_000_000 // elements of JSON, and cells of a table
	maxLines   = 200_000   // of text other than JSON; a day of one stream has 86,400
	maxLine    = 64 << 10  // bytes of one of them
)

// Test is one test in a file.
type Test struct {
	Kind      string // the program's name for it, "" if the engine has only one kind
	Near, Far string // addresses or names of the ends, "" if the file has none; near is the client
	Started   time.Time
	Flow      model.Flow // as far as the file has it
	Values    []model.Value
	Samples   []model.Sample     // of intervals; never the summary of a test
	Points    []model.Point      // by message size
	Setting   string             // the setting, if the file has one
	Parts     []model.Assignment // of Setting, if columns of a table make it: each column and its value
	Block     int                // 1…, if the file groups tests
	Spread    *Spread            // the values are averages of several runs whose details are unknown
	Notes     []string           // reservations for a comparison; at most maxNotes and a count
	unsaid    int                // notes beyond maxNotes
}

// maxNotes is the most notes of a test. A file that is wrong in one line is usually wrong in
// thousands.
const maxNotes = 10

// Spread is the range of several runs in a summary, in the unit of the value. Runs is 0 if
// unknown.
type Spread struct {
	Min, Max float64
	Runs     int
}

// add appends a value.
func (t *Test) add(d model.Direction, m model.Metric, v float64) {
	t.Values = append(t.Values, model.Value{Direction: d, Metric: m, Value: v})
}

// note appends a note once, and counts those beyond maxNotes.
func (t *Test) note(text string) {
	switch {
	case slices.Contains(t.Notes, text):
	case len(t.Notes) < maxNotes:
		t.Notes = append(t.Notes, text)
	default:
		t.unsaid++
	}
}

// File is the content of a file.
type File struct {
	Format  string // name of its format
	Program string // with its version, if the file has it: "iperf 3.12"
	Tests   []Test // at least one
}

// Format is a file format.
type Format struct {
	Name  string
	About string // for help
	// is reports whether a file looks like this format; nil: never detected.
	is   func(text string) bool
	read func(text string, o Options) (File, error)
}

// Options are the parameters of a reader. Only tables have any.
type Options struct {
	Columns []Column
	Where   []Where // a line is read only if all of them match
}

// Formats returns all formats, in the order of detection.
func Formats() []Format {
	return []Format{
		{"flent", "data file of flent (.flent, .flent.gz)", isFlent, readFlent},
		{"iperf3-stream", "iperf3 --json-stream", isIperf3Stream, readIperf3JSON},
		{"iperf3-json", "iperf3 -J", isIperf3JSON, readIperf3JSON},
		{"iperf3", "text of iperf3", isIperf3, readIperf3},
		{"iperf2", "text of iperf 2, a client's or a server's", isIperf2, readIperf2},
		{"iperf2-csv", "iperf 2 -y C", isIperf2CSV, readIperf2CSV},
		{"sockperf", "text of sockperf ping-pong or under-load", isSockperf, readSockperf},
		{"perftest", "text of ib_send_bw, ib_write_lat and their like; --out_json of latencies", isPerftest, readPerftest},
		{"nuttcp", "text of nuttcp, also -fparse", isNuttcp, readNuttcp},
		{"netperf", "netperf: its table, -- -o (CSV) and -- -k (KEY=VALUE)", isNetperf, readNetperf},
		{"qperf", "text of qperf: tcp_bw, tcp_lat, udp_bw, udp_lat", isQperf, readQperf},
		{"netpipe", "np.out of NetPIPE 3, or what NPtcp prints", isNetpipe, readNetpipe},
		{"csv", "a table, with --column for what its columns are", nil, readTable},
	}
}

// Fault is an error in a file, with its place.
type Fault struct {
	Line int // 1…, 0 if it is not one line
	Err  error
}

// Error implements error.
func (f *Fault) Error() string {
	if f.Line == 0 {
		return f.Err.Error()
	}
	return fmt.Sprintf("line %d: %v", f.Line, f.Err)
}

// Unwrap returns the error.
func (f *Fault) Unwrap() error { return f.Err }

func faultf(line int, format string, args ...any) *Fault {
	return &Fault{Line: line, Err: fmt.Errorf(format, args...)}
}

// ErrUnknown reports that no format matches.
var ErrUnknown = errors.New("this is not the output of a known program")

// Read reads a file in the format called name or, if name is "", in the detected one. It
// unpacks a compressed file (gzip). Errors are Faults, or wrap ErrUnknown.
func Read(name string, text []byte, o Options) (File, error) {
	text, err := unpack(text)
	if err != nil {
		return File{}, err
	}
	text = utf8Of(text)
	all := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(text), "\ufeff"))
	switch {
	case strings.TrimSpace(all) == "":
		return File{}, faultf(0, "the file is empty")
	case !utf8.ValidString(all) || strings.ContainsRune(all, 0):
		return File{}, faultf(0, "this is no text: %w", ErrUnknown)
	}
	if n := strings.Count(strings.Trim(all, "\n"), "\n") + 1; n <= maxLines && len(clock.FindAllStringIndex(all, n)) == n {
		all = clock.ReplaceAllString(all, "")
	}
	all, skipped := documents(all)
	if err := fits(all); err != nil {
		return File{}, err
	}
	all = unstamped(all)
	if name == "" && len(o.Columns) > 0 {
		name = "csv"
	}
	for _, f := range Formats() {
		if f.Name != name && (name != "" || f.is == nil || !f.is(all)) {
			continue
		}
		got, err := f.tests(all, o)
		if err != nil {
			return File{}, fmt.Errorf("as %s: %w", f.Name, err)
		}
		if text := f.unended(all, got, o); text != "" {
			got.Tests[len(got.Tests)-1].note(text)
		}
		got.Format = f.Name
		if len(got.Tests) == 0 {
			return File{}, fmt.Errorf("as %s: %w", f.Name, faultf(0, "it holds no test"))
		}
		for i := range got.Tests {
			t := &got.Tests[i]
			for _, text := range skipped {
				t.note(text)
			}
			if t.unsaid > 0 {
				t.Notes = append(t.Notes, fmt.Sprintf("and %d warnings more", t.unsaid))
			}
		}
		return got, nil
	}
	return File{}, fmt.Errorf("%w; %s", ErrUnknown, nearest(all))
}

// marks are texts that every file of a format contains.
var marks = []struct {
	name string
	has  []string
}{
	{"iperf3", []string{"Connecting to host ", "[ ID] Interval", "sender", "iperf Done"}},
	{"iperf3-json", []string{`"start"`, `"intervals"`, `"end"`, "bits_per_second"}},
	{"iperf3-stream", []string{`{"event":"start"`, `{"event":"interval"`, `"data"`}},
	{"iperf2", []string{"Client connecting to ", "[ ID] Interval", "bits/sec"}},
	{"flent", []string{`"x_values"`, `"results"`, `"metadata"`}},
	{"sockperf", []string{"sockperf:", "Summary: ", "percentile"}},
	{"perftest", []string{"#bytes", "#iterations", "BW average"}},
	{"nuttcp", []string{" MB / ", " sec = ", " Mbps"}},
	{"qperf", []string{"_bw:", "_lat:", "  =  "}},
	{"netperf", []string{" TEST from ", "Throughput", "Elapsed"}},
}

// nearest names the three formats with the largest share of marks in a text, and the marks that
// are missing.
func nearest(text string) string {
	type guess struct {
		share float64
		text  string
	}
	var all []guess
	for _, m := range marks {
		var lacks []string
		for _, mark := range m.has {
			if !strings.Contains(text, mark) {
				lacks = append(lacks, strconv.Quote(mark))
			}
		}
		if len(lacks) == 0 {
			lacks = []string{"lines that begin as those of its own"}
		}
		all = append(all, guess{1 - float64(len(lacks))/float64(len(m.has)), fmt.Sprintf("%s (lacks %s)", m.name, strings.Join(lacks, " and "))})
	}
	slices.SortStableFunc(all, func(a, b guess) int { return cmp.Compare(b.share, a.share) })
	out := lists.Each(all[:3], func(g guess) string { return g.text })
	return "the nearest: " + strings.Join(out, "; ")
}

// number parses a decimal number in the C locale.
func number(line int, s string) (float64, error) {
	var v float64
	var rest string
	if n, _ := fmt.Sscanf(s, "%g%s", &v, &rest); n == 1 && !strings.ContainsAny(s, "xXpP_") && v-v == 0 {
		return v, nil
	}
	if strings.Contains(s, ",") {
		return 0, faultf(line, "%q has a comma in it: run the program with LC_ALL=C, or change the commas into points", s)
	}
	return 0, faultf(line, "%q is no number", s)
}

// numbers parses several.
func numbers(line int, all ...string) ([]float64, error) {
	out := make([]float64, len(all))
	for i, s := range all {
		v, err := number(line, s)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// seconds converts v seconds, to the nearest nanosecond.
func seconds(v float64) time.Duration { return time.Duration(math.Round(v * float64(time.Second))) }

// lines yields the lines of text that are not blank with their numbers, from 1.
func lines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		n := 0
		for l := range strings.SplitSeq(text, "\n") {
			n++
			if l = strings.TrimRight(l, " \t\r"); strings.TrimSpace(l) != "" && !yield(n, l) {
				return
			}
		}
	}
}

// bySender returns the note on a rate that only the sender counted.
func bySender(d model.Direction) string {
	return fmt.Sprintf("the rate %s the far end is what the sender handed to its system, not what arrived", d)
}
