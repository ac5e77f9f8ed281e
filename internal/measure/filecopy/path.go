package filecopy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/units"
)

// PathOptions control how a mounted path is measured. The zero value of every field but
// StateDir works.
type PathOptions struct {
	StateDir string        // of the ledger; the same as an Engine's
	Sizes    []units.Bytes // of the files; DefaultBytes if empty
	Repeats  int           // how often each size is written and read; 0 is 3
	Block    units.Bytes   // bytes per write and read; 0 is 1 MiB, at most 64 MiB
	Direct   bool          // bypass the page cache; Block is then a multiple of 4096
	Seed     uint64        // of the order of the sizes in each repeat
}

// Operation is what was done to a file on a path.
type Operation string

// The operations.
const (
	WriteFile Operation = "write" // until the file is flushed and closed
	ReadFile  Operation = "read"  // from opening to the last byte
)

// PathTrial is one file written or read back.
type PathTrial struct {
	Operation Operation     `json:"operation"`
	Size      units.Bytes   `json:"size"`
	Repeat    int           `json:"repeat"`             // from 1
	Took      time.Duration `json:"took_ns"`            //
	Flush     time.Duration `json:"flush_ns,omitempty"` // part of Took that a write spends in fsync and close
	Rate      units.BitRate `json:"rate"`
	How       string        `json:"how"` // state of the page cache
}

// PathResult is the result for a mounted path.
type PathResult struct {
	Folder   string      `json:"folder"`
	Volume   Volume      `json:"volume"`
	Trials   []PathTrial `json:"trials"` // in the order of measurement
	Warnings []string    `json:"warnings,omitempty"`
}

// PathProgress is the progress of Path.
type PathProgress struct {
	Operation Operation
	Size      units.Bytes
	Repeat    int
	Moved     units.Bytes
	Elapsed   time.Duration
	Trial     *PathTrial // once it is complete
}

// pathRepeats is how often a size is measured by default.
const pathRepeats = 3

// progressEvery is the interval of Path's progress reports.
const progressEvery = 200 * time.Millisecond

// Validate reports every fault of o at once, joined.
func (o PathOptions) Validate() error {
	var faults []error
	for _, size := range o.Sizes {
		if size < 1 || size > maxBytes {
			faults = append(faults, fmt.Errorf("file of %d bytes: not between 1 and %d", size, int64(maxBytes)))
		}
	}
	if o.Repeats < 0 {
		faults = append(faults, fmt.Errorf("%d repeats: negative", o.Repeats))
	}
	if o.Block < 0 || o.Block > maxBlock || o.Direct && o.Block%alignment != 0 {
		faults = append(faults, fmt.Errorf("block of %d bytes: not between 1 and %d, or past the page cache no multiple of %d", o.Block, maxBlock, alignment))
	}
	return errors.Join(faults...)
}

// Path measures the folder dir, usually a mounted share, by writing files, reading them back
// and comparing every byte. A write lasts until the file is flushed and closed, since a share
// may send nothing before; a read begins with opening the file, after emptying this machine's
// page cache as far as possible. The server's cache cannot be seen from here. emit is called
// from the calling goroutine; it may be nil.
//
// On an error the result holds the trials until then. Every file created is in the ledger and
// is removed.
func Path(ctx context.Context, dir string, o PathOptions, emit func(PathProgress)) (PathResult, error) {
	if err := o.Validate(); err != nil {
		return PathResult{}, fmt.Errorf("copy by way of %s: %w", dir, err)
	}
	if len(o.Sizes) == 0 {
		o.Sizes = []units.Bytes{DefaultBytes}
	}
	o.Repeats = cmp.Or(o.Repeats, pathRepeats)
	o.Block = cmp.Or(o.Block, defaultBlock)
	if emit == nil {
		emit = func(PathProgress) {}
	}
	p, err := folderPlace(dir)
	if err != nil {
		return PathResult{}, fmt.Errorf("copy by way of %s: %w", dir, err)
	}
	w := &pathWork{
		options: o, emit: emit, place: p, result: PathResult{Folder: dir, Volume: p.volume},
		halted: func() bool { return ctx.Err() != nil },
	}
	w.remarks()
	rng := rand.New(rand.NewPCG(o.Seed, pathStream))
	for repeat := range o.Repeats {
		for _, i := range rng.Perm(len(o.Sizes)) {
			if err := w.file(o.Sizes[i], repeat+1); err != nil {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				return w.result, fmt.Errorf("copy by way of %s: %w", dir, err)
			}
		}
	}
	return w.result, nil
}

// pathStream is the PCG stream of the order of sizes.
const pathStream = 0x70617468 // "path"

// pathWork is one call of Path.
type pathWork struct {
	options PathOptions
	emit    func(PathProgress)
	place   place
	result  PathResult
	halted  func() bool // reports whether the caller has stopped the work
	files   uint64
}

// remarks records what the kind of file system means for the numbers.
func (w *pathWork) remarks() {
	switch v := w.place.volume; {
	case v.Memory:
		w.warn("%s is %s: it is in this machine's memory, and no network or disk is measured", w.place.folder, v)
	case !v.Remote:
		w.warn("%s is %s and as far as can be seen local: no network is measured", w.place.folder, v)
	default:
		w.warn("what the server of %s still has in its own memory cannot be seen from here: reading may be faster than its disk", w.place.folder)
	}
}

func (w *pathWork) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.result.Warnings, text) {
		w.result.Warnings = append(w.result.Warnings, text)
	}
}

// file writes one file, reads it back and removes it.
func (w *pathWork) file(size units.Bytes, repeat int) (err error) {
	if err := w.place.fits(int64(size)); err != nil {
		return err
	}
	var stores []*store
	defer func() {
		for _, s := range stores {
			err = errors.Join(err, s.close())
		}
	}()
	for range 2 {
		s, err := inMemory(int64(size), true, w.halted)
		if err != nil {
			return err
		}
		stores = append(stores, s)
	}
	content, back := stores[0], stores[1]
	w.files++
	if err := content.fill(w.options.Seed+w.files, nil, w.halted); err != nil {
		return err
	}
	made, err := w.write(content, repeat)
	if made != nil {
		stores = append(stores, made)
	}
	if err != nil {
		return err
	}
	if err := w.read(made, back, repeat); err != nil {
		return err
	}
	if !bytes.Equal(content.mem, back.mem) {
		return fmt.Errorf("%s: what was read differs from what was written", made.claim.Name())
	}
	return nil
}

// write creates the file, and returns it even if it is incomplete.
func (w *pathWork) write(content *store, repeat int) (*store, error) {
	m := maker{engine: &Engine{stateDir: w.options.StateDir}, halted: w.halted}
	m.copy.Direct = w.options.Direct
	s, err := m.make(w.place, content.size)
	if err != nil {
		return nil, err
	}
	t := w.begin(WriteFile, content.size, repeat)
	for at := int64(0); at < content.size; {
		if w.halted() {
			return s, errHalted
		}
		b, err := content.next(content.mem[:min(int64(w.options.Block), content.size)], at)
		if err == nil {
			err = s.put(b, at)
		}
		if err != nil {
			return s, fmt.Errorf("write: %w", err)
		}
		at += int64(len(b))
		t.moved(at)
	}
	written := time.Since(t.start)
	if err := errors.Join(s.file.Sync(), s.file.Close()); err != nil {
		return s, fmt.Errorf("flush: %w", s.explain(err))
	}
	t.trial.Took = time.Since(t.start)
	t.trial.Flush = t.trial.Took - written
	t.end(how("flushed and closed within the time", s))
	return s, nil
}

// read reads the file of made into back.
func (w *pathWork) read(made, back *store, repeat int) error {
	s := &store{size: made.size, where: made.where, volume: made.volume, direct: made.direct}
	defer func() { _ = s.close() }()
	var err error
	if s.file, err = os.Open(made.claim.Name()); err != nil {
		return err
	}
	s.chill()
	for _, text := range s.warned {
		w.warn("%s", text)
	}
	if err := s.file.Close(); err != nil {
		return err
	}
	flags := os.O_RDONLY
	if s.direct {
		flags |= directFlag
	}
	t := w.begin(ReadFile, made.size, repeat)
	if s.file, err = os.OpenFile(made.claim.Name(), flags, 0); err != nil {
		return err
	}
	if s.direct {
		if err := past(s.file); err != nil {
			return err
		}
	}
	room := back.mem[:cap(back.mem)]
	for at := int64(0); at < s.size; {
		if w.halted() {
			return errHalted
		}
		// With Direct, including its space up to the next multiple.
		n, err := s.next(room[at:min(at+int64(w.options.Block), int64(len(room)))], at)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		at += int64(len(n))
		t.moved(at)
	}
	t.trial.Took = time.Since(t.start)
	t.end(how("", s))
	return nil
}

// how describes the state of the page cache.
func how(first string, s *store) string {
	parts := s.notes
	if first != "" {
		parts = append([]string{first}, parts...)
	}
	if s.direct && first != "" {
		parts = append(parts, "past the page cache")
	}
	return strings.Join(parts, "; ")
}

// timed is one running trial.
type timed struct {
	work     *pathWork
	trial    PathTrial
	start    time.Time
	reported time.Time
}

func (w *pathWork) begin(op Operation, size int64, repeat int) *timed {
	now := time.Now()
	return &timed{work: w, trial: PathTrial{Operation: op, Size: units.Bytes(size), Repeat: repeat}, start: now, reported: now}
}

// moved reports the progress every progressEvery.
func (t *timed) moved(n int64) {
	now := time.Now()
	if now.Sub(t.reported) < progressEvery {
		return
	}
	t.reported = now
	t.work.emit(t.progress(n, now.Sub(t.start)))
}

func (t *timed) progress(n int64, elapsed time.Duration) PathProgress {
	return PathProgress{Operation: t.trial.Operation, Size: t.trial.Size, Repeat: t.trial.Repeat, Moved: units.Bytes(n), Elapsed: elapsed}
}

// end stores the trial.
func (t *timed) end(how string) {
	t.trial.How = how
	t.trial.Took = max(1, t.trial.Took)
	t.trial.Rate = units.BitRate(float64(t.trial.Size) * 8 / t.trial.Took.Seconds())
	t.work.result.Trials = append(t.work.result.Trials, t.trial)
	p := t.progress(int64(t.trial.Size), t.trial.Took)
	trial := t.trial
	p.Trial = &trial
	t.work.emit(p)
}
