package budget

import (
	"container/list"
	"hash/maphash"
	"net/netip"
)

// who identifies one party.
type who struct {
	from  netip.Prefix
	class Class
	key   string // "" for anonymous clients
}

// entry is a source that is remembered on its own.
type entry struct {
	who
	account
	sessions int
	resting  *list.Element // its place in idle; nil while it has sessions
}

// enter returns the entry of a source that opens a session, or nil if there is no room for one.
// leave undoes it.
func (b *Budget) enter(w who) *entry {
	e := b.known[w]
	if e == nil {
		if len(b.known) >= maxSources && !b.forget() {
			return nil
		}
		e = &entry{who: w}
		b.recall(e)
		b.known[w] = e
	} else if e.resting != nil {
		b.idle.Remove(e.resting)
		e.resting = nil
	}
	e.sessions++
	return e
}

// leave removes a session from e. An entry with nothing left to count is forgotten; the others
// may be forgotten to make room.
func (b *Budget) leave(e *entry) {
	if e.sessions--; e.sessions > 0 {
		return
	}
	if b.rests(e) {
		e.resting = b.idle.PushBack(e)
		return
	}
	delete(b.known, e.who)
}

// rests reports whether e has spent something within the window.
func (b *Budget) rests(e *entry) bool {
	now := b.slot()
	for i := range e.spent {
		if e.spent[i].at(now).sum > 0 {
			return true
		}
	}
	return false
}

// forget makes room for a source. It adds the forgotten source's spending to the sketch.
func (b *Budget) forget() bool {
	first := b.idle.Front()
	if first == nil {
		return false
	}
	e := b.idle.Remove(first).(*entry)
	delete(b.known, e.who)
	if b.rests(e) {
		if b.older == nil {
			b.older = &sketch{}
		}
		now := b.slot()
		for row := range b.seeds {
			c := b.cell(row, e.who)
			for i := range c {
				c[i].at(now).raise(e.spent[i].at(now))
			}
		}
	}
	return true
}

// recall loads e's spending from the sketch.
func (b *Budget) recall(e *entry) {
	now := b.slot()
	for i := range e.spent {
		e.spent[i].at(now)
	}
	if b.older == nil {
		return
	}
	for row := range b.seeds {
		c := b.cell(row, e.who)
		for i := range c {
			if c[i].at(now); row == 0 {
				e.spent[i] = c[i]
			} else {
				e.spent[i].lower(&c[i])
			}
		}
	}
}

// The sketch remembers the spending of forgotten sources, as a count-min sketch (Cormode and
// Muthukrishnan 2005), with the maximum instead of the sum of the sources that share a cell.
// The least of a source's rows is never below the truth, and above it only if the source shares
// a cell with a larger one in every row. Secret seeds keep the cells unpredictable.
const (
	rows  = 4
	cells = 1024
)

type sketch [rows][cells][spent]window

func (b *Budget) cell(row int, w who) *[spent]window {
	return &b.older[row][maphash.Comparable(b.seeds[row], w)%cells]
}
