package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// mutated calls f with texts in which one line is left out, doubled or swapped with the next,
// and with the text cut off after it.
func mutated(text string, f func(how, text string)) {
	all := strings.SplitAfter(strings.TrimRight(text, "\n")+"\n", "\n")
	all = all[:len(all)-1]
	for i := range all {
		join := func(parts ...[]string) string { return strings.Join(slices.Concat(parts...), "") }
		f(fmt.Sprintf("without line %d", i+1), join(all[:i], all[i+1:]))
		f(fmt.Sprintf("line %d twice", i+1), join(all[:i+1], all[i:]))
		if i > 0 {
			f(fmt.Sprintf("lines %d and %d swapped", i, i+1), join(all[:i-1], all[i:i+1], all[i-1:i], all[i+1:]))
			f(fmt.Sprintf("cut before line %d", i+1), join(all[:i]))
		}
	}
}

// TestMutated: a file with a line missing, doubled or out of order, or that is cut off, does
// not give different numbers silently: the import refuses it, reads it like the whole file, or
// adds a note.
func TestMutated(t *testing.T) {
	texts := map[string]string{}
	files := must.Get(filepath.Glob("testdata/*.txt"))(t)
	jsons := must.Get(filepath.Glob("testdata/*.json"))(t)
	for _, name := range append(append(files, jsons...), "testdata/np.out") {
		b := must.Get(os.ReadFile(name))(t)
		texts[filepath.Base(name)] = string(b)
	}
	maps.Copy(texts, others)
	for name, c := range reconciled {
		if strings.Count(c.text, "\n") > 1 {
			texts[name] = c.text
		}
		var spread bytes.Buffer // spreads a one-line document over a line per value
		if json.Indent(&spread, []byte(c.text), "", " ") == nil {
			texts[name+", spread"] = spread.String()
		}
	}
	for name, c := range failedLogs(t) {
		if strings.Count(c.text, "\n") < 60 { // the others are long, and in formats covered above
			texts["log of "+name] = c.text
		}
	}
	mutants := 0
	for name, text := range texts {
		whole, err := Read("", []byte(text), Options{})
		must.Dof(t, err, "%s", name)
		mutated(strings.ReplaceAll(text, "\r\n", "\n"), func(how, text string) {
			mutants++
			got, err := Read("", []byte(text), Options{})
			if err != nil {
				return
			}
			must.Equal(t, silent(whole, got), "", "%s, %s", name, how)
		})
	}
	t.Logf("%d files, %d mutants", len(texts), mutants)
}

// TestCutInALine: a file that was cut off in the middle of a number does not give another number
// silently.
func TestCutInALine(t *testing.T) {
	texts := maps.Clone(others)
	for _, name := range must.Get(filepath.Glob("testdata/*.txt"))(t) {
		texts[name] = string(must.Get(os.ReadFile(name))(t))
	}
	for name, c := range reconciled {
		texts[name] = c.text
	}
	for name, text := range texts {
		whole := must.Get(Read("", []byte(text), Options{}))(t)
		text = strings.TrimRight(text, "\n")
		from := max(1, len(text)-300)
		for i := from; i < len(text); i++ {
			if got, err := Read("", []byte(text[:i]), Options{}); err == nil {
				must.Equal(t, silent(whole, got), "", "%s, cut behind %q", name, text[max(0, i-40):i])
			}
		}
	}
}

// lineNumbers matches those in a note, which a missing line changes.
var lineNumbers = regexp.MustCompile(`lines? [0-9]+( to [0-9]+)?`)

// silent returns a number of got that whole lacks, unless a note of got, or one more note of
// the same text, explains it.
func silent(whole, got File) string {
	noted := map[string]int{}
	values := map[model.Value]bool{}
	type between struct { // the ends, and not which of them is the near one
		sender, receiver string
		m                model.Metric
		v                float64
	}
	ways := map[between]bool{}
	way := func(t Test, v model.Value) between {
		if v.Direction == model.From {
			t.Near, t.Far = t.Far, t.Near
		}
		return between{t.Near, t.Far, v.Metric, v.Value}
	}
	for _, one := range whole.Tests {
		for _, n := range one.Notes {
			noted[lineNumbers.ReplaceAllString(n, "")]++
		}
		for _, v := range one.Values {
			values[v], ways[way(one, v)] = true, one.Near != "" && one.Far != ""
		}
	}
	for _, one := range got.Tests {
		left := maps.Clone(noted)
		if slices.ContainsFunc(one.Notes, func(n string) bool {
			n = lineNumbers.ReplaceAllString(n, "")
			left[n]--
			return left[n] < 0
		}) {
			continue
		}
		for _, v := range one.Values {
			if !values[v] && !ways[way(one, v)] {
				return fmt.Sprintf("%s %s is %g", v.Direction, v.Metric, v.Value)
			}
		}
	}
	return ""
}

// TestNotesAreCounted: a file with a fault in every line lists a few of them and counts the
// others, so that the answer stays visible.
func TestNotesAreCounted(t *testing.T) {
	text := "Client connecting to 10.0.0.2, TCP port 5001\n[ ID] Interval       Transfer     Bandwidth\n" +
		strings.Repeat("[  3]  0.0- 1.0 sec  1.00 MBytes  8.39 Mbits/sec\n", 1000)
	notes := must.Get(Read("", []byte(text), Options{}))(t).Tests[0].Notes
	must.Equal(t, len(notes), maxNotes+1)
	must.Contain(t, notes[maxNotes], "warnings more")
}
