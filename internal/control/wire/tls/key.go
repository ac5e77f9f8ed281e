package tls

import (
	"crypto/subtle"
	"fmt"

	"linerate/internal/control/session"
)

// DefaultKey is the name of the key whose secret is the identity's own.
const DefaultKey = "default"

// Key is what a secret stands for. The zero value is an anonymous client.
type Key struct {
	Name string // "" for an anonymous client
	// Tune says that the key's holder may change settings, where the server does.
	Tune bool
	// Over, where given, is closed when the key is valid no longer: its sessions
	// end then.
	Over <-chan struct{}
}

// Anonymous reports whether nobody vouches for who has this key.
func (k Key) Anonymous() bool { return k.Name == "" }

// isOver reports whether the key is valid no longer.
func (k Key) isOver() bool {
	select {
	case <-k.Over: // a nil channel never is
		return true
	default:
		return false
	}
}

// Find looks a secret up. It compares in constant time, and takes equally long
// for every secret that it does not know. It is safe for concurrent use.
type Find func(secret []byte) (Key, bool)

// only knows one secret, as the default key.
func only(want []byte) Find {
	return func(secret []byte) (Key, bool) {
		if subtle.ConstantTimeCompare(secret, want) != 1 {
			return Key{}, false
		}
		return Key{Name: DefaultKey}, true
	}
}

// known says who has shown a secret, and whether that one may have a session here.
// It remembers no failure, so that what somebody without a right secret did before
// never counts against a right one. The error wraps session.ErrRefused.
func (s *Server) known(secret []byte) (Key, error) {
	k, right := s.find(secret)
	switch {
	case right, s.config.Open && len(secret) == 0:
		return k, nil
	case s.config.Open: // a revoked key does not continue as an anonymous client
		return Key{}, fmt.Errorf("%w: the secret is wrong, or its key was revoked: this server lets clients without a key measure, by the name of its host alone", session.ErrRefused)
	case len(secret) == 0:
		return Key{}, fmt.Errorf("%w: this server wants the secret of its join link: use the whole link that linerate serve prints there", session.ErrRefused)
	}
	return Key{}, fmt.Errorf("%w: the secret is wrong: use the link that linerate serve prints there now", session.ErrRefused)
}
