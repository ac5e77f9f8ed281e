package budget

import "time"

// Usage is what a budget has given out at one moment.
type Usage struct {
	Kinds  []KindUsage // one for each kind, in their order
	Window time.Duration
	// Lifetime is the limit of anonymous sessions; 0 is no limit.
	Lifetime time.Duration
	// Active is how many sources have sessions, Remembered how many are remembered one by one.
	// A source counts twice if it comes both with a key and without.
	Active, Remembered int
}

// KindUsage is how much of one kind is held, or was spent within the window: numbers, bytes,
// bits per second or nanoseconds.
type KindUsage struct {
	Kind             Kind
	Anonymous, Keyed int64 // by class
	Limit            int64 // of both together; less than 0 if there is none
	AllAnonymous     int64 // the part of Limit that anonymous clients can take, likewise
	Source           int64 // what one anonymous source can take, likewise
	Refused          int64 // refusals since the start
}

// Used returns the sum of both classes.
func (u KindUsage) Used() int64 { return u.Anonymous + u.Keyed }

// Usage returns the current usage. For a nil budget it is the zero value.
func (b *Budget) Usage() Usage {
	if b == nil {
		return Usage{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u := Usage{Window: b.window, Lifetime: b.config.Anonymous.Lifetime, Active: len(b.known) - b.idle.Len(), Remembered: len(b.known)}
	now := b.slot()
	for k := range kinds {
		row := KindUsage{Kind: k, Limit: bound(b.server[k]), AllAnonymous: bound(b.anonymous[k]), Source: bound(b.source[Anonymous][k]), Refused: b.refused[k]}
		if k < held {
			row.Anonymous, row.Keyed = b.used[Anonymous].held[k], b.used[Keyed].held[k]
		} else {
			row.Anonymous, row.Keyed = b.used[Anonymous].spent[k-held].at(now).sum, b.used[Keyed].spent[k-held].at(now).sum
		}
		u.Kinds = append(u.Kinds, row)
	}
	return u
}

// bound returns n as reports show it.
func bound(n int64) int64 {
	if n == unlimited {
		return -1
	}
	return n
}

// MostDescriptors is the most that RaiseDescriptors requests or returns. A larger kernel table
// would cost memory and not help a server.
const MostDescriptors = 1 << 16

// RaiseDescriptors raises this process's soft limit of open files to the hard one,
// RLIMIT_NOFILE of getrlimit(2), at most to MostDescriptors, and returns the result. It leaves
// a higher soft limit alone. Systems without such a limit return MostDescriptors. If the limit
// cannot be raised, it returns the current one and an error.
func RaiseDescriptors() (int, error) { return raiseDescriptors() }

// Division shares out the descriptors of a server's process, so that no part takes those of
// another: their sum is at most what the process has.
type Division struct {
	// Sessions is for the ledger: sessions and their runs.
	Sessions int
	// Unknown is for connections to the server's own port that have not sent a request yet,
	// Friends for those of them from a source that has a session. Either is at least 1.
	Unknown, Friends int
	// Listener is for such connections to each listener of another protocol.
	Listener int
}

// The division of a server with enough descriptors. own is for the process itself: its ports,
// logs, keys and metrics, and files that it opens briefly.
const (
	wholeUnknown  = 1024
	wholeFriends  = 512
	wholeListener = 896
	wholeOwn      = 64
)

// Divide divides the descriptors of a server with so many listeners of other protocols beside
// its own port. Sessions get what the others leave, and at least half.
func Divide(descriptors, listeners int) Division {
	whole := wholeUnknown + wholeFriends + listeners*wholeListener
	if d := descriptors - whole - wholeOwn; d >= descriptors/2 {
		return Division{Sessions: d, Unknown: wholeUnknown, Friends: wholeFriends, Listener: wholeListener}
	}
	d := Division{Sessions: descriptors / 2}
	rest := descriptors - d.Sessions - min(wholeOwn, descriptors/3)
	part := func(n int) int { return max(1, rest*n/whole) }
	d.Unknown, d.Friends, d.Listener = part(wholeUnknown), part(wholeFriends), part(wholeListener)
	return d
}
