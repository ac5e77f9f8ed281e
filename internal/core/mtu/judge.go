package mtu

import "fmt"

// Transfer is what a transfer over TCP says of the same way.
type Transfer struct {
	Tried, OK bool
	Segment   int // bytes of payload of its segments; 0 is unknown
	Remembers int // the path MTU that the sender's kernel goes by, bytes; 0 is unknown
	Small     int // where it failed, the largest segment that arrived when smaller ones were asked for; 0 for none
}

// Trouble is a kind of trouble with the size of packets (diagnosis.md section 6.1).
type Trouble int

// The kinds of trouble.
const (
	NotSeen    Trouble = iota // neither probes nor transfers say anything
	Fine                      // what the sender may send arrives
	BlackHole                 // M2, M3, M4: larger packets are lost and nobody says so
	Unequal                   // M1: the receiver's interface takes less
	Short                     // M5: some bytes short, as of a tag or a header that somebody counted
	Small                     // a router on the way takes less, and says so
	Remembered                // M8: the sender goes by a smaller path MTU than the path has
)

// Judge says what is the matter with the size of packets on a way, from probes where
// known says that there are any, and from a transfer. The text is a sentence without
// a full stop, "" where nothing is known.
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
	case w.Told:
		return Small, w.short() + ": " + w.Who() + " says so, and TCP copes"
	case w.unequal():
		return Unequal, fmt.Sprintf("an MTU mismatch: %s has %d and %s has %d; TCP copes, and larger datagrams are lost silently", w.From, w.Asked, w.To, w.ToMTU)
	case w.Exact && t.OK && (w.Asked-w.Passes == vlanTag || w.Asked-w.Passes == header):
		return Short, fmt.Sprintf("%d bytes short of %d, as by %s", w.Asked-w.Passes, w.Asked, map[int]string{
			vlanTag: "a VLAN tag that something on the way does not allow for", header: "an Ethernet header that was counted in"}[w.Asked-w.Passes])
	}
	return BlackHole, w.short() + ", and no router says so (a black hole)"
}

// Who is the router that said that packets are too big, with the MTU that it told.
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

// short says by how much a way is too small.
func (w Way) short() string { return fmt.Sprintf("packets of %d bytes do not pass", w.Asked) }
