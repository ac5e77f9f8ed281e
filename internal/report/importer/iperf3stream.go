package importer

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"linerate/internal/regex"
)

func isIperf3JSON(text string) bool {
	head := text[:min(len(text), 64<<10)]
	return isJSON(head) && strings.Contains(head, `"start"`) && strings.Contains(text, `"intervals"`)
}

func isIperf3Stream(text string) bool {
	head := text[:min(len(text), 64<<10)]
	return isJSON(head) && strings.Contains(head, `"event"`) && strings.Contains(head, `"data"`)
}

// readIperf3JSON reads the output of iperf3 -J, one document, several, or an array of them, and
// of --json-stream (3.17 on): events, the last of which are missing if it was cut off. With
// --json-stream-full-output the document of the same test follows, and takes precedence.
func readIperf3JSON(text string, _ Options) (File, error) {
	text = nanJSON.ReplaceAllString(text, "${1}null")
	var out File
	var events *document3
	in, last, array := json.NewDecoder(strings.NewReader(text)), 0, false
	flush := func() (err error) {
		if events != nil {
			events.cut = events.End == nil
			err = out.add3(events, last)
		}
		events = nil
		return err
	}
	for {
		var d struct {
			document3
			event3
		}
		if rest := strings.TrimLeft(text[in.InputOffset():], " \t\r\n"); strings.HasPrefix(rest, map[bool]string{false: "[", true: "]"}[array]) {
			_, _ = in.Token() // it is the bracket
			array = !array
			continue
		}
		err := in.Decode(&d)
		line := lineAt(text, in.InputOffset())
		var syntax *json.SyntaxError
		if array && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && events != nil && events.End == nil:
			return out, flush()
		case errors.Is(err, io.ErrUnexpectedEOF):
			return out, faultf(1+strings.Count(text, "\n"), "the JSON ends in the middle: the file was cut off")
		case errors.As(err, &syntax):
			return out, faultf(lineAt(text, syntax.Offset), "no JSON: %w", err)
		case err != nil:
			return out, faultf(line, "%w", err)
		case d.Event == "" && events != nil && d.Start.Cookie != "" && d.Start.Cookie == events.Start.Cookie:
			events = nil
		case d.Event == "start" || d.Event == "":
			err = flush()
		}
		switch {
		case err != nil:
		case d.Event == "":
			err = out.add3(&d.document3, line)
		default:
			if events == nil {
				events = &document3{}
			}
			last, err = line, events.take(d.event3, line)
		}
		if err != nil {
			return out, err
		}
	}
}

// nanJSON matches what iperf3 up to 3.1 writes for the share of no datagrams.
var nanJSON = regex.New(`("[a-z_]+":[ \t]*)-?nan\b`)

// event3 is an event of --json-stream.
type event3 struct {
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// take adds an event that ends in a line.
func (d *document3) take(e event3, line int) (err error) {
	switch e.Event {
	case "start":
		err = json.Unmarshal(e.Data, &d.Start)
	case "interval":
		var i interval3
		err = json.Unmarshal(e.Data, &i)
		d.Intervals = append(d.Intervals, i)
	case "end":
		if d.End != nil {
			return faultf(line, "a second end of the same test")
		}
		err = json.Unmarshal(e.Data, &d.End)
	case "error":
		err = json.Unmarshal(e.Data, &d.Error)
	}
	if err != nil {
		return faultf(line, "event %q: %w", e.Event, err)
	}
	return nil
}

func lineAt(text string, offset int64) int {
	return 1 + strings.Count(text[:min(max(0, int(offset)), len(text))], "\n")
}

// add3 adds the test of a document that ends in a line.
func (f *File) add3(d *document3, line int) error {
	failed := strings.TrimPrefix(strings.TrimPrefix(d.Error, "error - "), "interrupt - ")
	switch {
	case failed != "" && len(d.Intervals) == 0:
		return faultf(0, "the test failed: %s", failed)
	case d.End.empty() && failed == "" && !d.cut || len(d.Intervals) == 0 && d.End.empty():
		return faultf(line, "a test has no end: it was cut off")
	}
	t, err := d.test(failed)
	if err != nil {
		return faultf(line, "%w", err)
	}
	f.Program = cmp.Or(f.Program, d.Start.Version, "iperf3")
	f.Tests = append(f.Tests, t)
	return nil
}
