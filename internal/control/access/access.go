// Package access knows who may use a server: named keys, each with a right.
//
// The keys are in one file below the server's state directory. Each change replaces the
// whole file, so it is always complete. A running server rereads it within a second ([Ring]).
//
// A key is 32 random bytes, the secret of a join link. The file holds only its SHA-256:
// a secret this long cannot be guessed, so a plain hash gives nothing away and reading the
// file does not let anyone in. The exception is the key "default" that the first start
// makes: its secret stays readable for its owner ([Store.Default]), who may ask for its
// link again.
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Right is what a key allows. Each right includes the ones before it.
type Right string

// The rights.
const (
	Measure Right = "measure" // to measure, and to read what measuring needs
	Tune    Right = "tune"    // also to change settings of the host
)

// valid reports whether a key file may hold r.
func (r Right) valid() bool {
	return r == Measure || r == Tune
}

// ParseRight parses a right as the user writes it.
func ParseRight(s string) (Right, error) {
	switch r := Right(s); r {
	case Measure, Tune:
		return r, nil
	}
	return "", fmt.Errorf("%q is no right: it is %s or %s", s, Measure, Tune)
}

// DefaultName is the name of the key that the first start of a server makes.
const DefaultName = "default"

// SecretBytes is the length of a secret.
const SecretBytes = 32

// State is the state of a key.
type State string

// The states.
const (
	Valid   State = "valid"
	Expired State = "expired" // past its expiry
	Revoked State = "revoked" // revoked by hand
)

// Key is a named key, without its secret.
type Key struct {
	Name    string    `json:"name"`
	Right   Right     `json:"right"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"` // zero: not revoked
	Hash    Hash      `json:"sha256"`           // of the secret
	// Shown reports that the secret is also in a file of its own; see Store.Default.
	Shown bool `json:"shown,omitempty"`
}

// State returns the state of k at a time.
func (k Key) State(now time.Time) State {
	switch {
	case !k.Revoked.IsZero():
		return Revoked
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return Expired
	}
	return Valid
}

// Hash is the SHA-256 of a secret, written in hexadecimal.
type Hash [sha256.Size]byte

// HashOf returns the hash of a secret.
func HashOf(secret []byte) Hash { return sha256.Sum256(secret) }

// MarshalText returns h in hexadecimal.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads what MarshalText wrote.
func (h *Hash) UnmarshalText(b []byte) error {
	if n, err := hex.Decode(h[:], b[:min(len(b), 2*len(h))]); err != nil || n != len(h) || len(b) != 2*len(h) {
		return errors.New("not a SHA-256")
	}
	return nil
}

// Errors that this package wraps.
var (
	// ErrName reports an invalid key name.
	ErrName = errors.New("not a name of a key")
	// ErrExists reports that a valid key has that name.
	ErrExists = errors.New("there is a key of that name")
	// ErrUnknown reports that no valid key has that name.
	ErrUnknown = errors.New("there is no such key")
	// ErrDamaged reports that the key file cannot be parsed.
	ErrDamaged = errors.New("the file of the keys is damaged")
)

// longestName is the longest key name, in bytes.
const longestName = 32

// CheckName returns an error that wraps ErrName unless s is a key name: 1 to 32 letters,
// digits, "-", "_" and ".", starting with a letter or digit.
func CheckName(s string) error {
	fault := func(why string) error { return fmt.Errorf("%.40q is %w: %s", s, ErrName, why) }
	if s == "" {
		return fault("it is empty")
	}
	if len(s) > longestName {
		return fault(fmt.Sprintf("it has more than %d characters", longestName))
	}
	for i, r := range s {
		alone := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !alone && (i == 0 || r != '-' && r != '_' && r != '.') {
			return fault("it has letters, digits, - _ and . and begins with a letter or digit")
		}
	}
	return nil
}

// newSecret returns a new random secret.
func newSecret() ([]byte, error) {
	b := make([]byte, SecretBytes)
	_, err := rand.Read(b)
	return b, err
}
