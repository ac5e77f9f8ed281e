package netpipe

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

func TestControlBytes(t *testing.T) {
	for _, c := range []struct {
		control    Control
		want, name string
	}{{Sync, "53796e634d65", "sync"}, {Quit, "5155495400", "quit"}} {
		b := c.control.Append(nil)
		if got := hex.EncodeToString(b); got != c.want || c.control.String() != c.name {
			t.Errorf("%v is %s on the wire", c.control, got)
		}
		for n := range b {
			_, _, err := DecodeControl(b[:n])
			must.True(t, errors.Is(err, ErrShort) && errors.Is(err, io.ErrUnexpectedEOF), "%v cut at %d: %v", c.control, n, err)
		}
		got, used, err := DecodeControl(append(b, "aaaa"...))
		must.True(t, got == c.control && used == len(b) && err == nil, "%v decodes to %v, %d bytes, %v", c.control, got, used, err)
	}
}

func TestSyncAndQuitShareASegment(t *testing.T) {
	b := []byte("SyncMeQUIT\x00")
	var got []Control
	for len(b) > 0 {
		c, n, err := DecodeControl(b)
		must.Do(t, err)
		got, b = append(got, c), b[n:]
	}
	must.True(t, slices.Equal(got, []Control{Sync, Quit}), "messages %v", got)
}

func TestOutOfStep(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"aaaaaaaaaa", "payload"},
		{"aab", "payload"},
		{"SSH-2.0-OpenSSH", "NPtcp 3.x"},
		{"QUIT\n", "NPtcp 3.x"},
		{"SyncYou", "NPtcp 3.x"},
		{"\x00\x00\x27\x10", "NPtcp 3.x"},
	} {
		_, n, err := DecodeControl([]byte(c.in))
		var e *OutOfStepError
		must.True(t, errors.As(err, &e) && n == 0 && len(e.Got) <= SyncBytes && strings.Contains(err.Error(), c.want), "%q: %d bytes, %v", c.in, n, err)
	}
}

func TestNumberBytes(t *testing.T) {
	b, err := AppendRepeats([]byte{9}, 10152)
	must.True(t, err == nil && bytes.Equal(b, []byte{9, 0, 0, 0x27, 0xa8}), "repeat count % x, %v", b, err)
	b, err = AppendTime([]byte{9}, 0.0000065899)
	must.True(t, err == nil && bytes.Equal(b, []byte{9, 0, 0, 2, 0x92}), "time % x, %v", b, err)
	must.Equal(t, must.Get(DecodeTime(b[1:]))(t), 0.00000658, "time")
	for n := range NumberBytes {
		must.Is(t, must.Err(DecodeRepeats(b[1:1+n])), ErrShort, "repeat count of %d bytes", n)
		must.Is(t, must.Err(DecodeTime(b[1:1+n])), ErrShort, "time of %d bytes", n)
	}
}

func TestNumbersOutOfRange(t *testing.T) {
	for _, n := range []int{0, -1, MaxRepeats + 1, 1 << 32, 1<<32 + 1} {
		b, err := AppendRepeats(nil, n)
		must.True(t, err != nil && b == nil, "repeat count %d: % x", n, b)
	}
	// A negative -n of the real program, zero, and four payload bytes.
	for _, text := range []string{"ffffffff", "00000000", "61616161", "3b9aca01"} {
		n, err := DecodeRepeats(must.Get(hex.DecodeString(text))(t))
		must.True(t, err != nil, "%s decodes to %d repeats", text, n)
	}
	for _, s := range []float64{-1e-8, 42.94967296, math.Inf(1), math.NaN()} {
		b, err := AppendTime(nil, s)
		must.True(t, err != nil && b == nil, "time %g: % x", s, b)
	}
	b := must.Get(AppendTime(nil, 42.94967295))(t)
	must.True(t, bytes.Equal(b, []byte{255, 255, 255, 255}), "largest time % x", b)
}

func TestNumbersComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, MaxRepeats).Draw(t, "repeats")
		b := must.Get(AppendRepeats(nil, n))(t)
		if got, err := DecodeRepeats(b); got != n || err != nil {
			t.Fatalf("%d, %v", got, err)
		}
		s := rapid.Float64Range(0, 42.9).Draw(t, "seconds")
		b = must.Get(AppendTime(nil, s))(t)
		got, err := DecodeTime(b)
		must.Need(t, err == nil && !(got > s+1e-12) && !(got < s-1.0001e-8), "%g, %v", got, err)
	})
}

func TestIntegrityPayload(t *testing.T) {
	b := bytes.Repeat([]byte{0xee}, 14)
	FillIntegrity(b)
	for i := range 3 {
		must.Equal(t, binary.NativeEndian.Uint32(b[4*i:]), uint32(i), "number %d", i)
	}
	must.True(t, b[12] == 0xee && b[13] == 0xee, "the rest changed")
	must.OK(t, CheckIntegrity(b))
	for i := range 12 {
		bad := slices.Clone(b)
		bad[i] ^= 0x40
		must.Fail(t, CheckIntegrity(bad), "byte %d differs unseen", i)
	}
	slices.Reverse(b[4:8])
	must.Say(t, CheckIntegrity(b), "byte order", "swapped bytes")
	FillPayload(b)
	must.True(t, string(b) == strings.Repeat("a", 14) && CheckIntegrity(b) != nil, "payload %q", b)
}

func FuzzDecodeControl(f *testing.F) {
	for _, s := range []string{"", "SyncMe", "QUIT\x00", "SyncMeQUIT\x00", "QUIT", "aaaaaa", "S"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, n, err := DecodeControl(b)
		if err == nil {
			must.True(t, bytes.Equal(c.Append(nil), b[:n]), "%v is not %q", c, b[:n])
			return
		}
		must.True(t, n == 0 && c == 0, "%v, %d bytes beside %v", c, n, err)
		must.True(t, !errors.Is(err, ErrShort) || len(b) < SyncBytes, "%q is called short", b)
	})
}

func FuzzDecodeNumbers(f *testing.F) {
	for _, b := range [][]byte{nil, {0, 0, 0x27, 0xa8}, {255, 255, 255, 255}, {0, 0, 0}} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := DecodeRepeats(b); err == nil {
			back, err := AppendRepeats(nil, n)
			must.True(t, err == nil && bytes.Equal(back, b[:NumberBytes]), "%d repeats become % x, %v", n, back, err)
		}
		s, err := DecodeTime(b)
		must.True(t, err != nil || s >= 0 && s < 43, "time %g", s)
	})
}
