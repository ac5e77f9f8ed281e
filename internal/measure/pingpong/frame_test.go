package pingpong

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/measure/enginetest"
	"linerate/internal/measure/plane"
	"linerate/internal/must"
)

// The layout of docs/wire/pingpong.md, byte by byte.
func TestFrameOnTheWire(t *testing.T) {
	for _, c := range []struct {
		f    frame
		want string
	}{
		{frame{kind: batch, mode: turns, size: 1, rounds: 1000}, "6c72707001010100 0000000000000001 00000000000003e8 0000000000000000"},
		{frame{kind: ready, mode: both, size: 1 << 30, rounds: 1 << 20}, "6c72707001020200 0000000040000000 0000000000100000 0000000000000000"},
		{frame{kind: done, mode: stream, size: 3, rounds: 2, elapsed: 258}, "6c72707001030300 0000000000000003 0000000000000002 0000000000000102"},
		{frame{kind: renew}, "6c72707001040000 0000000000000000 0000000000000000 0000000000000000"},
		{frame{kind: end}, "6c72707001050000 0000000000000000 0000000000000000 0000000000000000"},
	} {
		want := must.Get(hex.DecodeString(strings.ReplaceAll(c.want, " ", "")))(t)
		b := c.f.append(nil)
		must.True(t, bytes.Equal(b, want), "%+v is %x, want %x", c.f, b, want)
		must.Equal(t, must.Get(decode(b))(t), c.f, "%x", b)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := func() []byte { return frame{kind: batch, mode: stream, size: 8, rounds: 2}.append(nil) }
	for name, change := range map[string]func(b []byte) []byte{
		"short":           func(b []byte) []byte { return b[:31] },
		"magic":           func(b []byte) []byte { b[0] = 'L'; return b },
		"version":         func(b []byte) []byte { b[4] = 2; return b },
		"no kind":         func(b []byte) []byte { b[5] = 0; return b },
		"unknown kind":    func(b []byte) []byte { b[5] = 6; return b },
		"no mode":         func(b []byte) []byte { b[6] = 0; return b },
		"unknown mode":    func(b []byte) []byte { b[6] = 4; return b },
		"reserved":        func(b []byte) []byte { b[7] = 1; return b },
		"no size":         func(b []byte) []byte { b[15] = 0; return b },
		"large size":      func(b []byte) []byte { b[11] = 1; return b },
		"no rounds":       func(b []byte) []byte { b[23] = 0; return b },
		"one of both":     func(b []byte) []byte { b[6], b[23] = byte(both), 1; return b },
		"one of a stream": func(b []byte) []byte { b[23] = 1; return b },
		"many rounds":     func(b []byte) []byte { b[20] = 1; return b },
		"time of a batch": func(b []byte) []byte { b[31] = 1; return b },
		"no time of done": func(b []byte) []byte { b[5] = byte(done); return b },
		"negative time":   func(b []byte) []byte { b[5], b[24] = byte(done), 0x80; return b },
		"done of turns":   func(b []byte) []byte { b[5], b[6], b[31] = byte(done), byte(turns), 1; return b },
		"end with size":   func(b []byte) []byte { b[5] = byte(end); return b },
	} {
		f, err := decode(change(good()))
		must.True(t, errors.Is(err, errFrame) && f == (frame{}), "%s: %+v, %v", name, f, err)
	}
}

func TestFramesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := frame{
			kind: rapid.SampledFrom([]kind{batch, ready, done}).Draw(t, "kind"),
			mode: rapid.SampledFrom([]mode{turns, both, stream}).Draw(t, "mode"),
			size: rapid.IntRange(1, maxSize).Draw(t, "size"), rounds: rapid.IntRange(2, maxRounds).Draw(t, "rounds"),
		}
		if f.kind == done {
			f.mode, f.elapsed = stream, rapid.Int64Min(1).Draw(t, "elapsed")
		}
		got, err := decode(f.append(nil))
		must.Need(t, got == f && err == nil, "%+v became %+v, %v", f, got, err)
	})
}

func FuzzDecode(f *testing.F) {
	for _, fr := range []frame{
		{kind: batch, mode: turns, size: 1, rounds: 1}, {kind: done, mode: stream, size: 1, rounds: 2, elapsed: 1}, {kind: end},
	} {
		f.Add(fr.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decode(b)
		if err != nil {
			must.True(t, errors.Is(err, errFrame) && got == (frame{}), "%+v beside %v", got, err)
			return
		}
		must.True(t, got.valid() && bytes.Equal(got.append(nil), b), "%x is %+v", b, got)
	})
}

// TestBothEndsCountWhatTheySend, whichever way they wait: as much as the other end
// receives.
func TestBothEndsCountWhatTheySend(t *testing.T) {
	for name, open := range map[string]func(*net.TCPConn, bool) (*plane.Link, error){
		"chosen": plane.New,
		"poller": func(c *net.TCPConn, _ bool) (*plane.Link, error) { return plane.NewPoller(c), nil },
	} {
		for _, mode := range []string{"", sizes.Both, sizes.Stream} {
			w := enginetest.NewWire(t)
			sent := w.Counters()
			e := New(nil)
			e.share = 20 * time.Millisecond
			var mu sync.Mutex // both ends prepare at once
			var links []*plane.Link
			e.open = func(c *net.TCPConn, spin bool) (*plane.Link, error) {
				l, err := open(c, spin)
				mu.Lock()
				defer mu.Unlock()
				links = append(links, l)
				return l, err
			}
			near, far := enginetest.Prepare(t, e, w, sweepOf(model.To, sizes.Params{Mode: mode}, 1, 70_000))
			conduct(t, near, far)
			must.Need(t, len(links) == 2 && sent(model.Near) != nil && sent(model.Far) != nil, "%s: %d links, or an end without counters", name, len(links))
			var sum, got int64
			for _, l := range links {
				got += l.Received()
			}
			for _, h := range []model.Host{model.Near, model.Far} {
				sum += sent(h)()
			}
			must.True(t, sum == got && sum >= 70_000, "%s %s: both ends sent %d bytes and received %d", name, mode, sum, got)
		}
	}
}
