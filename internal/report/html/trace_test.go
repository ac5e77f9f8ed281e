package html_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/format"
	"linerate/internal/report/reporttest"
)

// quantity matches a number with the unit behind it.
var quantity = regexp.MustCompile(`[-+−]?[0-9]+(?:\.[0-9]+)?(?:[ \x{a0}]?(?:%|[kMGT]?bit/s|[KMGT]iB|kB|MB|GB|B\b|ns\b|µs\b|ms\b|s\b|min\b|h\b))?`)

// words matches digits in names and dates, which are not quantities.
var words = regexp.MustCompile(`[A-Za-z_]+[0-9][A-Za-z0-9_]*|[0-9]+-[a-z]+|[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9:]+)?|[0-9]+(\.[0-9]+){2,}[-.0-9a-z]*|[0-9a-f]{4}:[0-9a-f]{4}|[0-9]{8}T[0-9]{6}\S*`)

// inBase maps a unit to its size in base units.
var inBase = map[string]float64{
	"": 1, "%": 1, "bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12,
	"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "kB": 1e3, "MB": 1e6, "GB": 1e9,
	"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600,
}

// shown is a number on a page: it stands for any value within half of its last digit.
type shown struct {
	text       string
	value, off float64
	unit       string
}

func numbersIn(text string) (all []shown) {
	for _, q := range quantity.FindAllString(words.ReplaceAllString(text, " "), -1) {
		q = strings.ReplaceAll(strings.ReplaceAll(q, "−", "-"), "\u00a0", " ")
		digits := strings.TrimRight(q, " %kKMGTbit/sBnµmh")
		v, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			continue
		}
		unit := strings.TrimSpace(q[len(digits):])
		places := 0
		if _, decimals, ok := strings.Cut(digits, "."); ok {
			places = len(decimals)
		}
		scale := inBase[unit]
		// The page may round away the last zeros of a whole number with a unit: 4 digits count.
		step := math.Pow(10, -float64(places))
		if places == 0 && math.Abs(v) >= 1e4 {
			step = math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-3)
		}
		all = append(all, shown{q, math.Abs(v * scale), 0.501 * step * scale, unit})
	}
	return all
}

// is reports whether the page shows n of a document: as it is, as a share of 1, in nanoseconds,
// or as how much a ratio exceeds 1.
func (s shown) is(n float64) bool {
	n = math.Abs(n)
	near := func(v float64) bool { return math.Abs(v-s.value) <= s.off+1e-9*s.value }
	switch {
	case near(n):
		return true
	case s.unit == "%":
		return near(100*n) || near(100-100*n)
	case strings.HasSuffix(s.unit, "s") && !strings.HasSuffix(s.unit, "bit/s") || s.unit == "min" || s.unit == "h":
		return near(n / 1e9)
	case s.unit == "":
		return near(1+n/100) || near(n/100) // "2.9 times" of a change in percent
	}
	return false
}

// known returns all numbers of a part of a document: its own, and those in its texts.
func known(part any) (all []float64) {
	switch v := part.(type) {
	case float64:
		return []float64{v}
	case string:
		for _, n := range numbersIn(v) {
			all = append(all, n.value)
		}
		if v, err := strconv.ParseFloat(v, 64); err == nil {
			all = append(all, v)
		}
	case []any:
		all = append(all, float64(len(v)))
		for _, x := range v {
			all = append(all, known(x)...)
		}
	case map[string]any:
		for _, x := range v {
			all = append(all, known(x)...)
		}
	}
	return all
}

// pointed returns the part of a document at a JSON pointer (RFC 6901).
func pointed(document any, pointer string) (any, error) {
	if pointer == "" {
		return document, nil
	}
	for name := range strings.SplitSeq(pointer[1:], "/") {
		switch v := document.(type) {
		case map[string]any:
			x, ok := v[name]
			if !ok {
				return nil, fmt.Errorf("%s: there is no %q", pointer, name)
			}
			document = x
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(v) {
				return nil, fmt.Errorf("%s: there is no %q", pointer, name)
			}
			document = v[i]
		default:
			return nil, fmt.Errorf("%s: %q is of nothing", pointer, name)
		}
	}
	return document, nil
}

// TestNumbersAreToldApart: a number matches one of the document only within its last digit.
func TestNumbersAreToldApart(t *testing.T) {
	for _, c := range []struct {
		text string
		of   float64
		want bool
	}{
		{"934.8 Mbit/s", 934.83e6, true}, {"934.8 Mbit/s", 934.9e6, false}, {"99.3 %", 0.99304, true}, {"99.3 %", 0.9941, false},
		{"1.4 ms", 1400000, true}, {"1.4 ms", 0.0014, true}, {"1.4 ms", 1.4, false}, {"64 KiB", 65536, true}, {"64 KiB", 64000, false},
		{"2.91 times", 191, true}, {"7", 7, true}, {"7", 8, false},
	} {
		got := numbersIn(c.text)
		must.True(t, len(got) == 1 && got[0].is(c.of) == c.want, "%s and %v: %v, want %t", c.text, c.of, got, c.want)
	}
	must.Len(t, numbersIn("linux 6.8.0 on eth0, 2026-11-21 01:32, linerate 20261121T020000-p2m9"), 0, "names")
}

// TestEveryNumberIsInTheDocument: each number of a page stands in or inside an element whose
// data-json points to the part of the output of linerate show --json that holds the number.
// Drawings and the text report are exempt, since they are other views of the same data.
func TestEveryNumberIsInTheDocument(t *testing.T) {
	all, looked := pages(t), 0
	for _, c := range cases(t) {
		var text bytes.Buffer
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		must.Do(t, format.JSON(&text, c.Session, d, format.JSONOptions{Full: true}))
		var document any
		must.Do(t, json.Unmarshal(text.Bytes(), &document))
		looked += trace(t, c.Name, must.Get(html.Parse(strings.NewReader(all[c.Name])))(t), nil, document)
	}
	must.True(t, looked >= 500, "only %d numbers: the test looks in the wrong place", looked)
}

// outside lists elements without data numbers: drawings, the same content as text, styles.
var outside = map[string]bool{"svg": true, "details": true, "style": true, "head": true, "a": true, "th": true}

func trace(t *testing.T, page string, n *html.Node, part *string, document any) (looked int) {
	t.Helper()
	if n.Type == html.ElementNode && outside[n.Data] {
		return 0
	}
	for _, a := range n.Attr {
		if a.Key == "data-json" {
			part = &a.Val
		}
	}
	if n.Type == html.TextNode {
		numbers := numbersIn(n.Data)
		if len(numbers) == 0 {
			return 0
		}
		if part == nil {
			t.Errorf("%s: nothing says where %q comes from", page, strings.TrimSpace(n.Data))
			return 0
		}
		of, err := pointed(document, *part)
		if err != nil {
			t.Errorf("%s: %v", page, err)
			return 0
		}
		candidates := known(of)
	next:
		for _, s := range numbers {
			for _, v := range candidates {
				if s.is(v) {
					continue next
				}
			}
			t.Errorf("%s: %s of %q is not in %q", page, s.text, strings.TrimSpace(n.Data), *part)
		}
		return len(numbers)
	}
	for child := range n.ChildNodes() {
		looked += trace(t, page, child, part, document)
	}
	return looked
}
