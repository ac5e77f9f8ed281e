package filecopy

import (
	"fmt"
	"io/fs"
	"sync"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/panics"
)

// limit returns an error if size bytes may not be moved at this end.
func (m *maker) limit(size int64) error {
	if m.most > 0 && units.Bytes(size) > m.most {
		return fmt.Errorf("%s are more than the %s that this end allows: %w", units.Bytes(size), m.most, fs.ErrPermission)
	}
	return nil
}

// most returns the tighter of two limits; 0 is no limit.
func most(a, b units.Bytes) units.Bytes {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// take reserves size bytes of this end's share, until the store is closed.
func (m *maker) take(memory bool, size int64) (give func(), err error) {
	room := (units.Bytes(size) + alignment - 1) / alignment * alignment
	if memory {
		give, err = m.share.Take(budget.Amounts{Memory: room})
	} else {
		give, err = m.share.Take(budget.Amounts{Disk: room})
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", err, fs.ErrPermission)
	}
	return give, err
}

// inMemory reports whether a store at p is in memory.
func (p place) inMemory() bool { return p.anonymous || p.volume.Memory }

// modest reduces a default size to this end's limits, for copies stores of that size at a time.
func (m *maker) modest(size int64, memory bool, copies int64) (int64, error) {
	l := m.share.Limits()
	room := l.Disk
	if memory {
		room = l.Memory
	}
	switch {
	case room < 0:
		size = 0
	case room > 0:
		size = min(size, int64(room)/2/copies)
	}
	size = min(size, int64(most(m.most, units.Bytes(size)))) &^ (1<<20 - 1)
	if units.Bytes(size) < leastDefault {
		return 0, fmt.Errorf("this end gives no room for %s: %w", leastDefault, fs.ErrPermission)
	}
	return size, nil
}

// aheadBytes is how much of a sink's memory is populated before its data arrives, aheadStep how
// much is requested at a time. Populated pages cost no time while the clock runs; but a peer
// that offers much and sends nothing gets no more than this.
const (
	aheadBytes = 32 << 20
	aheadStep  = 8 << 20
)

// ahead populates the memory of a sink, some of it ahead of the data.
type ahead struct {
	mem    []byte
	asked  int64 // of the receiver; the rest belongs to the goroutine
	want   chan int64
	making sync.WaitGroup
}

// makeAhead populates the first part of mem and waits for data.
func makeAhead(mem []byte) *ahead {
	a := &ahead{mem: mem, asked: min(aheadBytes, int64(len(mem))), want: make(chan int64, 1)}
	populate(mem[:a.asked])
	done := a.asked
	// The kernel populates the rest on first use.
	a.making.Go(panics.From(func(error) {}, func() {
		for to := range a.want {
			populate(a.mem[done:to])
			done = to
		}
	}))
	return a
}

// arrived records that at bytes have arrived. It never blocks: the kernel populates what is not
// ready in time when its data arrives.
func (a *ahead) arrived(at int64) {
	if a == nil {
		return
	}
	size := int64(len(a.mem))
	if a.asked == size || at+aheadBytes < min(size, a.asked+aheadStep) {
		return
	}
	to := min(size, at+aheadBytes)
	select {
	case a.want <- to:
		a.asked = to
	default:
	}
}

// end stops populating and waits for it.
func (a *ahead) end() {
	if a != nil {
		close(a.want)
		a.making.Wait()
	}
}

// Room returns the free space for copies on this host: memory that programs may still use, and
// disk where files are created by default. stateDir is the state folder of an engine.
func Room(stateDir string) (memory, disk fact.Of[units.Bytes]) {
	memory = availableMemory()
	p, err := New(stateDir, Options{}).findDisk(0)
	if err != nil {
		return memory, fact.Unknown[units.Bytes](err.Error())
	}
	return memory, fact.Known(max(0, p.volume.Free-diskReserve), p.folder)
}
