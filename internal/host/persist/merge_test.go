package persist

import (
	"bytes"
	"slices"
	"testing"

	"linerate/internal/host/persist/native"
)

// FuzzMerge: a block goes into any text once, what is around it stays, and a
// second one takes its place.
func FuzzMerge(f *testing.F) {
	mark := func(s string) []byte { return []byte(native.BlockBegin + "\n" + s + native.BlockEnd + "\n") }
	f.Add([]byte("a=1\n"))
	f.Add([]byte("a=1"))
	f.Add(slices.Concat([]byte("a=1\r\n"), mark("b=2\n"), []byte("c=3")))
	f.Add([]byte(native.BlockEnd + "\n" + native.BlockBegin + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		head, _, tail, err := split(text)
		first, mergeErr := merge(text, mark("x=1\n"))
		if (err == nil) != (mergeErr == nil) {
			t.Fatalf("split says %v and merge %v", err, mergeErr)
		}
		if err != nil {
			return
		}
		second, err := merge(first, mark("x=2\n"))
		if err != nil {
			t.Fatal(err)
		}
		newHead, inner, newTail, err := split(second)
		if err != nil || !bytes.Equal(inner, mark("x=2\n")) || !bytes.Equal(newTail, tail) {
			t.Fatalf("%v: %q", err, second)
		}
		if !bytes.Equal(newHead, head) && !bytes.Equal(newHead, append(slices.Clone(head), '\n')) {
			t.Fatalf("head %q became %q", head, newHead)
		}
	})
}
