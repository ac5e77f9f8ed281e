package screen

import (
	"fmt"
	"strings"
	"testing"

	"linerate/internal/core/plain"
	"linerate/internal/must"
)

func TestWriterStopsEscapes(t *testing.T) {
	const hostile = "a\x1b[31mred\u202e\x9b2J\r\u009b µ東\r\nend"
	var whole strings.Builder
	n, err := New(&whole).Write([]byte(hostile))
	must.True(t, n == len(hostile) && err == nil, "%d, %v", n, err)
	const want = "a?[31mred??2J?? µ東\r\nend"
	must.Equal(t, whole.String(), want)
	var parts strings.Builder
	w := New(&parts)
	for i := range len(hostile) {
		_, _ = w.Write([]byte(hostile[i : i+1]))
	}
	must.Equal(t, parts.String(), want, "byte by byte")
	_, _ = w.Write([]byte("\xe6\x9d"))
	err = w.Flush()
	must.True(t, err == nil && parts.String() == want+"??", "%q, %v", parts.String(), err)
}

func TestOnlyOwnStylePasses(t *testing.T) {
	var out strings.Builder
	w := New(&out)
	_, _ = w.WriteStyled([]byte(Redraw + "\x1b[1mbold\x1b[0m \x1b[5mblink\x1b[0m \x1b]0;title\x07\x1b[2J\x1b[K\r\x1b"))
	must.Equal(t, out.String(), Redraw+"\x1b[1mbold\x1b[0m ?[5mblink\x1b[0m ?]0;title??[2J?[K??")
	out.Reset()
	_, _ = w.Write([]byte(Redraw + "\x1b[1m"))
	must.Equal(t, out.String(), "??[K?[1m")
}

func FuzzWriter(f *testing.F) {
	f.Add([]byte("a\x1b[31m\u202e\x9b"), 3, true)
	f.Fuzz(func(t *testing.T, text []byte, cut int, styled bool) {
		var out strings.Builder
		w := New(&out)
		cut = max(0, min(cut, len(text)))
		_, _ = w.Write(text[:cut])
		_ = w.Flush()
		if styled {
			_, _ = w.WriteStyled(text[cut:])
		} else {
			_, _ = w.Write(text[cut:])
		}
		_ = w.Flush()
		got := out.String()
		if styled {
			for _, c := range own() {
				got = strings.ReplaceAll(got, c, "")
			}
		}
		must.True(t, plain.Clean([]byte(got)), "%q", got)
	})
}

// TestHold: while a screen has the terminal, say gets each line without control characters, and
// the lines are written when the terminal is free.
func TestHold(t *testing.T) {
	var out strings.Builder
	var told []string
	w := New(&out)
	fmt.Fprint(w, "a")
	h := w.Hold(0, func(line string) { told = append(told, line) })
	fmt.Fprint(w, "b\x1b[2J\nc")
	h.Keep("d\x1b")
	must.Equal(t, out.String(), "a")
	must.Same(t, told, []string{"b?[2J"})
	h.Release(nil)
	fmt.Fprint(w, "e")
	must.Equal(t, out.String(), "ab?[2J\nd?\nce")
}

// TestLine: other output appears above the line.
func TestLine(t *testing.T) {
	var out strings.Builder
	w := New(&out)
	fmt.Fprint(w, "a\n")
	w.Line("1/8")
	w.Line("1/8")
	fmt.Fprint(w, "b\n")
	w.Line("")
	fmt.Fprint(w, "c\n")
	must.Equal(t, out.String(), "a\n"+Redraw+"1/8"+Redraw+"b\n1/8"+Redraw+"c\n")
}
