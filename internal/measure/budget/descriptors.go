package budget

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
	// Strangers is for connections to the server's own port that have not shown
	// what they are, Friends for those of them that come from where a session comes
	// from. Either is at least 1.
	Strangers, Friends int
	// Listener is for such connections to each listener of another protocol.
	Listener int
}

// What a server with descriptors enough has of each; own is what the process
// needs itself: its ports, logs, keys and metrics, and the files that it reads for a
// moment.
const (
	wholeStrangers = 1024
	wholeFriends   = 512
	wholeListener  = 896
	wholeOwn       = 64
)

// Divide divides so many descriptors of a server that has so many listeners of
// other protocols beside its own port. Sessions get what the others leave, and half
// at least.
func Divide(descriptors, listeners int) Division {
	whole := wholeStrangers + wholeFriends + listeners*wholeListener
	if d := descriptors - whole - wholeOwn; d >= descriptors/2 {
		return Division{Sessions: d, Strangers: wholeStrangers, Friends: wholeFriends, Listener: wholeListener}
	}
	d := Division{Sessions: descriptors / 2}
	rest := descriptors - d.Sessions - min(wholeOwn, descriptors/3)
	part := func(n int) int { return max(1, rest*n/whole) }
	d.Strangers, d.Friends, d.Listener = part(wholeStrangers), part(wholeFriends), part(wholeListener)
	return d
}
