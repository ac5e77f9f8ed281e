package yamlshape

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"

	"github.com/goccy/go-yaml/parser"
)

// costly returns texts of the largest allowed size that make a parser work: each repeats one
// thing.
func costly() map[string]string {
	fill := func(s string) string { return strings.Repeat(s, MaxBytes/len(s)) }
	cut := func(s string) string { return s[:min(len(s), MaxBytes)] }
	stairs := func(step string, wide int) string {
		var b strings.Builder
		for b.Len() < MaxBytes {
			for i := range wide {
				b.WriteString(strings.Repeat(" ", i) + step + "\n")
			}
		}
		return cut(b.String())
	}
	return map[string]string{
		"dashes":             fill("- "),
		"dashes and tabs":    fill("-\t"),
		"dashes of a map":    cut("a: " + fill("- ")),
		"dashes, document":   cut("--- " + fill("- ")),
		"dashes, flow":       cut("[" + fill("- ")),
		"dashes, tag":        cut("!!seq " + fill("- ")),
		"lines of dashes":    fill(strings.Repeat("- ", 63) + "a\n"),
		"lines of 120":       fill(strings.Repeat("- ", 120) + "a\n"),
		"questions":          fill("? "),
		"questions, dashes":  fill("? - "),
		"keys in a line":     fill("a: "),
		"colons":             fill(": "),
		"tags":               fill("!!a "),
		"bangs":              fill("! "),
		"anchors":            fill("&a "),
		"aliases":            fill("*a "),
		"merge keys":         fill("<<: *a\n"),
		"doubling":           "a: &a [1,2]\n" + fill("b: &a [*a,*a]\n")[:4000],
		"keys":               fill("a:\n"),
		"items":              fill("- a\n"),
		"empty items":        fill("-\n"),
		"words":              fill("a\n"),
		"stairs of maps":     stairs("a:", 200),
		"stairs of lists":    stairs("-", 200),
		"stairs of question": stairs("?", 200),
		"commas":             "[" + fill(","),
		"brackets":           fill(strings.Repeat("[", 32) + strings.Repeat("]", 32) + ","),
		"open brackets":      fill("["),
		"braces":             fill("{a: {b: c}}\n"),
		"quotes":             fill(`"" `),
		"documents":          fill("---\n"),
		"comments":           fill("#\n"),
		"percent":            fill("%\n"),
		"folded":             cut("a: >\n" + fill(" b\n")),
		"literal":            cut("a: |\n" + fill(" b\n")),
		"quoted lines":       cut(`"` + fill("a\n")),
		"escapes":            cut(`"` + fill(`\n`)),
		"carriage returns":   fill("a:\r"),
		"tabs":               fill("\t"),
	}
}

// Limits on what a parse may allocate in all and hold at its end, and on its time on a machine
// with other work.
const (
	mostAllocated = 1 << 30
	mostHeld      = 64 << 20
)

func TestWhatPassesIsCheapToParse(t *testing.T) {
	for name, text := range costly() {
		t.Run(name, func(t *testing.T) { cheap(t, []byte(text)) })
	}
}

// cheap fails if a text passes the check but is costly to parse, and returns the parsing time.
func cheap(t testing.TB, text []byte) time.Duration {
	if f := Check(text); f != nil {
		must.True(t, f.Line >= 1 && f.Column >= 1 && f.Reason != "", "fault %+v", *f)
		return 0
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	file, _ := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	runtime.KeepAlive(file)
	t.Logf("%v, %d MB allocated, %d MB held", took.Round(time.Millisecond), allocated>>20, held>>20)
	must.True(t, allocated <= mostAllocated && held <= mostHeld, "passes and costs %v, %d MB, of which it holds %d MB", took, allocated>>20, held>>20)
	return took
}

func TestWhatCostSecondsIsRefused(t *testing.T) {
	for _, name := range []string{"dashes", "dashes and tabs", "dashes of a map", "dashes, document", "dashes, flow", "dashes, tag", "lines of 120",
		"questions, dashes", "open brackets", "commas", "keys", "anchors"} {
		must.True(t, Check([]byte(costly()[name])) != nil, "%s passes", name)
	}
}

func TestWhatPeopleWritePasses(t *testing.T) {
	var b strings.Builder
	b.WriteString("title: \"a - b - c: what? - [now]\"\nfar: lab:rate=1gbit\nsettings:\n")
	for range 64 { // the most that a plan may have
		b.WriteString("  - name: \"window 64 KiB - and more\"\n    knobs: # what - is - tried\n")
		for range 16 {
			b.WriteString("      b.tcp.recv_buffer_max: \"4096 131072 6291456\"\n")
		}
	}
	if f := Check([]byte(b.String())); f != nil {
		t.Errorf("%+v", *f)
	}
}

func TestFaultsHaveTheirPlace(t *testing.T) {
	for text, want := range map[string]Fault{
		"a: 1\nb: \xff\n":                          {2, 4, "the file is not UTF-8 text"},
		"a: 1\r\n" + strings.Repeat("[", 33):       {2, 33, "more than 32 brackets are open"},
		strings.Repeat("- ", 65):                   {1, 129, "more than 64 dashes or question marks stand in one line"},
		"a:\n" + strings.Repeat(" ", 257) + "b: 1": {2, 257, "a line is indented by more than 256 columns"},
		strings.Repeat("\n", 4000) + "a":           {4001, 1, "the file has more than 4000 lines"},
	} {
		f := Check([]byte(text))
		must.True(t, f != nil && *f == want, "%.20q: %+v, want %+v", text, f, want)
	}
}

func FuzzCheck(f *testing.F) {
	for _, text := range costly() {
		f.Add([]byte(text)[:min(len(text), 2000)])
	}
	f.Add([]byte("far: lab:rate=1gbit\nfactors:\n  window: [64KiB, 1MiB]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) <= 8<<10 { // short enough for a fuzzing pass to make many tries
			cheap(t, text)
		}
	})
}
