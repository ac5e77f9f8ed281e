package udpstp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

const ms = time.Millisecond

// outcome returns a status PDU of a good (g), bad (b) or neutral (h) trial interval.
func outcome(kind rune) Status {
	return map[rune]Status{'g': {RTTVariation: 0}, 'b': {RTTVariation: 0, Lost: 11}, 'h': {RTTVariation: 50}}[kind]
}

// TestSearch checks both algorithms with vectors by obudpst 9.0.0's rules.
func TestSearch(t *testing.T) {
	start := func(change func(*Activation)) Activation {
		a := Defaults()
		change(&a)
		return a
	}
	many := strings.Repeat
	for name, c := range map[string]struct {
		of             Activation
		last           int
		outcomes, want string
	}{
		"B":        {start(func(*Activation) {}), Rows - 1, "ggggggbbbbhggg", "10 20 30 40 50 60 59 58 28 27 27 28 29 30"},
		"C":        {start(func(a *Activation) { a.Algorithm = AlgorithmC }), Rows - 1, many("g", 14) + "bbb" + many("g", 8), "1 2 2 4 4 8 8 16 16 32 32 64 64 128 127 126 96 97 98 99 99 198 198 396 396"},
		"limited":  {start(func(*Activation) {}), 25, "ggggb", "10 20 25 25 24"},
		"static":   {start(func(a *Activation) { a.Index = 7 }), Rows - 1, "gbg", "7 7 7"},
		"from row": {start(func(a *Activation) { a.Index, a.Start = 995, true }), Rows - 1, "ggg", "1000 1001 1002"},
	} {
		s, got := NewSearch(c.of, c.last), []string{}
		for _, o := range c.outcomes {
			got = append(got, fmt.Sprint(s.Next(outcome(o))))
		}
		must.Equal(t, strings.Join(got, " "), c.want, name)
	}
	a := Defaults()
	a.OneWay, a.IgnoreOrder = true, false
	s := NewSearch(a, Rows-1)
	must.Equal(t, s.Next(Status{RTTVariation: 1000, Delays: Delays{Sum: 20, Count: 2}}), 10, "one-way delay")
	must.Equal(t, s.Next(Status{Reordered: 6, Twice: 5, Delays: Delays{Sum: 20, Count: 2}}), 9, "order counts")
}

// TestRates compares the tables with the output of obudpst 9.0.0 (udpst -S), and the rate of
// each row with its number.
func TestRates(t *testing.T) {
	size := func(n uint32) string {
		if n&RandomSize != 0 {
			return fmt.Sprintf("%d-%d", MinLoad, n&^RandomSize)
		}
		return fmt.Sprint(n)
	}
	for _, c := range []struct {
		jumbo, traditional bool
		want               string // sha256 of the columns of udpst -S, separated by one blank
	}{
		{true, false, "8e82998d0af6af53384dfa09c3bc83f68db4f07884cd807b1b64de93bbf205c1"}, {false, false, "e0f192eea5bb20cc9337e7cb828ca591a799daa383ff8bbe926b8a3171486d9d"}, {true, true, "44aa4967d2be51e0ad3bed972148ed8d923e80b23739484cc5206278d0f31a48"}, {false, true, "9dbce25f65ab9dead20dbbbd932f3b23c4775fb2a4a64257d1d7c04fe732c38d"},
	} {
		var text strings.Builder
		for i := range Rows {
			r := Row(i, c.jumbo, c.traditional)
			fmt.Fprintln(&text, i, r.Interval1, size(r.Payload1), r.Burst1, r.Interval2, size(r.Payload2), r.Burst2, size(r.Addon2))
			must.True(t, r.Validate() == nil, "row %d: %v", i, r.Validate())
			if i > 0 && i <= HighSpeed {
				must.True(t, math.Abs(float64(r.IPRate())/1e6-float64(i)) < 1e-6, "row %d is %v", i, r.IPRate())
				must.Equal(t, RowOf(r.IPRate()+1, c.jumbo, c.traditional), i, "row of its rate")
			}
		}
		must.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(text.String()))), c.want, "jumbo", c.jumbo, "traditional", c.traditional)
	}
	for _, r := range []Rate{{Interval1: 99}, {Interval1: 2e6}, {Burst2: 101}, {Payload1: 51}, {Addon2: 8973}} {
		must.Is(t, r.Validate(), ErrPDU)
	}
}

func unhex(t testing.TB, s string) []byte { t.Helper(); return must.Get(hex.DecodeString(s))(t) }

func TestKeys(t *testing.T) {
	const at = 1764057600
	k := Derive("0123456789abcdef", Version, at)
	must.Equal(t, hex.EncodeToString(k.Client), "cb865250b0b6f1771f919bb0c2c7751f0c7b32e1ed72e39f51ec67881f7f46ec")
	must.Equal(t, hex.EncodeToString(k.Server), "8a0fd32868fe3a5096686b79aece09cc1d9905c8cd4b1657c0bac6974d82f22c")
	must.Equal(t, string(Derive("short", Oldest, at).Server), "short")
	pdu := Setup{Version: 20, Count: 1, Ident: 0x1234, Jumbo: true}.Append(nil)
	Sign(pdu, k.Client, 7, at)
	must.Equal(t, hex.EncodeToString(pdu[20:52]), "6e15fe69cfa0919dcf8e035471adee8de6a0cafe28441c47b1e94dd8f47afbe0")
	now := time.Unix(at, 0)
	must.OK(t, Verify(pdu, k.Client, now.Add(5*time.Second)))
	must.Is(t, Verify(pdu, k.Client, now.Add(6*time.Second)), ErrAuthTime)
	must.Is(t, Verify(pdu, k.Client, now.Add(-6*time.Second)), ErrAuthTime)
	must.Is(t, Verify(pdu, k.Server, now), ErrSignature)
	pdu[5]++
	must.Is(t, Verify(pdu, k.Client, now), ErrSignature)
	must.Is(t, Verify(Status{}.Append(nil, Version), k.Client, now), ErrSignature)
}

// draw fills v with random values.
func draw[T any](t *rapid.T, v T) T { return rapid.Make[T]().Draw(t, fmt.Sprintf("%T", v)) }

func TestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.SampledFrom([]uint16{Oldest, Version}).Draw(t, "version")
		s := draw(t, Setup{})
		s.Bandwidth &= 0x7fff
		must.Equal(t, must.Get(ParseSetup(s.Append(nil)))(t), s)
		a := draw(t, Activation{})
		a.Version = version
		for _, d := range []*time.Duration{&a.Low, &a.Upper, &a.Trial, &a.Period, &a.Length} {
			*d = time.Duration(rapid.IntRange(0, 65).Draw(t, "s")) * time.Second
		}
		if version < Version {
			a.Mode, a.Time, a.Key = 0, 0, 0
		}
		b := a.Append(nil)
		gotA, err := ParseActivation(b, version)
		must.True(t, err == nil && gotA == a && len(b) == ActivationLength(version), "%+v, %v\nwant %+v", gotA, err, a)
		l := draw(t, Load{})
		l.Action %= 3
		head := make([]byte, LoadLength)
		l.Put(head)
		must.Equal(t, must.Get(ParseLoad(head))(t), l)
		f := draw(t, Status{})
		if f.Action %= 3; version < Version {
			f.Mode = 0
		}
		b = f.Append(nil, version)
		gotF, err := ParseStatus(b, version)
		must.True(t, err == nil && gotF == f && len(b) == StatusLength(version), "%+v, %v\nwant %+v", gotF, err, f)
	})
}

// TestLayouts: fields of the same PDU in both versions.
func TestLayouts(t *testing.T) {
	s := Status{Rate: Rate{Addon2: 1}, Saved: SubInterval{Datagrams: 2, Bytes: 3, Elapsed: 4}, Lost: 5, Sent: Stamp{6, 7}}
	for version, at := range map[uint16][]int{Version: {35, 43, 51, 95, 99, 155, 159}, Oldest: {35, 43, 55, 99, 107, 163, 167}} {
		b := s.Append(nil, version)
		for i, n := range at {
			must.Equal(t, b[n], byte(i+1), fmt.Sprintf("version %d, byte %d", version, n))
		}
	}
	a := Defaults()
	a.Version = Oldest
	must.Equal(t, a.Append(nil)[14], byte(1), "seconds of a sub-interval")
	null := AppendNull(nil, Version, 1)
	must.Equal(t, hex.EncodeToString(null[:8]), "dead001401000001")
	must.True(t, IsNull(null) && !IsNull(null[1:]), "a Null PDU")
}

func TestChecksum(t *testing.T) {
	// RFC 1071 section 3.
	must.Equal(t, checksum(unhex(t, "0001f203f4f5f6f7")), ^uint16(0xddf2))
	b := Setup{Version: 20}.Append(nil)
	be.PutUint16(b[54:], checksum(b))
	must.OK(t, must.Err(ParseSetup(b)))
	b[7]++
	must.Is(t, must.Err(ParseSetup(b)), ErrPDU)
}

// TestPoliced: values out of bounds become the defaults, and the server's limits win.
func TestPoliced(t *testing.T) {
	want := Defaults()
	must.Equal(t, want.Policed(time.Hour, Rows-1), want)
	must.Equal(t, Activation{Version: Version, Index: 2000, Algorithm: 9, Mark: 3, Random: true, ErrorLimit: 10, IgnoreOrder: true}.Policed(time.Hour, 5), want)
	want.Length, want.Period, want.Index = 6*time.Second, 6*time.Second, 5
	a := Defaults()
	a.Length, a.Period, a.Index = time.Hour, 10*time.Second, 900
	must.Equal(t, a.Policed(6*time.Second, 5), want)
}

// TestReceiver counts a flow with lost, late and duplicate datagrams.
func TestReceiver(t *testing.T) {
	began := time.Unix(1000, 0)
	r := NewReceiver(Defaults(), began)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	load := func(sequence uint32, sent, came time.Duration, echo Stamp) {
		r.Take(Load{Sequence: sequence, Payload: 100, Sent: StampOf(at(sent)), Status: echo, Delay: 2}, at(came))
	}
	must.True(t, !r.Begun(), "it has begun")
	load(1, 0, 20*ms, Stamp{})
	load(2, 1*ms, 24*ms, Stamp{})
	first := r.Status(at(50 * ms))
	must.Equal(t, first.Delays, Delays{3, 3, 3, 1})
	must.True(t, first.Sequence == 1 && first.SubIntervals == 0 && first.Datagrams == 2 && first.Bytes == 200 && first.Micros == 50_000 &&
		first.ClockDelta == 20 && first.RTTMin == None && first.RTTVariation == None && first.Renewed, "%+v", first)
	load(5, 60*ms, 80*ms, first.Sent)  // 3 and 4 are missing; there and back 30 ms less 2
	load(4, 59*ms, 81*ms, first.Sent)  // late
	load(5, 60*ms, 82*ms, first.Sent)  // twice
	load(6, 61*ms, 100*ms, first.Sent) // its round trip is known
	second := r.Status(at(100 * ms))
	must.True(t, second.Lost == 1 && second.Reordered == 1 && second.Twice == 1 && second.Datagrams == 4 && second.RTTMin == 28 && second.RTTVariation == 0, "%+v", second)
	load(7, 190*ms, 210*ms, second.Sent)
	must.Equal(t, r.Status(at(300*ms)).RTTVariation, uint32(80), "round trip of 108 ms")
	over := r.Status(at(1050 * ms))
	must.Equal(t, over.SubIntervals, uint32(1))
	must.Equal(t, over.Saved, SubInterval{
		Datagrams: 5, Bytes: 500, Micros: 1_000_000, Lost: 1, Reordered: 1, Twice: 1, Delays: Delays{0, 19, 19, 3}, RTTMax: 80, Elapsed: 1000,
	})
}

// FuzzPDUs: no input makes a parser panic, and what it accepts it writes unchanged.
func FuzzPDUs(f *testing.F) {
	f.Add(Setup{Version: 20, Count: 1}.Append(nil))
	f.Add(Defaults().Append(nil))
	f.Add(Status{}.Append(nil, Version))
	f.Add(Status{}.Append(nil, Oldest))
	f.Add(AppendNull(nil, Version, 1))
	f.Add([]byte{0xBE, 0xEF})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1 {
			_ = Verify(b, nil, time.Time{})
		}
		if s, err := ParseSetup(b); err == nil {
			must.Equal(t, must.Get(ParseSetup(s.Append(nil)))(t), s)
		}
		r := NewReceiver(Defaults(), time.Unix(0, 0))
		if l, err := ParseLoad(b); err == nil {
			r.Take(l, time.Unix(1, 0))
			r.Take(l, time.Unix(2, 0))
			r.Status(time.Unix(3, 0))
		}
		for _, version := range []uint16{Oldest, Version} {
			if a, err := ParseActivation(b, version); err == nil {
				a.Version = version
				a = a.Policed(time.Minute, 100)
				again, err := ParseActivation(a.Append(nil), version)
				must.True(t, err == nil && (version < Version || again == a), "%+v, %v\nwant %+v", again, err, a)
			}
			if s, err := ParseStatus(b, version); err == nil {
				must.Equal(t, must.Get(ParseStatus(s.Append(nil, version), version))(t), s)
				row := NewSearch(Defaults(), 100).Next(s)
				must.True(t, row >= 0 && row <= 100, "row %d", row)
			}
		}
	})
}

// TestRecorded parses conversations of obudpst with itself, 9.0.0 downstream and 8.2.0
// upstream, at row 3 with key 7. Each PDU except the status is written again unchanged.
func TestRecorded(t *testing.T) {
	for version, file := range map[uint16]string{Version: "testdata/obudpst-v20.txt", Oldest: "testdata/obudpst-v11.txt"} {
		var keys Keys
		seen := map[string]int{}
		for line := range strings.Lines(string(must.Get(os.ReadFile(file))(t))) {
			who, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			pdu := unhex(t, text)
			id := be.Uint16(pdu)
			seen[fmt.Sprintf("%s %x", who, id)]++
			var again []byte
			signed := version == Version
			switch id {
			case setupID:
				s := must.Get(ParseSetup(pdu))(t)
				if !s.Answer {
					keys, signed = Derive("secondkey", version, s.Time), true
				}
				must.True(t, s.Answer == (who == "server") && s.Version == version && s.Key == 7 && s.Jumbo && s.Count == 1 && (s.Response == Accepted) == s.Answer, "%+v", s)
				again = s.Append(nil)
			case activationID:
				a := must.Get(ParseActivation(pdu, version))(t)
				want := Defaults()
				want.Version, want.Index, want.Length, want.Upstream = version, 3, 5*time.Second, version < Version
				must.Equal(t, Activation{
					Version: a.Version, Index: a.Index, Length: a.Length, Upstream: a.Upstream, Low: a.Low, Upper: a.Upper, Trial: a.Trial,
					Delta: a.Delta, SlowLimit: a.SlowLimit, ErrorLimit: a.ErrorLimit, IgnoreOrder: a.IgnoreOrder, Period: a.Period,
				}, want, who)
				must.True(t, who != "server" || a.Response == ActivationOK && (a.Rate == Row(3, true, false)) == a.Upstream, "%+v", a)
				again = a.Append(nil)
			case nullID:
				must.True(t, IsNull(pdu), "a Null PDU")
				again = AppendNull(nil, version, 1)
			case loadID:
				l := must.Get(ParseLoad(pdu))(t)
				again, signed = make([]byte, LoadLength), false
				l.Put(again)
			case statusID:
				s := must.Get(ParseStatus(pdu, version))(t)
				if rate := 8 * (float64(s.Saved.Bytes) + 28*float64(s.Saved.Datagrams)) / float64(s.Saved.Micros); s.SubIntervals == 1 {
					must.True(t, rate > 1 && rate < 3.1 && s.Saved.Lost == 0, "%v Mbit/s: %+v", rate, s.Saved) // obudpst does not make up for pauses
				}
				must.Equal(t, must.Get(ParseStatus(s.Append(nil, version), version))(t), s)
				again, signed = pdu, false // reserved bytes hold leftovers of its memory
			}
			if signed {
				at := place(pdu)
				key := keys.Client
				if who == "server" {
					key = keys.Server
				}
				unix := be.Uint32(pdu[at+1:])
				must.OK(t, Verify(pdu, key, time.Unix(int64(unix), 0)), who, id)
				Sign(again, key, 7, unix)
			} else if version < Version && id == setupID { // the response has the digest of the request
				copy(again[20:52], pdu[20:52])
			}
			must.Equal(t, hex.EncodeToString(again), text, who)
		}
		must.True(t, len(seen) >= 6, "%v", seen)
	}
}
