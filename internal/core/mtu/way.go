package mtu

import "fmt"

// Way is the measured packet size limit from one host to another.
type Way struct {
	From, To string // names
	Asked    int    // bytes of the largest packet that was tried
	Passes   int    // bytes of the largest that arrived; 0: not even a small one
	Exact    bool   // one byte more was tried and lost
	Reported bool   // a router or host reported packets as too big
	Router   string // its address; "" if unknown
	MTU      int    // the MTU in that report; 0 for none
	ToMTU    int    // the MTU of the other host; 0 if unknown
}

// Whole reports whether packets of the requested size pass.
func (w Way) Whole() bool { return w.Passes >= w.Asked }

// String describes the result and the kind of trouble (diagnosis.md 6.1).
func (w Way) String() string {
	passes := fmt.Sprint(w.Passes)
	if !w.Exact && !w.Whole() {
		passes = "at least " + passes
	}
	found := fmt.Sprintf("the path from %s to %s passes packets of %s bytes, not %d", w.From, w.To, passes, w.Asked)
	switch {
	case w.Passes == 0:
		return fmt.Sprintf("%s does not answer %s any more, not even small packets", w.To, w.From)
	case w.Whole():
		return fmt.Sprintf("the path from %s to %s passes packets of %d bytes", w.From, w.To, w.Passes)
	case w.unequal() && !w.Reported:
		return fmt.Sprintf("%s: %s has an MTU of %d and drops larger packets silently", found, w.To, w.ToMTU)
	case w.Reported:
		who := "a router"
		if w.Router != "" {
			who = "router " + w.Router
		}
		if w.MTU > 0 {
			who += fmt.Sprintf(": MTU %d", w.MTU)
		}
		return fmt.Sprintf("%s, and says so (%s): TCP copes, but gains nothing by the larger MTU there, and larger datagrams are refused", found, who)
	}
	return found + ": something between them has a smaller MTU and drops larger packets silently (a black hole)"
}

// unequal reports whether the other host is known to accept less than was sent to it, and no
// probe shows that the path accepts still less. Its card may accept more than its MTU: a tag of
// IEEE 802.1Q, or all that fits its buffers.
func (w Way) unequal() bool {
	return w.ToMTU > 0 && w.ToMTU < w.Asked && (w.Passes >= w.ToMTU || !w.Exact)
}

// vlanTag is by how much an interface often exceeds its MTU, for a tag of IEEE 802.1Q.
const vlanTag = 4
