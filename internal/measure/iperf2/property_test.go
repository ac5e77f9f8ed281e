package iperf2

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

func stamps() *rapid.Generator[Stamp] {
	return rapid.Custom(func(t *rapid.T) Stamp {
		return Stamp{rapid.Uint32().Draw(t, "seconds"), rapid.Uint32().Draw(t, "microseconds")}
	})
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lead := rapid.SampledFrom([]int{0, DatagramLead}).Draw(t, "lead")
		i32 := rapid.Int32()
		h := Header{
			Flags: Flags(rapid.Uint32().Draw(t, "flags")), Threads: i32.Draw(t, "threads"), Port: i32.Draw(t, "port"),
			BufferLen: i32.Draw(t, "length"), WinBand: i32.Draw(t, "window"), Amount: Amount(i32.Draw(t, "amount")),
		}
		if h.Flags&Extend != 0 {
			h.Extension = Extension{
				Type: i32.Draw(t, "type"), Length: i32.Draw(t, "ext length"), Upper: UpperFlags(rapid.Uint16().Draw(t, "upper")),
				Lower: rapid.Uint16().Draw(t, "lower"), VersionUpper: rapid.Uint32().Draw(t, "vu"), VersionLower: rapid.Uint32().Draw(t, "vl"),
				Reserved: rapid.Uint16().Draw(t, "reserved"), TOS: rapid.Uint16().Draw(t, "tos"),
				BitsPerSecond: rapid.Uint64Max(1<<56-1).Draw(t, "rate"), Prefetch: rapid.Uint32().Draw(t, "prefetch"),
			}
		}
		if h.hasStart() {
			h.Start = Start{rapid.Uint32().Draw(t, "r"), stamps().Draw(t, "at"), rapid.Uint32().Draw(t, "low"), rapid.Uint32().Draw(t, "high")}
		}
		b := h.Append(nil, lead)
		got, err := ParseHeader(b, lead)
		if h.Flags&Extend != 0 {
			h.Flags = h.Flags.withLen(lead + len(b))
		}
		must.Need(t, err == nil && got == h, "%+v, %v\nwant %+v", got, err, h)
	})
}

func TestDatagramRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Datagram{ID: rapid.Int64().Draw(t, "id"), Sent: stamps().Draw(t, "sent")}
		b := make([]byte, 16)
		d.Put(b, Layout16)
		must.Equal(t, must.Get(ParseDatagram(b, Layout16))(t), d)
		d.ID = int64(int32(d.ID))
		d.Put(b, Layout12)
		must.Equal(t, must.Get(ParseDatagram(b[:12], Layout12))(t), d, "old layout")
	})
}

func TestReportRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Int64Range(0, math.MaxInt64)
		s := stamps()
		want := Report{
			Bytes: rapid.Uint64().Draw(t, "bytes"), Duration: s.Draw(t, "duration"), Lost: count.Draw(t, "lost"),
			OutOfOrder: count.Draw(t, "order"), Datagrams: count.Draw(t, "datagrams"), Jitter: s.Draw(t, "jitter"),
			HasTransit: rapid.Bool().Draw(t, "has transit"),
		}
		if want.HasTransit {
			want.Transit = Transit{s.Draw(t, "min"), s.Draw(t, "max"), s.Draw(t, "sum"), s.Draw(t, "mean"), s.Draw(t, "m2"), s.Draw(t, "vd"), 1, 2, 3}
		}
		b := make([]byte, 128)
		must.Get(want.Put(b, Layout16))(t)
		got, l, err := ParseReport(b)
		must.Need(t, err == nil && l == Layout16 && got == want, "%+v, %v, %v\nwant %+v", got, l, err, want)
	})
}

// FuzzDecoders gives any bytes to every decoder: none may panic, and what is
// accepted must fit what was there.
func FuzzDecoders(f *testing.F) {
	f.Add(wire(f, plain218))
	f.Add(wire(f, "00000002 0000001c 00000000 00020001 00080003 00000000 00000000"))
	f.Add(bytes.Repeat([]byte{0xff}, 128))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, lead := range []int{0, DatagramLead} {
			h, err := ParseHeader(b, lead)
			n, given := h.Flags.HeaderLen()
			must.True(t, err != nil || h.Flags&Extend == 0 || !given || n-lead <= len(b), "header of %d bytes in %d", n, len(b))
		}
		for _, l := range []Layout{Layout12, Layout16} {
			_, err := ParseDatagram(b, l)
			must.True(t, (err == nil) == (len(b) >= l.HeaderOffset()), "%v datagram of %d bytes: %v", l, len(b), err)
		}
		_, _, err := ParseReport(b)
		must.True(t, err != nil || len(b) >= 52, "report in %d bytes", len(b))
		m, err := ParseBounce(b)
		must.True(t, err != nil || len(b) >= bounceLen && m.Size >= bounceLen, "bounce-back message %+v in %d bytes", m, len(b))
		DetectLayout(b)
		r := bytes.NewReader(b)
		if _, err := ReadAck(r); err == nil && len(b)-r.Len() > maxAckLen {
			t.Errorf("ack took %d bytes", len(b)-r.Len())
		}
		if len(b) >= 4 {
			_, n, err := Peek([4]byte(b))
			must.True(t, err != nil || n >= 0 && n <= maxHeaderLen, "header of %d bytes", n)
		}
	})
}
