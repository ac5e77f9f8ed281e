// Package access knows who may use a server: named keys, each with a right.
//
// The keys are in one file below the state directory of a server, which is
// written anew as a whole for each change, so that it is always complete. A
// running server sees a change at its next look ([Ring]).
//
// A key is 32 random bytes, the secret of a join link. Only its SHA-256 is
// stored: a secret cannot be guessed, so a plain hash tells nothing of it, and who
// reads the file cannot come in with it. The one exception is the key "default"
// that the first start makes, whose secret stays readable for its owner
// ([Store.Default]), since its link may be asked for again.
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Right is what a key allows. Each right contains those before it.
type Right string

// The rights.
const (
	Measure Right = "measure" // to measure, and to read what measuring needs
	Tune    Right = "tune"    // also to change settings of the host
)

// ParseRight reads a right as its user writes it.
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

// State is how a key stands.
type State string

// The states.
const (
	Valid   State = "valid"
	Expired State = "expired" // its time is over
	Revoked State = "revoked" // taken back by hand
)

// Key is a named key, without its secret.
type Key struct {
	Name    string    `json:"name"`
	Right   Right     `json:"right"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"` // zero: not
	Hash    Hash      `json:"sha256"`           // of the secret
	// Shown says that the secret is in a file of its own too; see Store.Default.
	Shown bool `json:"shown,omitempty"`
}

// State is how k stands at a time.
func (k Key) State(now time.Time) State {
	switch {
	case !k.Revoked.IsZero():
		return Revoked
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return Expired
	}
	return Valid
}

// Hash is the SHA-256 of a secret. It is written in hexadecimal.
type Hash [sha256.Size]byte

// HashOf returns the hash of a secret.
func HashOf(secret []byte) Hash { return sha256.Sum256(secret) }

// MarshalText writes h.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads what MarshalText wrote.
func (h *Hash) UnmarshalText(b []byte) error {
	if n, err := hex.Decode(h[:], b[:min(len(b), 2*len(h))]); err != nil || n != len(h) || len(b) != 2*len(h) {
		return errors.New("not a SHA-256")
	}
	return nil
}

// What errors of this package may wrap.
var (
	// ErrName says that a name is none.
	ErrName = errors.New("not a name of a key")
	// ErrExists says that there is a valid key of that name.
	ErrExists = errors.New("there is a key of that name")
	// ErrUnknown says that there is no valid key of that name.
	ErrUnknown = errors.New("there is no such key")
	// ErrDamaged says that the file of the keys cannot be understood.
	ErrDamaged = errors.New("the file of the keys is damaged")
)

// longestName bounds a name, in bytes.
const longestName = 32

// CheckName returns an error that wraps ErrName unless s may name a key: letters,
// digits, "-", "_" and ".", at most 32, the first one a letter or digit.
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

// newSecret makes the secret of a key.
func newSecret() ([]byte, error) {
	b := make([]byte, SecretBytes)
	_, err := rand.Read(b)
	return b, err
}
