// Package store holds the words that every result store shares: what may go
// wrong, how sessions are picked, what a list of them shows. The stores
// themselves are its sub-packages; the interfaces belong to their callers.
//
// A session is named in full, or by a reference as people type it:
//
//	20261121T013209-x7k2   the whole ID
//	20261121T0132          the beginning of exactly one ID
//	last, -1               the newest session; -2 the one before
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

// Schema is the version of the tables that this linerate makes and reads.
const Schema = 1

// What may go wrong in every store. Errors wrap these, so that errors.Is tells
// them apart; missing rights wrap fs.ErrPermission, a session or run that is
// there already fs.ErrExist.
var (
	// ErrNotFound says that no session or run fits.
	ErrNotFound = fault.Cause(fault.Store, "not found")
	// ErrRunning says that another process measures the session at the moment.
	ErrRunning = errors.New("another linerate is measuring it")
	// ErrFull says that the disk under the store has no room left. What was
	// stored before is intact.
	ErrFull = fault.Cause(fault.Store, "no space left")
	// ErrNewer says that the store was written by a newer linerate.
	ErrNewer = fault.Cause(fault.Store, "written by a newer linerate")
	// ErrForeign says that the file or database holds something else.
	ErrForeign = fault.Cause(fault.Store, "not a store of linerate")
)

// AmbiguousError says that a reference fits more than one session.
type AmbiguousError struct {
	Ref string   // as given
	IDs []string // all that fit, newest first
}

// shownCandidates bounds how many sessions an AmbiguousError names.
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

// Filter picks sessions for a list. The zero value of a field picks all.
type Filter struct {
	Kind  model.Kind         // of this kind only
	State model.SessionState // in this state only
	Far   string             // with exactly this far target only
	Host  string             // with this text in the near or the far target only
	Since time.Time          // created at this time or later
	Text  string             // with this text in the ID, title, note, targets or reason only, whatever its case
	Limit int                // at most so many, the newest; 0 is all
}

// Recent reports whether ref asks for a session by age, and for which: 1 is
// the newest ("last", "-1"), 2 the one before ("-2").
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
