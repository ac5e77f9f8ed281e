package budget

import (
	"container/list"
	"hash/maphash"
	"net/netip"
)

// who is counted as one.
type who struct {
	from  netip.Prefix
	class Class
	key   string // "" for anonymous clients
}

// entry is a source that is remembered by itself.
type entry struct {
	who
	account
	sessions int
	resting  *list.Element // its place in idle; nil while it has sessions
}

// enter returns the entry of a source that is about to have a session more, or
// nil when there is no room for one. leave undoes that.
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

// leave takes a session off e, which is forgotten when nothing of it counts any
// more, and may be forgotten when others need its place.
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

// forget makes room for a source. What the forgotten one has spent goes into the
// sketch.
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

// recall gives e what the sketch has of it.
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

// The sketch remembers what forgotten sources have spent, as a count-min sketch
// does (Cormode and Muthukrishnan 2005), with the largest instead of the sum of
// those that share a cell: the least of its rows is never less than the truth,
// and more only for a source that shares a cell with a larger one in every row.
// Where the cells lie nobody can know who does not know the seeds.
const (
	rows  = 4
	cells = 1024
)

type sketch [rows][cells][spent]window

func (b *Budget) cell(row int, w who) *[spent]window {
	return &b.older[row][maphash.Comparable(b.seeds[row], w)%cells]
}
