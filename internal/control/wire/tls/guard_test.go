package tls

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"linerate/internal/control/session"
)

func newTestGuard(open bool, keyed, strange, perSource int) *guard {
	find := func(secret []byte) (Key, bool) {
		for _, name := range []string{"anna", "ben"} {
			if bytes.Equal(secret, []byte(name)) {
				return Key{Name: name}, true
			}
		}
		return Key{}, false
	}
	return &guard{find: find, open: open, keyed: keyed, strange: strange, perSource: perSource, sessions: map[holder]int{}, total: map[bool]int{}}
}

func from(i int) netip.Prefix {
	return source(netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, byte(i >> 16), byte(i >> 8), byte(i), 1, 15: 1}))
}

// Whatever was tried before, from the same source or from ever so many others,
// a right secret enters.
func TestRightSecretIsNeverLockedOut(t *testing.T) {
	g := newTestGuard(false, 64, 0, 0)
	for range 1000 {
		if _, _, err := g.admit(from(0), []byte("wrong")); !errors.Is(err, session.ErrRefused) {
			t.Fatal(err)
		}
	}
	for i := range 10_000 {
		if _, _, err := g.admit(from(i), []byte("wrong")); !errors.Is(err, session.ErrRefused) {
			t.Fatal(err)
		}
	}
	for _, at := range []int{0, 1, 20_000} {
		if k, _, err := g.admit(from(at), []byte("anna")); err != nil || k.Name != "anna" {
			t.Errorf("from %v: %+v, %v", from(at), k, err)
		}
	}
	if len(g.sessions) != 3 {
		t.Errorf("%d sources are remembered", len(g.sessions))
	}
}

// One who has many sessions does not keep others with a right secret out.
func TestNewcomersFindASlot(t *testing.T) {
	g := newTestGuard(false, 8, 0, 0)
	for i := range 6 {
		if _, _, err := g.admit(from(0), []byte("anna")); err != nil {
			t.Fatalf("session %d: %v", i+1, err)
		}
	}
	if _, _, err := g.admit(from(0), []byte("anna")); !errors.Is(err, session.ErrBusy) {
		t.Errorf("seventh session of one key at one source: %v", err)
	}
	for what, enter := range map[string]func() error{
		"another source": func() error { _, _, err := g.admit(from(1), []byte("anna")); return err },
		"another key":    func() error { _, _, err := g.admit(from(0), []byte("ben")); return err },
	} {
		if err := enter(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, err := g.admit(from(2), []byte("ben")); !errors.Is(err, session.ErrBusy) {
		t.Errorf("ninth session of eight: %v", err)
	}
}

// Strangers take only what is theirs.
func TestStrangersLeaveRoomForKeys(t *testing.T) {
	g := newTestGuard(true, 2, 4, 2)
	var in []func()
	for i := range 4 {
		k, release, err := g.admit(from(i/2), []byte(fmt.Sprint("no key ", i)))
		if err != nil || !k.Stranger() {
			t.Fatalf("stranger %d: %+v, %v", i, k, err)
		}
		in = append(in, release)
	}
	if _, _, err := g.admit(from(7), nil); !errors.Is(err, session.ErrBusy) {
		t.Errorf("fifth stranger of four: %v", err)
	}
	if k, _, err := g.admit(from(0), []byte("anna")); err != nil || k.Stranger() {
		t.Errorf("a key beside them: %+v, %v", k, err)
	}
	in[0]()
	in[0]() // once is enough
	if _, _, err := g.admit(from(1), nil); !errors.Is(err, session.ErrBusy) {
		t.Errorf("third stranger of one source: %v", err)
	}
	if _, _, err := g.admit(from(7), nil); err != nil {
		t.Errorf("a stranger where one went: %v", err)
	}
}
