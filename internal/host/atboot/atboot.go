// Package atboot installs a boot job that undoes, at the machine's next start, the changes of
// linerate that are still open.
//
// The job is what the system itself runs at boot: a systemd unit, a script or cron file on
// other Linux systems, an rc.d script (FreeBSD), a launchd property list (macOS), a scheduled
// task (Windows). It runs a copy of linerate, since the running one may be a temporary copy:
//
//	STATE/atboot/record.json   what was put where, with checksums; written first, removed last
//	STATE/atboot/linerate      the copy; the job runs: linerate undo --at-boot --state STATE
//
// A machine has one job. linerate never replaces a file or task of that name that it did not
// make, and never removes one that was changed since. A crash may follow every step: Remove,
// and so the next Install, cleans up after it. Callers hold the lock of the journal in STATE.
package atboot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"linerate/internal/host/durable"
)

// The reasons not to install a job.
var (
	// ErrTaken reports that something else has the job's name: this linerate did not make it.
	ErrTaken = errors.New("not made by this linerate")
	// ErrUntrusted reports that another user could replace what the system would run.
	ErrUntrusted = durable.ErrUntrusted
)

// Keeper installs and removes the job of one machine.
type Keeper struct {
	State   string            // directory of the journal
	Root    string            // directory that holds the system's files; "" is the machine itself
	Program string            // the linerate to copy; "" is the running one
	After   func(step string) // for tests: called after each step that a crash may follow

	choose func(Keeper) (job, error) // for tests: instead of the system's own job
}

// job is what makes a system run linerate at boot.
type job struct {
	name   string // for display
	pieces []piece
	check  func(context.Context) error // asks the system whether it will run the job; nil if it cannot be asked
}

// systems returns the function for the job of each system.
func systems() map[string]func(Keeper) (job, error) {
	return map[string]func(Keeper) (job, error){"linux": linuxJob, "freebsd": freebsdJob, "darwin": darwinJob, "windows": windowsJob}
}

// paths returns the paths of the job's files and links.
func (j job) paths() []string {
	var all []string
	for _, p := range j.pieces {
		if p.Task == nil {
			all = append(all, p.Path)
		}
	}
	return all
}

const (
	folder     = "atboot" // in the state directory
	recordName = "record.json"
	jobName    = "linerate-undo"
	// marker is in every file and task, for people who find it.
	marker = "Made by linerate, which removes it again."
)

func (k Keeper) dir() string { return filepath.Join(k.State, folder) }

// program returns the path of the copy.
func (k Keeper) program() string { return filepath.Join(k.dir(), programName) }

func (k Keeper) after(format string, a ...any) {
	if k.After != nil {
		k.After(fmt.Sprintf(format, a...))
	}
}

// Installed reports whether the linerate with its journal in directory state has left a job,
// or a part of one.
func Installed(state string) bool {
	_, err := os.Lstat(filepath.Join(state, folder))
	return err == nil
}

// Install has the system run the job at its next start. It returns the place of the job for
// display, "" if it was there already. On an error it leaves nothing behind. The error wraps
// errors.ErrUnsupported if the system has no such place, fs.ErrPermission, ErrTaken or
// ErrUntrusted.
func (k Keeper) Install(ctx context.Context) (name string, err error) {
	name, err = k.install(ctx)
	if err != nil {
		return "", fmt.Errorf("install a job for the next start: %w", err)
	}
	return name, nil
}

func (k Keeper) install(ctx context.Context) (string, error) {
	var err error
	if k.State, err = filepath.Abs(k.State); err != nil {
		return "", err
	}
	old, err := k.load()
	if err != nil {
		return "", err
	}
	if old != nil && k.intact(ctx, *old) {
		return "", nil
	}
	if _, err := k.Remove(ctx); err != nil {
		return "", err
	}
	if err := durable.Private(k.State); err != nil {
		return "", err
	}
	choose := k.choose
	if choose == nil {
		choose = systems()[runtime.GOOS]
	}
	if choose == nil {
		return "", fmt.Errorf("linerate knows no job at the start of %s: %w", runtime.GOOS, errors.ErrUnsupported)
	}
	j, err := choose(k)
	if err != nil {
		return "", err
	}
	if err := k.put(ctx, j); err != nil {
		_, back := k.Remove(ctx)
		return "", errors.Join(err, back)
	}
	return j.name, nil
}

// put makes the record and then all pieces of j.
func (k Keeper) put(ctx context.Context, j job) error {
	for _, p := range j.pieces {
		if err := p.free(ctx); err != nil {
			return err
		}
	}
	r := record{Name: j.name, Pieces: j.pieces, Made: durable.Missing(j.paths(), nil)}
	if err := os.MkdirAll(k.dir(), 0o700); err != nil {
		return err
	}
	if err := k.save(r); err != nil {
		return err
	}
	k.after("job recorded")
	var err error
	if r.Size, err = k.copyProgram(); err != nil {
		return err
	}
	k.after("job program")
	for _, dir := range r.Made {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		k.after("job directory %s", dir)
	}
	for i := range r.Pieces {
		if err := r.Pieces[i].put(ctx, k); err != nil {
			return err
		}
		k.after("job piece %d", i+1)
	}
	if j.check != nil {
		if err := j.check(ctx); err != nil {
			return err
		}
	}
	r.Complete = true
	if err := k.save(r); err != nil {
		return err
	}
	k.after("job installed")
	return nil
}

// intact reports whether all pieces of r are in place.
func (k Keeper) intact(ctx context.Context, r record) bool {
	info, err := os.Stat(k.program())
	if !r.Complete || err != nil || info.Size() != r.Size {
		return false
	}
	return !slices.ContainsFunc(r.Pieces, func(p piece) bool {
		s, err := p.state(ctx)
		return err != nil || s != ours
	})
}

// Removal is the outcome of removing a job.
type Removal struct {
	Name string   // its place, for display
	Left []string // what was not removed and why, in sentences
}

// Remove removes the job, or what a crash left of one. It returns nil if there is none.
// Pieces that were changed since stay and are listed; linerate then forgets them. If Remove
// returns an error, which says what could not be removed, it may be called again.
func (k Keeper) Remove(ctx context.Context) (*Removal, error) {
	if !Installed(k.State) {
		return nil, nil
	}
	r, err := k.load()
	if err != nil {
		return nil, fmt.Errorf("remove the job for the next start: %w", err)
	}
	if r == nil { // a crash before the record was made, or after it was removed
		return nil, k.clear(nil)
	}
	done := &Removal{Name: r.Name}
	for i, p := range slices.Backward(r.Pieces) {
		left, err := p.remove(ctx)
		if err != nil {
			return nil, fmt.Errorf("remove the job for the next start: %w", err)
		}
		if left != "" {
			done.Left = append(done.Left, left)
		}
		k.after("job piece %d removed", i+1)
	}
	for _, dir := range slices.Backward(r.Made) {
		_ = os.Remove(dir) // others may have put something in
		k.after("job directory %s removed", dir)
	}
	return done, k.clear(done)
}

// clear removes the copy, and the record last.
func (k Keeper) clear(done *Removal) error {
	later, err := discard(k.program())
	if err != nil {
		return fmt.Errorf("remove the job for the next start: %w", err)
	}
	if later != "" && done != nil {
		done.Left = append(done.Left, later)
	}
	k.after("job program removed")
	durable.Discard(durable.OS{}, filepath.Join(k.dir(), recordName))
	for _, name := range []string{taskFile, programName + newSuffix, recordName} {
		if err := os.Remove(filepath.Join(k.dir(), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the job for the next start: %w", err)
		}
	}
	k.after("job record removed")
	if later == "" {
		if err := os.Remove(k.dir()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the job for the next start: %w", err)
		}
	}
	k.after("job removed")
	return durable.SyncDir(k.State)
}

// String returns the outcome in one line.
func (r Removal) String() string {
	if len(r.Left) > 0 {
		return "removed " + r.Name + ", but not all of it: " + strings.Join(r.Left, "; ")
	}
	return "removed " + r.Name
}
