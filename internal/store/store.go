// Package store holds what every result store shares: errors, references to sessions, and the
// items of a list. The stores themselves are its sub-packages; the interfaces belong to their
// callers.
//
// A session is named in full, or by a reference:
//
//	20261121T013209-x7k2   the whole ID
//	20261121T0132          the beginning of exactly one ID
//	last, -1               the newest session that is no look of a watch; -2 the one before
package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// Schema is the version of the tables that this linerate creates and reads.
const Schema = 1

// Errors of every store, for errors.Is. Missing rights wrap fs.ErrPermission, a session or run
// that exists already fs.ErrExist.
var (
	// ErrNotFound reports that no session or run matches.
	ErrNotFound = fault.Cause(fault.Store, "not found")
	// ErrRunning reports that another process is measuring the session.
	ErrRunning = errors.New("another linerate is measuring it")
	// ErrFull reports that the disk under the store is full. Stored data is intact.
	ErrFull = fault.Cause(fault.Store, "no space left")
	// ErrNewer reports that a newer linerate wrote the store.
	ErrNewer = fault.Cause(fault.Store, "written by a newer linerate")
	// ErrForeign reports that the file or database holds something else.
	ErrForeign = fault.Cause(fault.Store, "not a store of linerate")
)

// AmbiguousError reports a reference that matches more than one session.
type AmbiguousError struct {
	Ref string   // as given
	IDs []string // all matches, newest first
}

// shownCandidates limits how many sessions an AmbiguousError names.
const shownCandidates = 5

// Error names the first candidates and counts the rest.
func (e *AmbiguousError) Error() string {
	shown, rest := e.IDs, ""
	if len(shown) > shownCandidates {
		rest = fmt.Sprintf(" and %d more", len(shown)-shownCandidates)
		shown = shown[:shownCandidates]
	}
	return fmt.Sprintf("%q fits %d sessions: %s%s", e.Ref, len(e.IDs), strings.Join(shown, ", "), rest)
}

// Filter selects sessions for a list. The zero value of a field selects all.
type Filter struct {
	Kind  model.Kind         // of this kind only
	State model.SessionState // in this state only
	Far   string             // with exactly this far target only
	Host  string             // with this text in the near or the far target only
	Since time.Time          // created at this time or later
	Text  string             // with this text in the ID, title, note, targets or reason only, ignoring case
	Limit int                // at most this many, the newest; 0 is all
	// NoLooks leaves out the looks of a watch, which are many.
	NoLooks bool
}

// Recent reports whether ref selects a session by age, and which: 1 is the newest ("last",
// "-1"), 2 the one before ("-2"). The looks of a watch do not count: they are made while people
// are away.
func Recent(ref string) (n int, ok bool) {
	if ref == "last" {
		return 1, true
	}
	digits, found := strings.CutPrefix(ref, "-")
	if !found {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 1
}
