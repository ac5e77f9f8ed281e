package filecopy

import (
	"fmt"
	"io/fs"
	"sync"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/rescue"
)

// limit says why size bytes may not be moved here, or nil.
func (m *maker) limit(size int64) error {
	if m.most > 0 && units.Bytes(size) > m.most {
		return fmt.Errorf("%s are more than the %s that this end allows: %w", units.Bytes(size), m.most, fs.ErrPermission)
	}
	return nil
}

// most is the tighter of two limits of which 0 is none.
func most(a, b units.Bytes) units.Bytes {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// take takes the room for size bytes of the share that this end gives, until the
// store is closed.
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

// inMemory reports whether what is stored at p is in memory.
func (p place) inMemory() bool { return p.anonymous || p.volume.Memory }

// modest makes a size that nobody asked for fit what this end gives, where copies
// stores of it are needed at a time.
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

// aheadBytes is how much memory of a sink is made ready before its bytes arrive,
// and aheadStep is asked for at a time. Pages that are there are not made while
// the clock runs; but who offers much and sends nothing shall not get more.
const (
	aheadBytes = 32 << 20
	aheadStep  = 8 << 20
)

// ahead makes the memory of a sink ready, some of it before what arrives.
type ahead struct {
	mem    []byte
	asked  int64 // of what arrives; the rest is of the goroutine
	want   chan int64
	making sync.WaitGroup
}

// makeAhead makes the first part of mem ready and begins to wait for arrivals.
func makeAhead(mem []byte) *ahead {
	a := &ahead{mem: mem, asked: min(aheadBytes, int64(len(mem))), want: make(chan int64, 1)}
	populate(mem[:a.asked])
	done := a.asked
	// What is not made ready here is made by the kernel.
	a.making.Go(rescue.From(func(error) {}, func() {
		for to := range a.want {
			populate(a.mem[done:to])
			done = to
		}
	}))
	return a
}

// arrived says how much has. It never blocks: what is not made ready in time is
// made by the kernel when its bytes come.
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

// end waits until nothing is made ready any more.
func (a *ahead) end() {
	if a != nil {
		close(a.want)
		a.making.Wait()
	}
}

// Room returns what is free for copies on this host: memory that programs may
// still take, and disk where files are made by default; the ledger of an engine
// with this stateDir would hold them.
func Room(stateDir string) (memory, disk fact.Of[units.Bytes]) {
	memory = availableMemory()
	p, err := New(stateDir, Options{}).findDisk(0)
	if err != nil {
		return memory, fact.Unknown[units.Bytes](err.Error())
	}
	return memory, fact.Known(max(0, p.volume.Free-diskReserve), p.folder)
}
