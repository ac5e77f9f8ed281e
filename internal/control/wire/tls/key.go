package tls

import (
	"crypto/subtle"
	"fmt"

	"linerate/internal/control/session"
	"linerate/internal/core/units"
)

// DefaultKey is the name of the key whose secret is the identity's own.
const DefaultKey = "default"

// Key is the key that a secret belongs to. The zero value is an anonymous client.
type Key struct {
	Name string // "" for an anonymous client
	// Tune reports whether the key's holder may change settings, if the server does that.
	Tune bool
	// Rate is the most TCP that a run of the key's holder may carry in each direction; 0 is no
	// limit. UDP may have as much, or its default rate if that is more.
	Rate units.BitRate
	// Over, if not nil, is closed when the key stops being valid, which ends its sessions.
	Over <-chan struct{}
	// Refusal says why a secret is not accepted, to a client that has proved where it got it from;
	// "" if it has not.
	Refusal string
}

// Anonymous reports whether the key was accepted without proof of identity.
func (k Key) Anonymous() bool { return k.Name == "" }

// isOver reports whether the key has stopped being valid.
func (k Key) isOver() bool {
	select {
	case <-k.Over: // never for a nil channel
		return true
	default:
		return false
	}
}

// Find looks up a secret. It compares in constant time, and takes equally long for every
// unknown secret. It is safe for concurrent use.
type Find func(secret []byte) (Key, bool)

// only returns a Find that knows one secret, as the default key.
func only(want []byte) Find {
	return func(secret []byte) (Key, bool) {
		if subtle.ConstantTimeCompare(secret, want) != 1 {
			return Key{}, false
		}
		return Key{Name: DefaultKey}, true
	}
}

// known returns the key of a secret, or an error if that may not have a session here. It
// remembers no failures, so that wrong guesses never count against a right secret. The error
// wraps session.ErrRefused.
func (s *Server) known(secret []byte) (Key, error) {
	k, right := s.find(secret)
	switch {
	case right, s.config.Open && len(secret) == 0:
		return k, nil
	case k.Refusal != "":
		return Key{}, fmt.Errorf("%w: %s", session.ErrRefused, k.Refusal)
	case s.config.Open: // a revoked key does not continue as an anonymous client
		return Key{}, fmt.Errorf("%w: the secret is wrong, or its key was revoked: this server lets clients without a key measure, by the name of its host alone", session.ErrRefused)
	case len(secret) == 0:
		return Key{}, fmt.Errorf("%w: this server wants the secret of its join link: use the whole link that linerate serve prints there", session.ErrRefused)
	}
	return Key{}, fmt.Errorf("%w: the secret is wrong: use the link that linerate serve prints there now", session.ErrRefused)
}
