package persist

import (
	"bytes"
	"slices"
	"testing"

	"linerate/internal/host/files"
	"linerate/internal/must"
)

// FuzzMerge: a block goes into any text once, what is around it stays, and a
// second one takes its place.
func FuzzMerge(f *testing.F) {
	mark := func(s string) []byte { return []byte(files.BlockBegin + "\n" + s + files.BlockEnd + "\n") }
	f.Add([]byte("a=1\n"))
	f.Add([]byte("a=1"))
	f.Add(slices.Concat([]byte("a=1\r\n"), mark("b=2\n"), []byte("c=3")))
	f.Add([]byte(files.BlockEnd + "\n" + files.BlockBegin + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		head, _, tail, err := files.Split(text)
		first, mergeErr := files.Merge(text, mark("x=1\n"))
		must.Need(t, (err == nil) == (mergeErr == nil), "split says %v and merge %v", err, mergeErr)
		if err != nil {
			return
		}
		second := must.Get(files.Merge(first, mark("x=2\n")))(t)
		newHead, inner, newTail, err := files.Split(second)
		must.Need(t, err == nil && bytes.Equal(inner, mark("x=2\n")) && bytes.Equal(newTail, tail), "%v: %q", err, second)
		must.Need(t, bytes.Equal(newHead, head) || bytes.Equal(newHead, append(slices.Clone(head), '\n')), "head %q became %q", head, newHead)
	})
}
