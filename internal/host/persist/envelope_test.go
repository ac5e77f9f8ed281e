package persist

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"testing"

	"linerate/internal/must"
)

// FuzzUnseal: what is read of a record is what was sealed, and everything else is
// damaged or newer, by name.
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

// TestFormat1 holds a record of the first release: every later linerate reads it.
func TestFormat1(t *testing.T) {
	const text = `{"v":1,"sha256":"2037ac90557e30a3133d0cf536a04dc22177afac98905350a61a1e736c1d7c9b","record":{"id":"000001"}}`
	r := must.Get(unseal([]byte(text), "000001"))(t)
	must.Equal(t, r.ID, "000001", "%+v", r)
}
