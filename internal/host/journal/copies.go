package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"linerate/internal/core/lists"
	"linerate/internal/host/durable"
)

// copies are the names of the two copies of a journal, in the order in which a record is
// written: it is on disk in the first before the second is touched, so that a crash can tear
// only one.
var copies = [...]string{"journal.jsonl", "journal-b.jsonl"}

// Files returns the paths of the two copies of the journal in dir.
func Files(dir string) []string {
	var all []string
	for _, name := range copies {
		all = append(all, filepath.Join(dir, name))
	}
	return all
}

// merged is the result of reading two copies as one.
type merged struct {
	entries []entry
	exact   int      // index of an intact copy; -1 for none
	gap     bool     // a record is missing between others
	lost    []Damage // lost in both copies
	healed  []Damage // lost in one copy, and taken from the other
	spoilt  [2]bool  // the copies in which lost records may have been
	scans   [2]scanned
}

// merge reads two copies as one. An intact copy with the newest record stands for both.
// Otherwise merge takes all whole records of both, by number.
func merge(texts [2][]byte) merged {
	m := merged{exact: -1}
	m.scans[0] = scan(texts[0])
	if m.scans[1] = m.scans[0]; !bytes.Equal(texts[0], texts[1]) {
		m.scans[1] = scan(texts[1])
	}
	for i, s := range m.scans {
		if m.exact < 0 && s.exact && s.last() >= m.scans[1-i].last() {
			m.exact = i
		}
	}
	if m.exact >= 0 {
		m.entries = m.scans[m.exact].entries
	} else {
		m.unite()
	}
	for i, s := range m.scans {
		for _, r := range s.regions {
			m.judge(i, r)
		}
	}
	return m
}

// unite takes every whole record of either copy.
func (m *merged) unite() {
	all := make(map[uint64]entry)
	before := make(map[uint64][]uint64) // by number: the numbers that preceded it
	for _, s := range slices.Backward(m.scans[:]) {
		for _, e := range s.entries {
			all[e.seq] = e
			before[e.seq] = append(before[e.seq], e.prev)
		}
	}
	m.entries = slices.SortedFunc(maps.Values(all), func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
	for i, e := range m.entries {
		known := uint64(0)
		if i > 0 {
			known = m.entries[i-1].seq
		}
		// A copy may have been rewritten without records that are over: its line then names
		// an older predecessor.
		if !slices.ContainsFunc(before[e.seq], func(p uint64) bool { return p <= known }) {
			m.gap = true
			m.lost = append(m.lost, Damage{Reason: fmt.Sprintf("no whole record %d, which came before record %d", before[e.seq][0], e.seq)})
		}
	}
}

// judge decides whether a region of copy i may have held lost records. Between records their
// numbers show it. After the last record the other copy must have as much; only the first
// copy may end in the remains of a write that a crash cut short before Append returned.
func (m *merged) judge(i int, r region) {
	d := Damage{File: copies[i], Line: r.line, Reason: r.reason}
	other := m.scans[1-i]
	otherTorn := slices.ContainsFunc(other.regions, func(o region) bool { return o.last })
	switch {
	case !r.last && !m.gap, r.last && r.bytes <= other.behind(r.after):
		if !r.torn {
			m.healed = append(m.healed, d)
		}
	case r.torn && i == 0 && !otherTorn:
	default:
		m.lost = append(m.lost, d)
		m.spoilt[i] = true
	}
}

// readCopies reads both copies, "" for a missing one. It reads the second first: what another
// process has written there is in the first already.
func (d Dir) readCopies() (texts [2][]byte, err error) {
	for i, path := range slices.Backward(Files(d.Path)) {
		texts[i], err = d.files().Read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return texts, err
		}
	}
	return texts, nil
}

// newer returns an error for the first record that this program does not understand.
func (m merged) newer(dir string) error {
	for i, s := range m.scans {
		if s.newer != nil {
			s.newer.Path = filepath.Join(dir, copies[i])
			return s.newer
		}
	}
	return nil
}

func (m merged) records() []Record {
	all := lists.Each(m.entries, func(e entry) Record { return e.Record })
	return all
}

// bothAs brings the copies that are not ok to the journal's text, and first saves what is
// damaged. If that fails (a full disk), it is tried again before the next record.
func (j *Journal) bothAs() error {
	if !j.named {
		if err := j.dir.files().SyncDir(j.dir.Path); err != nil {
			return err
		}
		j.named = true
	}
	if j.unsaved != nil {
		if err := j.unsaved.save(j.dir); err != nil {
			return fmt.Errorf("keep the damaged journal: %w", err)
		}
		j.unsaved = nil
		j.step("damage saved")
	}
	var errs []error
	for i := range j.files {
		if !j.ok[i] {
			err := j.mend(i)
			j.ok[i] = err == nil
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// mend brings copy i to the journal's text: in place if only the end differs, which needs no
// disk space.
func (j *Journal) mend(i int) error {
	if j.files[i] == nil {
		if err := j.reopen(i); err != nil {
			return err
		}
	}
	f := j.files[i]
	have, err := j.dir.files().Read(j.path(i))
	switch {
	case errors.Is(err, fs.ErrNotExist): // removed by another process
		return j.replace(i)
	case err != nil:
		return err
	case bytes.Equal(have, j.text):
		return nil
	case bytes.HasPrefix(have, j.text):
		err = f.Truncate(int64(len(j.text)))
	case bytes.HasPrefix(j.text, have):
		_, err = f.Write(j.text[len(have):])
	default:
		return j.replace(i)
	}
	j.step("mend " + copies[i])
	return errors.Join(err, f.Sync())
}

// replace rewrites copy i atomically.
func (j *Journal) replace(i int) error {
	// Windows does not replace an open file, so close ours meanwhile.
	err := j.files[i].Close()
	j.files[i] = nil
	if err == nil {
		err = durable.Replace(j.dir.files(), j.path(i), j.text, 0o600)
	}
	j.step("replace " + copies[i])
	return errors.Join(err, j.reopen(i))
}

// path returns the path of a copy.
func (j *Journal) path(i int) string { return filepath.Join(j.dir.Path, copies[i]) }

func (j *Journal) reopen(i int) error {
	f, readOnly, err := j.dir.openWritable(j.path(i), os.O_APPEND)
	if err != nil {
		return err
	}
	j.files[i], j.readOnly = f, j.readOnly || readOnly
	return nil
}
