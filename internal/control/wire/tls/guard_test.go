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

// One who has many sessions does not keep others with a right secret out, at
// another source or with another key.
func TestNewcomersFindASlot(t *testing.T) {
	g := newTestGuard(false, 8, 0, 0)
	steps := []struct {
		what string
		from int
		key  string
		want int // sessions until one is refused
	}{
		{"one key at one source", 0, "anna", 5},
		{"the same key at another source", 1, "anna", 1},
		{"another key at the first source", 0, "ben", 1},
		{"another key at another source", 2, "ben", 1},
		{"the ninth session of eight", 3, "ben", 0},
	}
	for _, s := range steps {
		got := 0
		var err error
		for ; err == nil && got < 20; got++ {
			_, _, err = g.admit(from(s.from), []byte(s.key))
		}
		if got--; got != s.want || !errors.Is(err, session.ErrBusy) {
			t.Errorf("%s: %d sessions, want %d: %v", s.what, got, s.want, err)
		}
	}
}

// A key that became known, used from ever so many sources, leaves a quarter of
// the sessions to the other keys; where there are less than four there is
// nothing to divide.
func TestOneKeyLeavesRoomForOthers(t *testing.T) {
	for sessions, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 5: 4, 8: 6, 64: 48} {
		g := newTestGuard(false, sessions, 0, 0)
		var in []func()
		for i := range 1000 {
			if _, release, err := g.admit(from(i), []byte("anna")); err == nil {
				in = append(in, release)
			} else if !errors.Is(err, session.ErrBusy) {
				t.Fatal(err)
			}
		}
		if len(in) != want {
			t.Errorf("%d sessions: one key got %d, want %d", sessions, len(in), want)
		}
		for i := range sessions - want {
			if _, _, err := g.admit(from(i), []byte("ben")); err != nil {
				t.Errorf("%d sessions: another key's session %d: %v", sessions, i+1, err)
			}
		}
		in[0]()
		if _, _, err := g.admit(from(2000), []byte("anna")); err != nil {
			t.Errorf("%d sessions: the key where one of its sessions went: %v", sessions, err)
		}
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
