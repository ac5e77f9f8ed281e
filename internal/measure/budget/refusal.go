package budget

import (
	"fmt"
	"time"

	"linerate/internal/core/units"
)

// Level names the party whose limit was reached.
type Level int

// The levels.
const (
	OfSession Level = iota
	OfSource
	OfAnonymous // of all anonymous clients together
	OfServer
	OfKey       // of one key, from every source
	OfNewcomers // of clients that have a session, in favour of those without
)

// Refusal is the error of a request that exceeds a limit. It wraps ErrSpent.
type Refusal struct {
	Kind  Kind
	Level Level
	Class Class // of the client
	// Need was requested, Used was held or spent before, Limit is the most: numbers, bytes,
	// bits per second or nanoseconds, depending on Kind.
	Need, Used, Limit int64
	// Yours is how many sessions of Used belong to the client, at OfNewcomers.
	Yours  int64
	Window time.Duration // for kinds that are spent
	Wait   time.Duration // until part of it is available again; 0 is unknown
}

// Unwrap returns ErrSpent.
func (*Refusal) Unwrap() error { return ErrSpent }

// Later reports whether the same request may succeed later.
func (r *Refusal) Later() bool {
	return r.Level != OfSession && r.Limit > 0 && r.Need <= r.Limit
}

// Error says what was requested, what the limit is, and what to do.
func (r *Refusal) Error() string {
	switch {
	case r.Kind >= held:
		return r.spentText()
	case r.Kind == Sessions:
		return r.sessionsText()
	case r.Later():
		return fmt.Sprintf("this needs %s, and of the %s that this server gives %s only %s is left: %s",
			r.amount(r.Need, true), r.amount(r.Limit, false), r.whom(), r.amount(r.Limit-r.Used, false), r.advice())
	case r.Level == OfSession && r.Used > 0 && r.Need <= r.Limit:
		return fmt.Sprintf("this needs %s, and this session has %s of the %s that this server gives to a session: ask for less",
			r.amount(r.Need, true), r.amount(r.Used, false), r.amount(r.Limit, false))
	}
	return fmt.Sprintf("this needs %s, this server gives %s to %s: ask for less", r.amount(r.Need, true), r.amount(r.Limit, false), r.whom())
}

func (r *Refusal) sessionsText() string {
	switch {
	case r.Limit == 0:
		return fmt.Sprintf("this server has no sessions for %s", r.Class)
	case r.Level == OfSource:
		return fmt.Sprintf("this server already has %d sessions from your address, its limit: close one of them", r.Used)
	case r.Level == OfKey:
		return fmt.Sprintf("this server already has %d sessions with your key, and keeps the rest for other keys: close one of them", r.Used)
	case r.Level == OfNewcomers:
		return fmt.Sprintf("this server already has %d sessions, %d of them yours, and keeps the rest for others: close one of yours", r.Used, r.Yours)
	case r.Level == OfAnonymous:
		return fmt.Sprintf("this server already has %d sessions without a key, its limit: try again later", r.Used)
	}
	return fmt.Sprintf("this server already has %d sessions, its limit: try again later", max(r.Used, r.Limit))
}

func (r *Refusal) spentText() string {
	gives := fmt.Sprintf("sends %s", r.amount(r.Limit, false))
	switch r.Kind {
	case Time:
		gives = fmt.Sprintf("measures for %s", r.amount(r.Limit, false))
	case Records:
		gives = fmt.Sprintf("keeps %d results", r.Limit)
	default:
	}
	if r.Level == OfSession {
		return fmt.Sprintf("this server %s in a session, and this one has had that: open another one", gives)
	}
	text := fmt.Sprintf("this server %s for %s within %s, and has", gives, r.whom(), units.FormatDuration(r.Window))
	if r.Wait > 0 {
		return text + ": try again in " + units.FormatDuration(r.Wait.Round(time.Second)+time.Second)
	}
	return text + ": try again later"
}

func (r *Refusal) whom() string {
	switch r.Level {
	case OfSession:
		return "a session"
	case OfSource:
		return "one address"
	case OfAnonymous:
		return "anonymous clients"
	case OfServer, OfKey, OfNewcomers:
	}
	return "all together"
}

func (r *Refusal) advice() string {
	if r.Level == OfSource {
		return "end another session of yours, or ask for less"
	}
	return "try again later, or ask for less"
}

// amount returns n with its unit, and the name of the kind if of is true.
func (r *Refusal) amount(n int64, of bool) string {
	var text, what string
	switch r.Kind {
	case Memory, Disk, Egress:
		text, what = units.Bytes(n).String(), " of "+r.Kind.String()
	case UDP:
		text, what = units.BitRate(n).String(), " of UDP"
	case Time:
		text = units.FormatDuration(time.Duration(n))
	case Sessions, Descriptors, Records, kinds:
		text, what = fmt.Sprint(n), " "+r.Kind.String()
	}
	if of {
		return text + what
	}
	return text
}
