package yamlmap

import (
	"strings"
	"testing"

	"linerate/internal/must"
)

func TestParse(t *testing.T) {
	v := Parse([]byte("---\na:\n  b: {c: 1, d: \"x y\"}\n  # comment\n  e: [1, 2]\n  f: true\nb: &x 1\nc: *x\na2: |\n  text\n"))
	for path, want := range map[string]string{"a b c": "1", "a b d": "x y", "a e": "", "a f": "true", "b": "", "c": "", "a none": "", "": ""} {
		must.Equal(t, v.At(strings.Fields(path)...).Text, want, "%s", path)
	}
	p, ok := v.At("a").Get("f")
	must.True(t, ok && p.Line == 6, "f: %+v, %t", p, ok)
	_, ok = v.Get("none")
	must.True(t, !ok, "none is there")
	for name, text := range map[string]string{
		"empty": "", "a list": "- a\n- b\n", "no UTF-8": "a: \xff", "brackets": "a: " + strings.Repeat("[", 40), "long": "a: " + strings.Repeat("x", maxText),
		"deep": strings.Repeat(" ", 400) + "a: 1", "broken": "a: {b: 1", "lines": strings.Repeat("a: 1\n", maxLines+1),
	} {
		v := Parse([]byte(text))
		must.True(t, len(v.Keys) == 0 && v.Text == "", "%s: %+v", name, v)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a: {b: 1}\n", "a:\n  b: [1]\n  c: &x y\n  d: *x\n", "%YAML 1.2\n---\na: !!int 1\n...\n", "? a\n: b\n", "<<: *x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		lines := strings.Count(string(b), "\n") + strings.Count(string(b), "\r") + 1
		var walk func(v Value, depth int)
		walk = func(v Value, depth int) {
			must.Need(t, depth <= maxNested+1, "too deep")
			for _, p := range v.Keys {
				must.True(t, p.Line >= 1 && p.Line <= lines, "key %q in line %d of %d", p.Key, p.Line, lines)
				walk(p.Value, depth+1)
			}
		}
		walk(Parse(b), 0)
	})
}
