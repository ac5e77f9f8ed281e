package judge

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"linerate/internal/core/diagnose"
	"linerate/internal/core/model"
	"linerate/internal/lab/faults"
)

// evidenceFile holds the documents that cases were judged from, one per line, for seeds that
// may be inspected.
const evidenceFile = "evidence.jsonl"

// kept is one line of it.
type kept struct {
	Case faults.Case     `json:"case"`
	Row  Row             `json:"row"`
	Said json.RawMessage `json:"document,omitempty"`
}

// document is the output of linerate show for a session.
type document struct {
	Session *model.Session `json:"session"`
	Samples []struct {
		Run     int            `json:"run"`
		Samples []model.Sample `json:"samples"`
	} `json:"samples"`
}

// Again scores earlier measurements with the rules that this program was built with. It
// measures nothing.
func Again(o Options) ([]Row, error) {
	f, err := os.Open(filepath.Join(o.Out, evidenceFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: nothing was measured there yet", err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []Row
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		var k kept
		if err := json.Unmarshal(line, &k); err != nil {
			return rows, fmt.Errorf("%s: %w", evidenceFile, err)
		}
		if k.Case.Seed < o.First || k.Case.Seed > o.Last || !o.holds(k.Case) {
			continue
		}
		row := k.again()
		rows = append(rows, row)
		if o.Talk != nil && (!row.First || !row.All) {
			fmt.Fprintln(o.Talk, brief(row))
		}
	}
}

// holds reports whether c is of the kind of o.
func (o Options) holds(c faults.Case) bool {
	switch o.Kind {
	case "":
		return c.Located == nil
	case Machines:
		return c.Machine != nil
	case Routers:
		return c.Located != nil
	}
	return c.Kind == o.Kind
}

// again judges one case with the current rules.
func (k kept) again() Row {
	var d document
	if k.Row.Failed != "" || json.Unmarshal(k.Said, &d) != nil || d.Session == nil {
		return k.Row
	}
	samples := map[int][]model.Sample{}
	for _, r := range d.Samples {
		samples[r.Run] = r.Samples
	}
	d.Session.Findings = diagnose.Session(d.Session, samples)
	row := Score(k.Case, d.Session, k.Row.Stolen)
	row.Seconds, row.Others, row.Late, row.Command = k.Row.Seconds, k.Row.Others, k.Row.Late, k.Row.Command
	return row
}

// Counts returns, for each rule, how often it was right and how often it made a claim, as Go
// source for diagnose.judged. Cases during which the machine was late do not count.
func Counts(rows []Row) string {
	type tally struct{ right, said int }
	rules := map[string]*tally{}
	for _, r := range rows {
		if r.Late > mostLate {
			continue
		}
		for _, s := range r.Said {
			if !s.claims() {
				continue
			}
			name := s.Rule
			if s.Part {
				name += " in part"
			}
			t := rules[name]
			if t == nil {
				t = &tally{}
				rules[name] = t
			}
			t.said++
			if s.Right {
				t.right++
			}
		}
	}
	names := slices.Collect(maps.Keys(rules))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(-cmp.Compare(rules[a].said, rules[b].said), cmp.Compare(a, b)) })
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "\t\t%q: {%d, %d},\n", n, rules[n].right, rules[n].said)
	}
	return b.String()
}
