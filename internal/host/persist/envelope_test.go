package persist

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"testing"

	"linerate/internal/host/files"
	"linerate/internal/must"
)

// FuzzUnseal: unseal returns a record only if it is the one that was sealed, and reports any
// other input as damaged or newer.
func FuzzUnseal(f *testing.F) {
	good := must.Get(sealed(Record{ID: "000001"}))(f)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(bytes.Replace(good, []byte("000001"), []byte("000002"), 1)) // the checksum does not match
	f.Add(bytes.Replace(good, []byte(`"v":1`), []byte(`"v":2`), 1))
	f.Add([]byte(`{"id":"000001"}`))
	f.Add([]byte(`{"v":1,"sha256":"","record":null}`))
	f.Add([]byte(`{"v":-1}`))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := unseal(b, "000001")
		if err != nil {
			must.True(t, errors.Is(err, ErrNewer) || errors.Is(err, fs.ErrInvalid), "%q: %v", b, err)
			return
		}
		again, err := sealed(r)
		must.Dof(t, err, "%q was read and cannot be written", b)
		same, err := unseal(again, "000001")
		must.Dof(t, err, "%q became %q", b, again)
		one, _ := json.Marshal(r)
		other, _ := json.Marshal(same)
		must.True(t, bytes.Equal(one, other), "%s became %s", one, other)
	})
}

// TestFormat1 holds a record of the first release, which every later linerate must read.
func TestFormat1(t *testing.T) {
	const text = `{"v":1,"sha256":"2037ac90557e30a3133d0cf536a04dc22177afac98905350a61a1e736c1d7c9b","record":{"id":"000001"}}`
	r := must.Get(unseal([]byte(text), "000001"))(t)
	must.Equal(t, r.ID, "000001", "%+v", r)
}

// FuzzMerge: a text gets the block once, the text around the block stays, and a second block
// replaces the first.
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
