package iperf2

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

// wire reads hex words as the documents write them.
func wire(t testing.TB, words string) []byte {
	t.Helper()
	return must.Get(hex.DecodeString(strings.Join(strings.Fields(words), "")))(t)
}

// plain218 is what iperf 2.1.8 -t 2 sends first (section 7).
const plain218 = `40010078 00000001 00001389 00000000 00000000 ffffff38
	00000000 00000000 00000000 00020001 00080003 00000000 00000000 00000000 00000000`

func TestPlainHeader(t *testing.T) {
	b := wire(t, plain218)
	want := NewHeader(Forward, false)
	want.Amount = -200
	if got := want.Append(nil, 0); !bytes.Equal(got, b) {
		t.Errorf("written %x\nwant    %x", got, b)
	}
	got, err := ParseHeader(b, 0)
	want.Flags = 0x40010078
	must.True(t, err == nil && got == want, "parsed %+v, %v\nwant %+v", got, err, want)
	d, ok := got.Amount.Time()
	must.True(t, d == 2*time.Second && ok, "time %v, %v", d, ok)
	for n := range b {
		must.Is(t, must.Err(ParseHeader(b[:n], 0)), ErrHeader, "cut to %d bytes", n)
	}
}

// TestFirstWords checks the flags that 2.1.8 sends (sections 2, 6 and 7).
func TestFirstWords(t *testing.T) {
	peer := NewHeader(Forward, false) // -X
	peer.Flags |= Version2 | PeerDetect
	trip := NewHeader(Forward, false) // --trip-times
	trip.Extension.Upper = TripTime
	for name, c := range map[string]struct {
		h     Header
		lead  int
		words [2]string // number 0, and number 8 of the header
		mode  Mode
		ack   bool
	}{
		"plain":       {NewHeader(Forward, false), 0, [2]string{"40010078", "00000000"}, Forward, true},
		"-X":          {peer, 0, [2]string{"46010078", "00000000"}, Forward, true},
		"-d":          {NewHeader(Dual, false), 0, [2]string{"c0010079", "00000000"}, Dual, true},
		"-r":          {NewHeader(TradeOff, false), 0, [2]string{"c0010078", "00000000"}, TradeOff, true},
		"-R":          {NewHeader(Reverse, false), 0, [2]string{"44010078", "04000000"}, Reverse, false},
		"full duplex": {NewHeader(FullDuplex, false), 0, [2]string{"44010078", "08000000"}, FullDuplex, false},
		"trip times":  {trip, 0, [2]string{"400100a0", "00100000"}, Forward, true},
		"-u":          {NewHeader(Forward, true), 16, [2]string{"48010098", "00000000"}, Forward, true},
		"-u -d":       {NewHeader(Dual, true), 16, [2]string{"c8010099", "00000000"}, Dual, true},
		"-u -R":       {NewHeader(Reverse, true), 16, [2]string{"6c010098", "04000000"}, Reverse, false},
		"-u duplex":   {NewHeader(FullDuplex, true), 16, [2]string{"6c010098", "08080000"}, FullDuplex, false},
	} {
		b := c.h.Append(nil, c.lead)
		must.Equal(t, [2]string{hex.EncodeToString(b[:4]), hex.EncodeToString(b[32:36])}, c.words, "%s: words", name)
		h, err := ParseHeader(b, c.lead)
		must.True(t, err == nil && h.Mode() == c.mode && h.Flags.AckDue() == c.ack, "%s: mode %v, ack due %v, %v", name, h.Mode(), h.Flags.AckDue(), err)
		n, ok := h.Flags.HeaderLen()
		must.True(t, n == len(b)+c.lead && ok, "%s: length bits %d, %v for %d bytes", name, n, ok, len(b))
	}
}

// TestNewerHeader: the length bits count, not the size we know: 2.2.1 sends 64 bytes.
func TestNewerHeader(t *testing.T) {
	b := wire(t, strings.Replace(plain218, "40010078", "40010080", 1)+"01020304")
	h, err := ParseHeader(b, 0)
	n, _ := h.Flags.HeaderLen()
	must.True(t, err == nil && n == 64 && h.Extension.VersionUpper == VersionUpper, "length %d, %+v, %v", n, h, err)
	must.Is(t, must.Err(ParseHeader(b[:63], 0)), ErrHeader, "63 of 64 bytes")
}

// TestOldHeader parses the header of 2.0.5 -t 1 (section 7).
func TestOldHeader(t *testing.T) {
	b := wire(t, "00000000 00000001 00001389 00000000 00000000 ffffff9c")
	h, err := NewOldHeader(Forward)
	h.Amount = -100
	must.True(t, err == nil && bytes.Equal(h.Append(nil, 0), b), "written %x, %v", h.Append(nil, 0), err)
	must.Equal(t, must.Get(ParseHeader(b, 0))(t), h, "parsed")
	for mode, word := range map[Mode]Flags{Dual: 0x80000001, TradeOff: 0x80000000} {
		h, err := NewOldHeader(mode)
		must.True(t, err == nil && h.Flags == word && h.Mode() == mode && h.Mode().ConnectsBack(), "%v: flags %08x, mode %v, %v", mode, h.Flags, h.Mode(), err)
	}
	for _, mode := range []Mode{Reverse, FullDuplex} {
		must.Is(t, must.Err(NewOldHeader(mode)), errors.ErrUnsupported, "%v", mode)
	}
}

func TestPeek(t *testing.T) {
	for word, want := range map[string]struct {
		o Opening
		n int
	}{
		"00000000": {OpeningData, 0},
		"34353637": {OpeningData, 0}, // digits, as after -C
		"40010078": {OpeningHeader, 60},
		"40010080": {OpeningHeader, 64},
		"400100a0": {OpeningHeader, 80},
		"40000000": {OpeningHeader, 60}, // 2.0.13 sends no length
		"c0010079": {OpeningReturn, 60},
		"80000001": {OpeningReturn, 24},
		"00800000": {OpeningBounceBack, 48},
	} {
		o, n, err := Peek([4]byte(wire(t, word)))
		must.True(t, o == want.o && n == want.n && err == nil, "%s: %v, %d, %v", word, o, n, err)
	}
	_, _, err := Peek([4]byte(wire(t, "40010008")))
	must.True(t, errors.Is(err, ErrHeader), "extension in 4 bytes: %v", err)
	for _, b := range []byte("0123456789\x00") {
		must.True(t, SafeFirstByte(b), "byte %q is not safe", b)
	}
	must.True(t, !SafeFirstByte(0x80) && !SafeFirstByte(0x40), "a first byte that looks like flags is safe")
}

func TestAck(t *testing.T) {
	b := wire(t, "00000002 0000001c 00000000 00020001 00080003 00000000 00000000")
	want := Ack{VersionUpper: VersionUpper, VersionLower: VersionLower}
	got := want.Append(nil)
	must.True(t, bytes.Equal(got, b), "written %x", got)
	r := bytes.NewReader(append(bytes.Clone(b), 'x'))
	if got, err := ReadAck(iotest.OneByteReader(r)); err != nil || got != want || r.Len() != 1 {
		t.Errorf("read %+v, %v, %d bytes left", got, err, r.Len())
	}
	for n := range b {
		_, err := ReadAck(bytes.NewReader(b[:n]))
		must.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF), "cut to %d bytes: %v", n, err)
	}
	trip := Ack{HasTrip: true, ClientSent: Stamp{1, 2}, ServerGot: Stamp{3, 4}, ServerAcked: Stamp{5, 6}}
	long := trip.Append(nil)
	ack, err := ReadAck(bytes.NewReader(long))
	must.True(t, err == nil && ack == trip && len(long) == 52, "read %+v, %v of %d bytes", ack, err, len(long))
	for _, bad := range []string{"00000001 0000001c", "00000002 0000001b", "00000002 ffffffff"} {
		must.Is(t, must.Err(ReadAck(io.MultiReader(bytes.NewReader(wire(t, bad)), bytes.NewReader(make([]byte, 512))))), ErrAck, "%s", bad)
	}
}

// TestFirstDatagram parses the first datagram of 2.1.8 -u (section 7), SEC and USEC filled in.
func TestFirstDatagram(t *testing.T) {
	b := wire(t, `00000001 6548a3b2 00012345 00000000 48010098 00000001 00001389 00000000 00000000 ffffff9c
		00000000 00000000 00000000 00020001 00080003 00000000 00100000 00000000 00000000`)
	l, ok := DetectLayout(b)
	must.True(t, l == Layout16 && ok, "layout %v, %v", l, ok)
	d, err := ParseDatagram(b, Layout16)
	want := (Datagram{ID: 1, Sent: Stamp{0x6548a3b2, 0x12345}})
	must.True(t, err == nil && d == want && !d.Final(), "datagram %+v, %v", d, err)
	h, err := ParseHeader(b[DatagramLead:], DatagramLead)
	must.True(t, err == nil && h.Extension.BitsPerSecond == 1<<20 && h.Amount == -100, "header %+v, %v", h, err)
	again := make([]byte, DatagramLead)
	d.Put(again, Layout16)
	again = h.Append(again, DatagramLead)
	must.True(t, bytes.Equal(again, b), "written %x\nwant    %x", again, b)
}

func TestFinalDatagram(t *testing.T) {
	b := wire(t, "ffffffa3 6548a3b2 00012345 ffffffff 48010098")
	d, err := ParseDatagram(b, Layout16)
	must.True(t, err == nil && d.ID == -93 && d.Final() && d.Number() == 93, "%+v, %v", d, err)
	d, err = ParseDatagram(b, Layout12)
	must.True(t, err == nil && d.ID == -93, "old layout: %+v, %v", d, err)
	must.Equal(t, (Datagram{ID: math.MinInt64}).Number(), 1<<63, "the most negative id has number")
}

func TestDetectLayout(t *testing.T) {
	old := wire(t, "00000000 6548a3b2 00012345 00000000 00000001 00001389 00000000 000f4240 ffffff9c")
	l, ok := DetectLayout(old)
	must.True(t, l == Layout12 && ok, "2.0.5: %v, %v", l, ok)
	h := must.Get(ParseHeader(old[Layout12.HeaderOffset():], 0))(t)
	must.True(t, h.WinBand == 1000000 && h.Threads == 1, "2.0.5: %+v", h)
	old[3] = 7
	l, ok = DetectLayout(old)
	must.True(t, !ok, "a later datagram is taken for %v", l)
}

// TestReport parses the report of 2.1.8 after 93 datagrams (section 7).
func TestReport(t *testing.T) {
	b := make([]byte, 128)
	copy(b[16:], wire(t, "88000000 00000000 00021606 00000001 00005165 00000000 00000000 0000005d 00000000 00000002"))
	want := Report{Bytes: 136710, Duration: Stamp{1, 20837}, Datagrams: 93, Jitter: Stamp{0, 2}}
	got, l, err := ParseReport(b)
	must.True(t, err == nil && got == want && l == Layout16, "%+v, %v, %v", got, l, err)
	again := bytes.Repeat([]byte{0xee}, 1470)
	if n, err := want.Put(again, Layout16); n != 128 || err != nil || !bytes.Equal(again[:n], b) {
		t.Errorf("written %d bytes %x, %v", n, again[:n], err)
	}
}

// TestReportLayouts: the offset depends on the version, and 2.0.13 echoes the final datagram in
// front (section 5).
func TestReportLayouts(t *testing.T) {
	want := Report{Bytes: 5<<32 | 7, Duration: Stamp{1, 2}, Lost: 3, OutOfOrder: 4, Datagrams: 500, Jitter: Stamp{0, 9}}
	b := bytes.Repeat([]byte{0xee}, 1470)
	if n, err := want.Put(b, Layout12); n != 1470 || err != nil || b[0] != 0xee || b[11] != 0xee {
		t.Fatalf("written %d bytes, %v, echo %x", n, err, b[:12])
	}
	got, l, err := ParseReport(b)
	must.True(t, err == nil && l == Layout12 && got == want, "2.0.5: %+v, %v, %v", got, l, err)
	n, err := want.Put(b, Layout16)
	must.Need(t, n == 128 && err == nil, "%v %v", n, err)
	copy(b, wire(t, "ffffffa3 6548a3b2 00012345 ffffffff"))
	got, l, err = ParseReport(b[:128])
	must.True(t, err == nil && l == Layout16 && got == want, "2.0.13: %+v, %v, %v", got, l, err)
	_, _, err = ParseReport(make([]byte, 1470))
	must.True(t, errors.Is(err, ErrReport), "zeros: %v", err)
	big := Report{Lost: 1 << 31}
	must.Fail(t, must.Err(big.Put(b, Layout12)), "a loss of 2^31 fits 32 bits")
	for l, short := range map[Layout]int{Layout12: 51, Layout16: 127} {
		must.Fail(t, must.Err(want.Put(b[:short], l)), "%v: a report fits %d bytes", l, short)
	}
}

func TestAmount(t *testing.T) {
	a, err := AmountOfTime(time.Second)
	must.True(t, uint32(a) == 0xffffff9c && err == nil, "1 s is %08x, %v", uint32(a), err)
	must.Equal(t, must.Get(AmountOfTime(11*time.Millisecond))(t), -2, "11 ms")
	must.Equal(t, must.Get(AmountOfBytes(1<<20))(t), 1<<20, "1 MiB")
	_, ok := Amount(5).Time()
	must.True(t, !ok, "bytes are a time")
	n, ok := Amount(-5).Bytes()
	must.True(t, n == 0 && !ok, "a time is bytes")
	for _, d := range []time.Duration{0, -1, math.MaxInt64} {
		must.Fail(t, must.Err(AmountOfTime(d)), "%v fits", d)
	}
	for _, n := range []int64{0, -1, 1 << 31} {
		must.Fail(t, must.Err(AmountOfBytes(n)), "%d bytes fit", n)
	}
}

func TestBounce(t *testing.T) {
	want := Bounce{Size: 100, ID: 3, Flags: 4, TOS: 5, RunTime: 6, ClientSent: Stamp{7, 8}, ServerGot: Stamp{9, 10}, ServerSent: Stamp{11, 12}, Hold: 13}
	b := make([]byte, DefaultBounceLen)
	must.Do(t, want.Put(b))
	must.True(t, bytes.HasPrefix(b, wire(t, "00800000 00000064 00000003 00040005 00000006 00000007")), "written %x", b)
	must.Equal(t, must.Get(ParseBounce(b))(t), want)
	for n := range bounceLen {
		must.Is(t, must.Err(ParseBounce(b[:n])), ErrHeader, "cut to %d", n)
		must.Fail(t, want.Put(b[:n]), "fits %d bytes", n)
	}
}

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

// FuzzDecoders passes any bytes to every decoder: none may panic, and whatever it accepts must
// fit the input.
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
