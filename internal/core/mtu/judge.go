package mtu

import "fmt"

// Transfer is the result of a TCP transfer over the same path.
type Transfer struct {
	Tried, OK bool
	Segment   int // bytes of payload of its segments; 0 if unknown
	Remembers int // the path MTU that the sender's kernel uses, bytes; 0 if unknown
	Small     int // after a failure, the largest segment that arrived with a smaller MSS; 0 for none
}

// Trouble is a kind of problem with packet sizes (diagnosis.md section 6.1).
type Trouble int

// The kinds of trouble.
const (
	NotSeen    Trouble = iota // neither probes nor transfers give a result
	Fine                      // packets as large as the sender may send arrive
	BlackHole                 // M2, M3, M4: larger packets are lost without any error message
	Unequal                   // M1: the receiver's interface accepts less
	Short                     // M5: a few bytes short, as with an uncounted tag or header
	Small                     // a router on the path accepts less, and says so
	Remembered                // M8: the sender uses a smaller path MTU than the path has
)

// Judge classifies the packet size of a path, from probes if known, and from a transfer. The
// text is a sentence without a full stop, "" if nothing is known.
func Judge(w Way, known bool, t Transfer) (Trouble, string) {
	switch {
	case t.Tried && !t.OK && t.Small > 0:
		return BlackHole, fmt.Sprintf("segments of %d bytes arrive and full ones do not: larger packets are lost silently (a black hole)", t.Small)
	case (!known || w.Passes == 0) && t.OK:
		if t.Segment > 0 {
			return Fine, fmt.Sprintf("by TCP, whose segments of %d bytes arrive; probes are not answered", t.Segment)
		}
		return NotSeen, ""
	case !known || w.Passes == 0:
		return NotSeen, ""
	case w.Whole() && t.OK && t.Remembers > 0 && t.Remembers < w.Passes:
		return Remembered, fmt.Sprintf("the sender goes by a path MTU of %d, though %d pass", t.Remembers, w.Passes)
	case w.Whole():
		return Fine, "as large as the sender's interface sends"
	case w.Reported:
		return Small, w.short() + ": " + w.Who() + " says so, and TCP copes"
	case w.unequal():
		return Unequal, fmt.Sprintf("an MTU mismatch: %s has %d and %s has %d; TCP copes, and larger datagrams are lost silently", w.From, w.Asked, w.To, w.ToMTU)
	case w.Exact && t.OK && (w.Asked-w.Passes == vlanTag || w.Asked-w.Passes == header):
		return Short, fmt.Sprintf("%d bytes short of %d, as by %s", w.Asked-w.Passes, w.Asked, map[int]string{
			vlanTag: "a VLAN tag that something on the way does not allow for", header: "an Ethernet header that was counted in"}[w.Asked-w.Passes])
	}
	return BlackHole, w.short() + ", and no router says so (a black hole)"
}

// Who returns the router that reported packets as too big, with the MTU that it reported.
func (w Way) Who() string {
	who := "a router"
	if w.Router != "" {
		who = "router " + w.Router
	}
	if w.MTU > 0 {
		who += fmt.Sprintf(" (MTU %d)", w.MTU)
	}
	return who
}

// short says which size does not pass.
func (w Way) short() string { return fmt.Sprintf("packets of %d bytes do not pass", w.Asked) }
