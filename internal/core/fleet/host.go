package fleet

// Host is a host of a fleet, as its hub knows it.
type Host struct {
	ID      int64    `json:"id"`
	Name    string   `json:"name"`
	Pin     string   `json:"pin"` // of its public key
	Addrs   []string `json:"addrs"`
	Port    int      `json:"port"`
	Version string   `json:"version"`
	Session int      `json:"session"` // version of the session protocol
	Boot    string   `json:"boot"`    // random, of its last start
	Past    []string `json:"past"`    // earlier starts, the newest last
	Joined  int64    `json:"joined_s"`
	Seen    int64    `json:"seen_s"`
	Limits  Limits   `json:"limits"`
	Ahead   int64    `json:"ahead_s,omitempty"` // of its wall clock, against the hub's
	Waiting int      `json:"waiting,omitempty"` // results that it could not deliver yet
	Lost    int      `json:"lost,omitempty"`    // results that found no room on its disk
	Removed bool     `json:"-"`
	Drained int64    `json:"-"`              // it measures nothing before that time
	Twin    string   `json:"twin,omitempty"` // from where another host uses its key
}

// SilentAfter is after how many seconds without a word a host counts as silent.
const SilentAfter = 180

// Endless is Drained of a host that is to be resumed by hand.
const Endless = int64(1) << 40

// Measures reports whether a host may be planned for.
func (h *Host) Measures(now int64) bool {
	return !h.Removed && now-h.Seen < SilentAfter && now >= h.Drained
}
