package filecopy

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
)

// maker creates the stores of one run.
type maker struct {
	engine *Engine
	copy   files.Params
	bytes  int64 // requested; 0 chooses a size
	buf    []byte
	halted func() bool
	share  *budget.Share // of this end's memory and disk
	most   units.Bytes   // most that may be moved; 0 is no limit
}

// source finds the place to read from, and the size.
func (m *maker) source(name string) (place, int64, error) {
	p, err := m.engine.find(name, m.need(), false)
	if err != nil {
		return place{}, 0, fmt.Errorf("source: %w", err)
	}
	size, err := m.size(p)
	if err != nil {
		return place{}, 0, fmt.Errorf("source: %w", err)
	}
	return p, size, nil
}

// openSource creates the source, filled and dropped from the page cache.
func (m *maker) openSource(p place, size int64) (*store, error) {
	if p.path != "" {
		return m.existing(p, size)
	}
	s, err := m.make(p, size)
	if err != nil {
		return nil, fmt.Errorf("make source, %s: %w", p.where(), err)
	}
	if err = s.fill(m.engine.files.Add(1), m.buf, m.halted); err == nil {
		err = s.settle()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make source, %s: %w", p.where(), err), s.close())
	}
	s.chill()
	return s, nil
}

// need returns how much has to fit.
func (m *maker) need() int64 {
	if m.bytes == 0 {
		return int64(leastDefault) * defaultShare
	}
	return m.bytes
}

// size returns how much to copy from p.
func (m *maker) size(p place) (int64, error) {
	size := m.bytes
	switch {
	case p.path != "" && size == 0:
		size = p.bytes
	case p.path != "" && size > p.bytes:
		return 0, fmt.Errorf("%s has %d bytes where %d were asked for", p.path, p.bytes, size)
	case size == 0:
		var err error
		if size, err = m.suggest(p); err != nil {
			return 0, err
		}
	}
	if err := m.limit(size); err != nil {
		return 0, err
	}
	if p.path != "" {
		return size, nil
	}
	return size, p.fits(size)
}

// existing opens a user's file read-only.
func (m *maker) existing(p place, size int64) (*store, error) {
	s := &store{size: size, where: p.where(), volume: p.volume}
	flags := os.O_RDONLY
	if s.direct = m.copy.Direct && !p.volume.Memory; s.direct {
		flags |= directFlag
	}
	f, err := os.OpenFile(p.path, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("source: %w", s.refused(err))
	}
	s.file = f
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() < size {
		return nil, errors.Join(fmt.Errorf("source: %s is not the file that it was just before", p.path), err, s.close())
	}
	if s.direct {
		if err := past(f); err != nil {
			return nil, errors.Join(fmt.Errorf("source: %w", err), s.close())
		}
	}
	s.chill()
	return s, nil
}

// sink creates the empty target.
func (m *maker) sink(name string, size int64) (*store, error) {
	p, err := m.engine.find(name, size, true)
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	if err := errors.Join(m.limit(size), p.fits(size)); err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	s, err := m.make(p, size)
	if err != nil {
		return nil, fmt.Errorf("make sink, %s: %w", p.where(), err)
	}
	if s.onDisk() && s.direct {
		s.note("past the page cache")
	}
	return s, nil
}

// sinkSize returns how much an end that only writes writes.
func (m *maker) sinkSize(name string) (int64, error) {
	p, err := m.engine.find(name, m.need(), true)
	if err != nil {
		return 0, fmt.Errorf("sink: %w", err)
	}
	if m.bytes != 0 {
		return m.bytes, nil
	}
	return m.suggest(p)
}

// suggest returns the default size of a copy.
func (m *maker) suggest(p place) (int64, error) {
	size, err := p.suggest()
	if err != nil {
		return 0, err
	}
	return m.modest(size, p.inMemory(), 1)
}

// make creates the store at a place: a file of linerate's, or a new file at the user's path.
func (m *maker) make(p place, size int64) (*store, error) {
	if p.anonymous {
		s, err := m.memory(size, false)
		if err == nil {
			s.warned = append(s.warned, p.warning)
		}
		return s, err
	}
	give, err := m.take(p.inMemory(), size)
	if err != nil {
		return nil, err
	}
	s := &store{give: give, size: size, where: p.where(), volume: p.volume}
	flags := 0
	if s.direct = m.copy.Direct && !p.volume.Memory; s.direct {
		flags = directFlag
	} else if m.copy.Direct {
		s.note("in memory, where no cache is in between")
	}
	if p.path != "" {
		s.claim, err = register(m.engine.stateDir, p.path, true, flags)
	} else {
		s.claim, err = makeFile(m.engine.stateDir, p.folder, flags)
	}
	if err != nil {
		give()
		return nil, s.refused(err)
	}
	s.file = s.claim.File
	if s.direct {
		if err := past(s.file); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// refused explains why a file could not be opened with Direct.
func (s *store) refused(err error) error {
	if s.direct && errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("%s has no files past the page cache: %w (%w)", s.volume, err, errors.ErrUnsupported)
	}
	return err
}

// plain allocates a store of size bytes in process memory.
func (m *maker) plain(size int64, filled bool) (*store, error) {
	if err := m.limit(size); err != nil {
		return nil, err
	}
	s, err := m.memory(size, filled)
	if err != nil || !filled {
		return s, err
	}
	if err := s.fill(m.engine.files.Add(1), nil, m.halted); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// memory allocates a store in process memory. If this end has a share, the pages are populated
// as data arrives, unless the store is filled here.
func (m *maker) memory(size int64, filled bool) (*store, error) {
	give, err := m.take(true, size)
	if err != nil {
		return nil, err
	}
	s, err := inMemory(size, filled || m.share == nil, m.halted)
	if err != nil {
		give()
		return nil, err
	}
	s.give = give
	return s, nil
}

// plainSize returns the size of a store in process memory.
func (m *maker) plainSize() (int64, error) {
	if m.bytes != 0 {
		return m.bytes, nil
	}
	free := availableMemory().Or(2*defaultShare*DefaultBytes + memoryReserve)
	size := min(DefaultBytes, (free-memoryReserve)/(2*defaultShare))
	if size < leastDefault {
		return 0, fmt.Errorf("no room for %s in memory, of which %s are available", leastDefault, free)
	}
	return m.modest(int64(size), true, 2)
}
