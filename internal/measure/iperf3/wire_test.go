package iperf3

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
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

// cookie312 was sent by 3.12 (section 11).
const cookie312 = `77747062 636b7069 71766568 6b787063 71663573 72716961 67667636 72616275 63643665 00`

func TestCookie(t *testing.T) {
	b := wire(t, cookie312)
	r := bytes.NewReader(append(bytes.Clone(b), ParamExchange.Byte()))
	c, err := ReadCookie(iotest.OneByteReader(r))
	must.True(t, err == nil && c.Validate() == nil && c.String() == "wtpbckpiqvehkxpcqf5srqiagfv6rabucd6e" && r.Len() == 1, "%q, %v, %v, %d bytes left", c, err, c.Validate(), r.Len())
	for n := range b {
		_, err := ReadCookie(bytes.NewReader(b[:n]))
		must.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF), "cut to %d bytes: %v", n, err)
	}
	for i := range c {
		other := c
		other[i]++
		must.True(t, !c.Equal(other), "cookies that differ at %d are equal", i)
	}
	old := Cookie([]byte("host.example.1719000000.123456.0a1b2c\x00")[:CookieLen])
	if old[CookieLen-1] = 0; old.Validate() != nil {
		t.Errorf("cookie of 3.1: %v", old.Validate())
	}
	c[CookieLen-1] = 'x'
	must.True(t, c.Validate() != nil, "a cookie without NUL is valid")
	must.Fail(t, (Cookie{}).Validate(), "no cookie is valid")
}

func TestNewCookie(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := must.Get(NewCookie(bytes.NewReader(rapid.SliceOfN(rapid.Byte(), 36, 36).Draw(t, "random"))))(t)
		must.Need(t, c.Validate() == nil && len(c.String()) == 36 && strings.Trim(c.String(), cookieAlphabet) == "", "%q", c)
	})
	must.Is(t, must.Err(NewCookie(bytes.NewReader(make([]byte, 35)))), io.ErrUnexpectedEOF, "35 random bytes")
}

func TestStates(t *testing.T) {
	for word, want := range map[string]struct {
		s    State
		name string
	}{
		"01": {TestStart, "TEST_START"}, "02": {TestRunning, "TEST_RUNNING"},
		"04": {TestEnd, "TEST_END"}, "09": {ParamExchange, "PARAM_EXCHANGE"},
		"0a": {CreateStreams, "CREATE_STREAMS"}, "0b": {ServerTerminate, "SERVER_TERMINATE"},
		"0c": {ClientTerminate, "CLIENT_TERMINATE"}, "0d": {ExchangeResults, "EXCHANGE_RESULTS"},
		"0e": {DisplayResults, "DISPLAY_RESULTS"}, "10": {Done, "IPERF_DONE"},
		"ff": {AccessDenied, "ACCESS_DENIED"}, "fe": {ServerFailed, "SERVER_ERROR"},
		"03": {3, "state 3"}, "80": {-128, "state -128"},
	} {
		b := wire(t, word)
		s, err := ReadState(bytes.NewReader(b))
		must.True(t, err == nil && s == want.s && s.String() == want.name && s.Known() == (want.name[0] != 's') && s.Byte() == b[0], "%s: %v, known %v, %v", word, s, s.Known(), err)
	}
	must.Is(t, must.Err(ReadState(strings.NewReader(""))), io.EOF, "closed")
}

// TestGlued: states and messages that arrive in one piece are separated (section 3): the
// results, then 0e.
func TestGlued(t *testing.T) {
	r := bytes.NewReader(append(must.Get(AppendFrame([]byte{0x0a, 1, 2}, []byte("{}")))(t), 0x0e))
	for _, want := range []State{CreateStreams, TestStart, TestRunning} {
		must.Equal(t, must.Get(ReadState(r))(t), want)
	}
	body, err := ReadFrame(r, MaxResults)
	must.True(t, string(body) == "{}" && err == nil, "%q, %v", body, err)
	must.Equal(t, must.Get(ReadState(r))(t), DisplayResults)
}

func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 2, frameStep - 1, frameStep, frameStep + 1, 3*frameStep + 7}).Draw(t, "size")
		body := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, size)
		b := must.Get(AppendFrame(nil, body))(t)
		r := bytes.NewReader(append(b, 'x'))
		if got, err := ReadFrame(iotest.HalfReader(r), size); err != nil || !bytes.Equal(got, body) || r.Len() != 1 {
			t.Fatalf("%d of %d bytes, %v, %d left", len(got), size, err, r.Len())
		}
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		_, err := ReadFrame(bytes.NewReader(b[:cut]), size)
		must.Need(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF), "cut to %d bytes: %v", cut, err)
	})
}

// TestFrameLimit: a length costs nothing, neither one above the limit, nor one below it whose
// bytes never arrive.
func TestFrameLimit(t *testing.T) {
	for _, head := range []string{"00002001", "7fffffff", "ffffffff"} {
		r := bytes.NewReader(append(wire(t, head), make([]byte, 100)...))
		_, err := ReadFrame(r, MaxParams)
		must.True(t, errors.Is(err, ErrTooLong) && r.Len() == 100, "%s: %v, %d bytes left", head, err, r.Len())
	}
	must.Is(t, must.Err(ReadFrame(bytes.NewReader(wire(t, "00000001")), -1)), ErrTooLong, "negative limit")
	lie := wire(t, "007fffff 7b")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 16
	for range times {
		must.Is(t, must.Err(ReadFrame(bytes.NewReader(lie), MaxResults)), io.ErrUnexpectedEOF, "a cut message")
	}
	runtime.ReadMemStats(&after)
	each := (after.TotalAlloc - before.TotalAlloc) / times
	must.True(t, each <= 4*frameStep, "8 MiB announced and 1 byte sent took %d bytes of memory", each)
}

func TestStreams(t *testing.T) {
	ids := func(d Direction, parallel int, sender Party) []int {
		var all []int
		for _, s := range Streams(d, parallel) {
			if s.Sender == sender {
				all = append(all, s.ID)
			}
		}
		return all
	}
	for name, c := range map[string]struct{ got, want []int }{
		"forward":                  {ids(Forward, 4, Client), []int{1, 3, 4, 5}},
		"forward, server":          {ids(Forward, 4, Server), nil},
		"reverse":                  {ids(Reverse, 2, Server), []int{1, 3}},
		"bidirectional, sending":   {ids(Bidirectional, 2, Client), []int{1, 3}},
		"bidirectional, receiving": {ids(Bidirectional, 2, Server), []int{4, 5}},
	} {
		must.True(t, slices.Equal(c.got, c.want), "%s: %v, want %v", name, c.got, c.want)
	}
	must.Equal(t, len(Streams(Bidirectional, math.MaxInt)), MaxStreams, "streams")
	must.Equal(t, len(Streams(Forward, -1)), 0, "streams of -1")
}

// TestServerErrors checks the answers of section 11.
func TestServerErrors(t *testing.T) {
	for name, c := range map[string]struct {
		wire string
		want ServerError
		text string
	}{
		"parameters too long": {"fe 00000072 00000005", ServerError{CodeReceiveParams, 5, true}, "parameters could not be received (code 114, errno 5 there)"},
		"window too large":    {"fe 0000008d 00000000", ServerError{CodeBufferTooSmall, 0, true}, "socket buffer smaller than asked (code 141)"},
		"client interrupted":  {"fe 00000077 00000000", ServerError{CodeClientTerminated, 0, true}, "the client was stopped (code 119)"},
		"token refused":       {"fe 0000008e", ServerError{CodeAuthentication, 0, false}, "authentication refused (code 142)"},
		"noise after the end": {"fe 000000cd 00000000", ServerError{CodeStreamWrite, 0, true}, "stream could not be written (code 205)"},
		"unknown":             {"fe ffffffff 00000000", ServerError{-1, 0, true}, "error -1 (code -1)"},
	} {
		b := wire(t, c.wire)
		r := bytes.NewReader(b)
		must.Equal(t, must.Get(ReadState(r))(t), ServerFailed, "%s", name)
		got, err := ReadServerError(r)
		if err != nil || *got != c.want || got.Error() != "iperf3 server: "+c.text {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		again := got.Append(nil)
		must.True(t, bytes.Equal(again, b), "%s: written %x", name, again)
	}
	for n := range 8 {
		e, err := ReadServerError(bytes.NewReader(make([]byte, n)))
		must.True(t, (err == nil) == (n >= 4) && (err != nil || !e.HasErrno), "%d bytes: %v, %v", n, e, err)
	}
}

func TestGreetings(t *testing.T) {
	must.Equal(t, hex.EncodeToString(Hello())+hex.EncodeToString(Reply()), "3938373636373839", "hello and reply")
	for word, want := range map[string][2]bool{
		"39383736": {true, false}, "15cd5b07": {true, false},
		"36373839": {false, true}, "b168de3a": {false, true},
		"00000000": {false, false}, "393837": {false, false}, "3938373600": {false, false},
	} {
		b := wire(t, word)
		must.Equal(t, [2]bool{IsHello(b), IsReply(b)}, want, "%s: hello and reply", word)
	}
}

func TestDatagramHeader(t *testing.T) {
	b := wire(t, "000008a4 00006943 00000001")
	must.Equal(t, must.Get(ParseDatagramHeader(b, false))(t), DatagramHeader{Seconds: 2212, Microseconds: 26947, Sequence: 1})
	wide := wire(t, "000008a4 00006943 00000001 00000002")
	got, err := ParseDatagramHeader(wide, true)
	must.True(t, err == nil && got.Sequence == 1<<32+2, "64 bits: %+v, %v", got, err)
	for _, counters64 := range []bool{false, true} {
		for n := range DatagramHeaderLen(counters64) {
			must.Fail(t, must.Err(ParseDatagramHeader(wide[:n], counters64)), "header in %d bytes", n)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		h := DatagramHeader{rapid.Uint32().Draw(t, "s"), rapid.Uint32().Draw(t, "us"), rapid.Uint64().Draw(t, "sequence")}
		counters64 := rapid.Bool().Draw(t, "wide")
		b := make([]byte, DatagramHeaderLen(counters64))
		h.Put(b, counters64)
		if !counters64 {
			h.Sequence &= math.MaxUint32
		}
		must.Equal(t, must.Get(ParseDatagramHeader(b, counters64))(t), h)
	})
}

func TestTally(t *testing.T) {
	for name, c := range map[string]struct {
		sequence []uint64
		want     Tally
	}{
		"in order":              {[]uint64{1, 2, 3}, Tally{Highest: 3, Received: 3}},
		"one lost":              {[]uint64{1, 3}, Tally{Highest: 3, Received: 2, Errors: 1}},
		"late, not lost":        {[]uint64{1, 3, 2}, Tally{Highest: 3, Received: 3, OutOfOrder: 1}},
		"duplicate hides":       {[]uint64{1, 3, 3}, Tally{Highest: 3, Received: 3, OutOfOrder: 1}},
		"duplicate, none lost":  {[]uint64{1, 1}, Tally{Highest: 1, Received: 2, OutOfOrder: 1}},
		"second hello as data":  {[]uint64{987654321}, Tally{Highest: 987654321, Received: 1, Errors: 987654320}},
		"start lost":            {[]uint64{5}, Tally{Highest: 5, Received: 1, Errors: 4}},
		"sequence of zero late": {[]uint64{0}, Tally{Received: 1, OutOfOrder: 1}},
	} {
		var got Tally
		for i, n := range c.sequence {
			got.Add(DatagramHeader{Seconds: uint32(i), Sequence: n}, float64(i)+436040)
		}
		// A constant clock offset is not jitter, however large it is.
		c.want.transit = 436040
		must.True(t, got == c.want, "%s: %+v, want %+v", name, got, c.want)
	}
	var j Tally
	j.Add(DatagramHeader{Sequence: 1}, 0.5)
	j.Add(DatagramHeader{Sequence: 2}, 0.516)
	want := 0.016 / 16
	must.True(t, !(math.Abs(j.Jitter-want) > 1e-12), "jitter %v, want %v", j.Jitter, want)
}

func TestPlaintext(t *testing.T) {
	c := Credentials{User: "mario", Password: "rossi", Time: time.Unix(1719000000, 0)}
	const want = "user: mario\npwd:  rossi\nts:   1719000000"
	got := must.Get(c.plaintext())(t)
	must.True(t, string(got) == want, "%q", got)
	must.Equal(t, must.Get(parsePlaintext([]byte(want)))(t), c)
	for _, bad := range []string{"", "user: a b\npwd:  c\nts:   1", "user: a\npwd:  c\nts:   x", "pwd: a\nuser: b\nts: 1"} {
		must.Is(t, must.Err(parsePlaintext([]byte(bad))), ErrRefused, "%q", bad)
	}
	for _, bad := range []Credentials{{User: "a b", Password: "c"}, {User: "a", Password: "c\nts: 1"}, {User: "a"}} {
		must.Fail(t, must.Err(bad.plaintext()), "%+v: taken", bad)
	}
}

func TestToken(t *testing.T) {
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	c := Credentials{User: "mario", Password: "rossi", Time: time.Unix(1719000000, 0)}
	for padding, other := range map[Padding]Padding{OAEP: PKCS1v15, PKCS1v15: OAEP} {
		token := must.Get(c.Token(&key.PublicKey, padding))(t)
		must.Need(t, len(token) == 344 && !strings.ContainsAny(token, "\r\n"), "token of %d characters", len(token))
		must.Equal(t, must.Get(OpenToken(key, token, padding))(t), c, "padding %d", padding)
		// A wrong padding can by chance decode as PKCS#1 v1.5, but never to valid words.
		must.Is(t, must.Err(OpenToken(key, token, other)), ErrRefused, "padding %d read as %d", padding, other)
	}
	for name, token := range map[string]string{"empty": "", "no base64": "*", "short": "AAAA", "long": strings.Repeat("A", maxToken+4)} {
		must.Is(t, must.Err(OpenToken(key, token, OAEP)), ErrRefused, "%s", name)
	}
}

func TestUsers(t *testing.T) {
	// printf '{mario}rossi' | sha256sum
	const hash = "bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b"
	users := must.Get(ParseUsers(strings.NewReader("# name,hash\n\nmario," + hash + "\n")))(t)
	must.Need(t, len(users) == 1 && users["mario"] == hash && PasswordHash("mario", "rossi") == hash, "%v", users)
	now := time.Unix(1719000000, 0)
	good := Credentials{User: "mario", Password: "rossi", Time: now}
	for _, d := range []time.Duration{0, DefaultClockSkew, -DefaultClockSkew} {
		must.OK(t, good.Check(users, now.Add(d), DefaultClockSkew), "clock off by %v", d)
	}
	for name, c := range map[string]Credentials{
		"late": {"mario", "rossi", now.Add(-11 * time.Second)}, "early": {"mario", "rossi", now.Add(11 * time.Second)},
		"far away": {"mario", "rossi", time.Unix(1<<62, 0)}, "password": {"mario", "verdi", now}, "user": {"luigi", "rossi", now},
	} {
		must.Is(t, c.Check(users, now, DefaultClockSkew), ErrRefused, "%s", name)
	}
	for name, file := range map[string]string{"no hash": "mario", "short": "mario,00", "no name": "," + hash} {
		must.Fail(t, must.Err(ParseUsers(strings.NewReader(file))), "%s: taken", name)
	}
	must.Is(t, must.Err(ParseUsers(strings.NewReader(strings.Repeat("# comment\n", 1+maxUsersFile/10)))), ErrTooLong, "large file")
}
