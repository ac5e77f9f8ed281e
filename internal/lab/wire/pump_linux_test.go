package wire

import (
	"slices"
	"testing"
	"time"

	"linerate/internal/must"
)

// script is a port that supplies frames and keeps the first byte of those it gets.
type script struct {
	Port

	give [][]byte
	got  []byte
}

func (s *script) fd() int { return -1 }

func (s *script) receive(buf []byte) (int, int64, bool) {
	if len(s.give) == 0 {
		return 0, 0, false
	}
	n := copy(buf, s.give[0])
	s.give = s.give[1:]
	return n, 0, true
}

func (s *script) send(frames [][]byte) int {
	for _, f := range frames {
		s.got = append(s.got, f[0])
	}
	return len(frames)
}

// TestAnswers: a router's own ICMP errors are dropped or delayed, within the limit, and
// everything that it forwards passes at once, in order.
func TestAnswers(t *testing.T) {
	t.Parallel()
	give := func() [][]byte {
		frames := [][]byte{packet4(63, 1, 11), packet4(64, 1, 11), packet4(63, 17, 0), packet6(64, 58, 1), packet6(63, 58, 1)}
		for i := range frames {
			frames[i][0] = byte(i)
		}
		return frames
	}
	for name, tt := range map[string]struct {
		Answers

		atOnce, later string
	}{
		"plain":  {Answers{}, "\x00\x01\x02\x03\x04", ""},
		"silent": {Answers{Silent: true, Late: time.Hour}, "\x00\x02\x04", ""},
		"late":   {Answers{Late: 1000 * time.Hour}, "\x00\x02\x04", "\x01\x03"},
	} {
		in, out := &script{give: give()}, &script{}
		p := newPump(Config{FrameBytes: 1518, Seed: 1}, Path{}, tt.Answers, &medium{}, 0, in, out, -1, time.Now())
		turn := func() string {
			p.take()
			if p.answers != nil {
				p.release()
			}
			p.hand()
			got := out.got
			out.got = nil
			if name == "late" && len(got) == 2 {
				slices.Sort(got) // either one may be later
			}
			return string(got)
		}
		must.Equal(t, turn(), tt.atOnce, name)
		p.start = p.start.Add(-1000*time.Hour - time.Minute)
		must.Equal(t, turn(), tt.later, name)
		used := 1 // to receive into
		must.Equal(t, slotsPerChunk-len(p.line.pool.free), used, "%s: frames that are kept", name)
	}
}
