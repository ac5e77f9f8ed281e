package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Right is what a key of a hub allows. None includes another one.
type Right string

// The rights.
const (
	Joins    Right = "join"    // to become a host of the fleet
	Views    Right = "view"    // to see what its hosts measured
	Operates Right = "operate" // to say which hosts measure and when, to invite and to remove them, and to view
)

// Key is a key of a hub without its secret, which is in a link.
type Key struct {
	Hash    string // of the secret; see HashOf
	Right   Right
	Expires int64 // Endless for never
	Left    int64 // hosts that may still join with it; Endless for any number, 0 for a revoked key
}

// ErrKey reports a key that lets no more hosts join.
var ErrKey = errors.New("the link is used up, has expired, or was revoked")

// Valid reports whether k opens something.
func (k Key) Valid(now int64) bool { return now < k.Expires && k.Left > 0 }

// HashOf returns the SHA-256 of a secret of 32 random bytes in hexadecimal, which does not help to
// guess it.
func HashOf(secret []byte) string {
	sum := sha256.Sum256(secret)
	return hex.EncodeToString(sum[:])
}

// Mark is how far a hub has read its store: leases up to the one with number Lease of change Epoch,
// and all else up to change Rest.
type Mark struct{ Epoch, Lease, Rest int64 }

// News is what was stored after a Mark, in the order of the changes.
type News struct {
	To     Mark
	More   bool // there is more already
	Hosts  []Host
	Halves []Half
	Leases []Lease
	Keys   []Key
	Setup  *Setup // nil if it is as before
	Alerts []Alert
}
