package tcpbulk

import (
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// TestVeth checks what the sender's kernel says against what is known of the
// path and was asked for.
func TestVeth(t *testing.T) {
	f := timed(model.To, 2)
	f.MSS, f.Window, f.Congestion = 1000, 64<<10, "reno"
	near, far := enginetest.Prepare(t, New(), enginetest.NewVeth(t, enginetest.Bucket{}), f)
	enginetest.Succeed(t, near, far, model.To)
	s := near.Flow(t, model.To).TCP
	must.Equal(t, s.PathMTU.Or(0), 1500, "path MTU")
	// 12 bytes of each segment are the timestamps option (RFC 7323 section 3.2).
	if got, timestamps := s.MSS.Or(0), s.Timestamps.Or(false); got != 988 && timestamps || got != 1000 && !timestamps {
		t.Errorf("segments of %d bytes with timestamps %t, 1000 asked", got, timestamps)
	}
	must.Equal(t, s.Congestion.Or(""), "reno", "congestion control")
	got := s.PeerWindow.Or(0)
	must.True(t, got != 0 && got <= 2*2*f.Window, "the peers announce %d bytes with buffers of %d each", got, f.Window)
	if got, want := s.SendBuffer.Or(0), units.Bytes(2*2*f.Window); got != want {
		t.Errorf("send buffers of %d bytes, want %d", got, want)
	}
	if got := s.RTTMin.Or(0); got <= 0 {
		t.Errorf("least round trip %v", got)
	}
	if got, sent := far.Flow(t, model.To).Bytes, near.Flow(t, model.To).Bytes; got == 0 || got > sent {
		t.Errorf("received %d of %d bytes", got, sent)
	}
}
