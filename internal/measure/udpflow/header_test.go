package udpflow

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"linerate/internal/must"

	"pgregory.net/rapid"
)

// TestHeaderBytes holds docs/wire/udpflow.md.
func TestHeaderBytes(t *testing.T) {
	var b [endLen]byte
	header{kind: ending, stream: 0x0102, seq: 0x030405060708, sent: 0x090a0b0c0d0e}.put(b[:])
	counts{first: 0x11, behind: 0x22, early: true}.put(b[:])
	want := "4c120102030405060708090a0b0c0d0e" + "0000000000000011" + "0000000000000022" + "00000001"
	must.Equal(t, hex.EncodeToString(b[:]), want)
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := header{
			kind: kind(rapid.IntRange(0, int(kinds)-1).Draw(t, "kind")), stream: rapid.Uint16().Draw(t, "stream"),
			seq:  rapid.Int64Range(0, maxSequence).Draw(t, "seq"),
			sent: time.Duration(rapid.Int64Range(0, maxSequence).Draw(t, "sent")),
		}
		c := counts{
			first: rapid.Int64Range(0, h.seq).Draw(t, "first"), early: rapid.Bool().Draw(t, "early"),
		}
		c.behind = rapid.Int64Range(c.first, h.seq).Draw(t, "behind")
		var b [endLen]byte
		h.put(b[:])
		c.put(b[:])
		got, ok := parseHeader(b[:])
		must.Need(t, ok && got == h, "got %+v, %t, want %+v", got, ok, h)
		must.Equal(t, must.Get(parseEnd(h, b[:]))(t), c)
	})
}

func FuzzParse(f *testing.F) {
	var b [endLen]byte
	for k := range kinds {
		header{kind: k, stream: 1, seq: 1000, sent: time.Second}.put(b[:])
		counts{first: 10, behind: 1000}.put(b[:])
		f.Add(b[:])
		f.Add(b[:headerLen])
	}
	f.Add(b[:headerLen-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		h, ok := parseHeader(in)
		if !ok {
			return
		}
		var out [endLen]byte
		h.put(out[:])
		if !bytes.Equal(out[:headerLen], in[:headerLen]) {
			t.Fatalf("% x becomes % x", in[:headerLen], out[:headerLen])
		}
		c, err := parseEnd(h, in)
		if err != nil {
			return
		}
		must.Need(t, c.first >= 0 && c.first <= c.behind && c.behind <= h.seq, "%+v with %+v", c, h)
	})
}
