package line

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

// TestFramesSurviveWhatIsNone: with any data between frames, and any frame cut off, each whole
// frame after it is read exactly.
func TestFramesSurviveWhatIsNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream bytes.Buffer
		w := NewWriter(&stream)
		var want []Frame
		for range rapid.IntRange(1, 6).Draw(t, "frames") {
			noise := rapid.SliceOfN(rapid.ByteRange(0, 0xF4), 0, 40).Draw(t, "noise") // never the first byte of a magic
			stream.Write(noise)
			f := Frame{
				Kind: Kind(rapid.IntRange(int(Hello), int(End)).Draw(t, "kind")), ID: rapid.Uint32().Draw(t, "id"),
				Payload: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload"),
			}
			must.Do(t, w.Write(f.Kind, f.ID, f.Payload))
			want = append(want, f)
		}
		r := NewReader(&stream)
		for i, w := range want {
			got := must.Get(r.Read())(t)
			must.Need(t, got.Kind == w.Kind && got.ID == w.ID && bytes.Equal(got.Payload, w.Payload), "frame %d: %+v, want %+v", i, got, w)
		}
		f, err := r.Read()
		must.Need(t, errors.Is(err, io.EOF), "after the last frame: %+v, %v", f, err)
	})
}

// TestADamagedFrameIsSkipped: a frame whose payload was cut by a reset is skipped, and no
// other.
func TestADamagedFrameIsSkipped(t *testing.T) {
	var stream bytes.Buffer
	w := NewWriter(&stream)
	_ = w.Write(Stdout, 1, []byte("cut in the middle"))
	cut := stream.Bytes()[:headerSize+5]
	stream = *bytes.NewBuffer(append([]byte(nil), cut...))
	_ = w.Write(Hello, 0, []byte(`{"Boot":2,"System":"a system with a name that is long enough"}`))
	_ = w.Write(Stdout, 7, bytes.Repeat([]byte("x"), MaxPayload+1))
	r := NewReader(&stream)
	hello, err := r.Read()
	must.Need(t, err == nil && hello.Kind == Hello, "after a cut frame: %+v, %v", hello, err)
	first, err := r.Read()
	second, err2 := r.Read()
	must.Need(t, err == nil && err2 == nil && len(first.Payload) == MaxPayload && len(second.Payload) == 1 && second.ID == 7,
		"a long payload: %d and %d bytes, %v, %v", len(first.Payload), len(second.Payload), err, err2)
}
