package persist

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"testing"
)

// FuzzUnseal: what is read of a record is what was sealed, and everything else is
// damaged or newer, by name.
func FuzzUnseal(f *testing.F) {
	good, err := sealed(Record{ID: "000001"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(bytes.Replace(good, []byte("000001"), []byte("000002"), 1)) // the checksum does not match
	f.Add(bytes.Replace(good, []byte(`"v":2`), []byte(`"v":3`), 1))
	f.Add([]byte(`{"id":"000001"}`)) // of linerate 1
	f.Add([]byte(`{"v":2,"sha256":"","record":null}`))
	f.Add([]byte(`{"v":-1}`))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := unseal(b, "000001")
		if err != nil {
			if !errors.Is(err, ErrNewer) && !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%q: %v", b, err)
			}
			return
		}
		again, err := sealed(r)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", b, err)
		}
		same, err := unseal(again, "000001")
		if err != nil {
			t.Fatalf("%q became %q: %v", b, again, err)
		}
		one, _ := json.Marshal(r)
		other, _ := json.Marshal(same)
		if !bytes.Equal(one, other) {
			t.Errorf("%s became %s", one, other)
		}
	})
}
