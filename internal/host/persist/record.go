package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/durable"
)

const (
	recordFile = "record.json"
	unfinished = ".new"  // an incomplete record: nothing was touched for it
	finished   = ".gone" // a record that was restored completely
)

func (k Keeper) dir() string { return filepath.Join(k.State, "kept") }

// Records returns what was written and not restored, oldest first, including damaged records.
// It wraps ErrNewer if a newer linerate wrote one.
func (k Keeper) Records() ([]Record, error) {
	unlock, err := k.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	return k.records()
}

// records is Records for a caller that holds the lock. It removes what a crash left of
// incomplete or restored records.
func (k Keeper) records() ([]Record, error) {
	entries, err := os.ReadDir(k.dir())
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !counts(e.Name()) {
			if err := os.RemoveAll(filepath.Join(k.dir(), e.Name())); err != nil {
				return nil, err
			}
		}
	}
	return k.readRecords(entries)
}

// counts reports whether a name in the directory of records is that of a complete record that
// was not restored.
func counts(name string) bool {
	return !strings.HasSuffix(name, unfinished) && !strings.HasSuffix(name, finished)
}

func (k Keeper) readRecords(entries []fs.DirEntry) ([]Record, error) {
	var all []Record
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || !counts(name) {
			continue
		}
		r, err := k.readRecord(name)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Record) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// save writes the record and the previous files to disk.
func (k Keeper) save(r Record, all []planned) error {
	dir := filepath.Join(k.dir(), r.ID)
	if err := os.Mkdir(dir+unfinished, 0o700); err != nil {
		return err
	}
	err := k.saveIn(dir+unfinished, r, all)
	if err == nil {
		err = os.Rename(dir+unfinished, dir)
	}
	if err == nil {
		err = durable.SyncDir(k.dir())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("save what is there now: %w", err), os.RemoveAll(dir+unfinished), os.RemoveAll(dir))
	}
	return nil
}

func (k Keeper) saveIn(dir string, r Record, all []planned) error {
	for i, p := range all {
		if !p.kept.Before.Exists {
			continue
		}
		if err := writeTemp(filepath.Join(dir, strconv.Itoa(i)), p.kept.Before.bytes, 0o600, Snapshot{}); err != nil {
			return err
		}
		k.after("saving " + p.kept.Path)
	}
	b, err := sealed(r)
	if err != nil {
		return err
	}
	for _, name := range copies() {
		if err := writeTemp(filepath.Join(dir, name), b, 0o600, Snapshot{}); err != nil {
			return err
		}
		k.after("saving " + name)
	}
	return durable.SyncDir(dir)
}

// Renew gives the record id another proof, and leaves its files alone. At any time one of its
// two copies is intact. The error wraps fs.ErrNotExist if there is no such record any more,
// and ErrDamaged if it cannot be read.
func (k Keeper) Renew(id, proof string) error {
	unlock, err := k.lock()
	if err != nil {
		return err
	}
	defer unlock()
	records, err := k.records()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(records, func(r Record) bool { return r.ID == id })
	if i < 0 {
		return fmt.Errorf("record %.40q: %w", id, fs.ErrNotExist)
	}
	r := records[i]
	if r.Damage != "" {
		return fmt.Errorf("record %s: %w: %s", id, ErrDamaged, r.Damage)
	}
	r.Proof = proof
	b, err := sealed(r)
	if err != nil {
		return err
	}
	dir := filepath.Join(k.dir(), id)
	for _, name := range copies() {
		temp := filepath.Join(dir, name+unfinished)
		err := writeTemp(temp, b, 0o600, Snapshot{})
		k.after("renewing " + name)
		if err == nil {
			err = os.Rename(temp, filepath.Join(dir, name))
		}
		if err == nil {
			err = durable.SyncDir(dir)
		}
		if err != nil {
			return errors.Join(err, ignoreMissing(os.Remove(temp)))
		}
	}
	return nil
}

// ignoreMissing returns err, or nil if it means that something does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Restore undoes all records, newest first, and reports every file. The error joins what
// could not be restored, and wraps ErrChanged for files that were changed since; their
// records stay for another try, as do all older records of the same files. A damaged record
// does not keep others from being restored; it stays, and the error wraps ErrDamaged until
// the user removes its directory. If since, the ID of a record, is set, older records stay.
func (k Keeper) Restore(since string) ([]model.FileResult, error) {
	unlock, err := k.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	records, err := k.records()
	if err != nil {
		return nil, err
	}
	var all []model.FileResult
	var errs []error
	for _, r := range slices.Backward(records) {
		if r.ID < since { // IDs sort by age
			break
		}
		if r.Damage != "" { // it stays, and is reported every time
			all = append(all, model.FileResult{Record: r.ID, Path: filepath.Join(k.dir(), r.ID), State: model.FileFailed, Detail: ErrDamaged.Error() + ": " + r.Damage})
			errs = append(errs, fmt.Errorf("record %s: %w: %s", r.ID, ErrDamaged, r.Damage))
			continue
		}
		results, err := k.restore(r, len(r.Files))
		all, errs = append(all, results...), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// restore undoes one record, of which the first written files may have been written, and
// drops it if nothing is left of it.
func (k Keeper) restore(r Record, written int) ([]model.FileResult, error) {
	var all []model.FileResult
	var errs []error
	for i, f := range slices.Backward(r.Files) {
		state, err := model.FileAlready, k.removeTemp(r, f)
		if err == nil && i < written {
			state, err = k.restoreFile(r, i, f)
		} else if err != nil {
			state = model.FileFailed
		}
		result := model.FileResult{Record: r.ID, Path: f.Path, State: state}
		if err != nil {
			result.Detail = err.Error()
			errs = append(errs, err)
		}
		all = append(all, result)
	}
	for _, dir := range slices.Backward(r.Made) {
		_ = os.Remove(k.real(dir)) // others may have put something in
		k.after("removed " + dir)
	}
	if err := errors.Join(errs...); err != nil {
		return all, err
	}
	dir := filepath.Join(k.dir(), r.ID)
	if err := os.Rename(dir, dir+finished); err != nil {
		return all, err
	}
	k.after("dropped " + r.ID)
	return all, errors.Join(durable.SyncDir(k.dir()), os.RemoveAll(dir+finished))
}

func (k Keeper) restoreFile(r Record, i int, f Kept) (model.FileState, error) {
	to, temp := k.real(f.Path), k.temp(r, f)
	now, err := look(to)
	saved := filepath.Join(k.dir(), r.ID, strconv.Itoa(i))
	switch {
	case errors.Is(err, ErrIrregular):
		return model.FileChanged, fmt.Errorf("%s: %w: it is no regular file any more", f.Path, ErrChanged)
	case err != nil:
		return model.FileFailed, err
	case now.Exists && now.Sum == f.After:
	case now.Exists == f.Before.Exists && now.Sum == f.Before.Sum:
		return model.FileAlready, nil
	case f.Before.Exists:
		return model.FileChanged, fmt.Errorf("%s: %w; what was there before linerate is in %s", f.Path, ErrChanged, saved)
	default:
		return model.FileChanged, fmt.Errorf("%s: %w; there was no such file before linerate", f.Path, ErrChanged)
	}
	if !f.Before.Exists {
		err = os.Remove(to)
	} else if err = k.putBack(saved, temp, f.Before); err == nil {
		err = os.Rename(temp, to)
	}
	if err != nil {
		return model.FileFailed, fmt.Errorf("restore %s: %w", f.Path, err)
	}
	k.after("restored " + f.Path)
	return model.FileRestored, durable.SyncDir(filepath.Dir(to))
}

// temp returns the temporary name of a file before it is renamed: hidden, and without the
// suffix that programs look for.
func (k Keeper) temp(r Record, f Kept) string {
	to := k.real(f.Path)
	return filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".linerate-"+r.ID)
}

func (k Keeper) removeTemp(r Record, f Kept) error {
	name := k.temp(r, f)
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) { // a read-only file system refuses to remove even a missing file
		return nil
	}
	return os.Remove(name)
}

// putBack writes the saved content to a temporary file.
func (k Keeper) putBack(saved, temp string, before Snapshot) error {
	data, err := os.ReadFile(saved)
	if err != nil {
		return err
	}
	if durable.Sum(data) != before.Sum {
		return fmt.Errorf("%s is damaged: %w", saved, fs.ErrInvalid)
	}
	if err := writeTemp(temp, data, before.Mode, before); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	k.after("putting back")
	return nil
}

// lock takes the lock of the state directory, which is released however the process ends.
func (k Keeper) lock() (unlock func(), err error) {
	if err := durable.Trusted(k.State); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(k.dir(), 0o700); err != nil {
		return nil, err
	}
	if err := durable.Trusted(k.dir()); err != nil { // now that it exists
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(k.dir(), "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := durable.Lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", k.dir(), err), f.Close())
	}
	return func() { _ = durable.Close(f) }, nil
}
