package budget

import "time"

// Usage is what a budget has given at a moment.
type Usage struct {
	Kinds  []KindUsage // one for each kind, in their order
	Window time.Duration
	// Lifetime is that of anonymous clients' sessions; 0 is no limit.
	Lifetime time.Duration
	// Active is how many sources have sessions, Remembered how many are remembered
	// one by one; a source that comes with a key and without counts twice.
	Active, Remembered int
}

// KindUsage is how much of one kind is taken, or was spent within the window:
// numbers, bytes, bits per second or nanoseconds.
type KindUsage struct {
	Kind             Kind
	Anonymous, Keyed int64 // by class
	Limit            int64 // of both together; less than 0 where there is none
	AllAnonymous     int64 // the part of Limit that anonymous clients can take, likewise
	Source           int64 // what one anonymous client's address can take, likewise
	Refused          int64 // how often it was refused since the start
}

// Used is what both classes have.
func (u KindUsage) Used() int64 { return u.Anonymous + u.Keyed }

// Usage returns what is given now. That of a nil budget is the zero value.
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

// bound is n as reports have it.
func bound(n int64) int64 {
	if n == unlimited {
		return -1
	}
	return n
}

// MostDescriptors is the most that RaiseDescriptors asks for or returns: what a
// server could not use is not worth a table of the kernel's.
const MostDescriptors = 1 << 16

// RaiseDescriptors raises the soft limit of open files of this process to the
// hard one, RLIMIT_NOFILE of getrlimit(2), as far as MostDescriptors, and returns
// what it is then. A soft limit above that is left alone. Systems without such a
// limit return MostDescriptors. An error says why it could not be raised, beside
// what there is.
func RaiseDescriptors() (int, error) { return raiseDescriptors() }

// Division shares the descriptors of a server's process out, so that what one
// part takes is never missing in another: together they are no more than there are.
type Division struct {
	// Sessions is what the ledger gives to sessions and their runs.
	Sessions int
	// Unknown is for connections to the server's own port that have not shown
	// what they are, Friends for those of them that come from where a session comes
	// from. Either is at least 1.
	Unknown, Friends int
	// Listener is for such connections to each listener of another protocol.
	Listener int
}

// What a server with descriptors enough has of each; own is what the process
// needs itself: its ports, logs, keys and metrics, and the files that it reads for a
// moment.
const (
	wholeUnknown  = 1024
	wholeFriends  = 512
	wholeListener = 896
	wholeOwn      = 64
)

// Divide divides so many descriptors of a server that has so many listeners of
// other protocols beside its own port. Sessions get what the others leave, and half
// at least.
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
