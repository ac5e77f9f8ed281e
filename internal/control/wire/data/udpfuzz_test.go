package data

import (
	"bytes"
	"testing"

	"linerate/internal/must"
)

// FuzzGreetings: whatever comes as a greeting is read as what was written, or is
// none, and an answer to it is no longer than itself.
func FuzzGreetings(f *testing.F) {
	var token Token
	good := greet(token, 7, newNonce())
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(append(bytes.Clone(good), 0))
	f.Add([]byte("lr-udp-1 with a token of 32 bytes and without a nonce, which is too short"))
	f.Add(append([]byte(answering), good[8:]...)) // an answer is no greeting
	f.Add(append(append(bytes.Clone(good[:42]), 1, 0), good[44:]...))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, index, n, ok := readGreeting(b)
		if !ok {
			return
		}
		copy(token[:], got)
		again := greet(token, index, n)
		must.True(t, bytes.Equal(again, b), "%x reads as %x", b, again)
		a := answer(token, index, n, newNonce())
		must.True(t, len(a) <= len(b), "an answer of %d bytes to %d", len(a), len(b))
	})
}

// FuzzAnswers: nobody without the token makes an answer, and none is read that
// answers another greeting.
func FuzzAnswers(f *testing.F) {
	token, mine := Token{1, 2, 3}, nonce{4, 5, 6}
	good := answer(token, 3, mine, nonce{7})
	for _, b := range [][]byte{
		good, good[1:], append(bytes.Clone(good), 0), answer(token, 4, mine, nonce{7}), answer(token, 3, nonce{}, nonce{7}),
		answer(Token{}, 3, mine, nonce{7}), greet(token, 3, mine), bytes.Repeat([]byte{0xff}, answerSize),
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		theirs, ok := readAnswer(b, token, 3, mine)
		must.True(t, !ok || bytes.Equal(b, answer(token, 3, mine, theirs)), "%x is taken for an answer", b)
	})
}

// FuzzRendezvous: what an end says over the rendezvous is the nonces of exactly
// so many sockets, or an error; it never reads further than that.
func FuzzRendezvous(f *testing.F) {
	f.Add(agreed([]nonce{{1}, {2}}), byte(2))
	f.Add(agreed([]nonce{{1}}), byte(2))
	f.Add(agreed(nil), byte(0))
	f.Add([]byte{refusing, 9, '1', '9', '2', '.', '0', '.', '2', '.', '1'}, byte(1))
	f.Add([]byte{refusing, 255, 'x'}, byte(1))
	f.Add([]byte{refusing, 7, 'f', 'e', '8', '0', ':', ':', 0x1b}, byte(1))
	f.Add([]byte{0x00}, byte(1))
	f.Fuzz(func(t *testing.T, b []byte, n byte) {
		r := bytes.NewReader(b)
		said, err := hear(r, int(n))
		must.True(t, err != nil || len(said) == int(n)*nonceBytes && b[0] == accepted && r.Len() == len(b)-1-len(said),
			"%x for %d sockets: %x", b, n, said)
		if err == nil {
			sent := make([]nonce, n)
			for i := range sent {
				copy(sent[i][:], said[i*nonceBytes:])
			}
			must.True(t, prove(said, sent) == nil && (n <= 0 || prove(said[1:], sent) != nil), "%x proves itself wrongly", said)
		}
	})
}
