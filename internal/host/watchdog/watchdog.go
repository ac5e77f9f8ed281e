// Package watchdog changes the knobs of a host in a process that outlives the agent, and
// undoes the changes.
//
// The agent starts the watchdog ([Start]), which leads a session of its own and ignores the
// end of the terminal. From then on only the watchdog writes:
//
//  1. Apply: every change of the call is in the journal, on disk, before the
//     first is made. Then each is written and read back. If one fails, the
//     whole transaction is undone.
//  2. The transaction lives until its deadline, which Extend moves.
//  3. Undo undoes everything, newest first, if the knob still holds what was
//     written. The deadline, the death of the agent (end of input) and SIGTERM
//     do the same.
//  4. What cannot be undone (a driver is busy) does not stop the rest. It is tried
//     again, after 0.1 s and then less and less often, at least every 30 s. The
//     process does not end before, not even by SIGTERM, until it has tried for 12 h.
//
// [Confirm], called by another process, keeps the changes: the deadline then no longer
// applies, and only [Revert] undoes them. (A reboot of the machine resets most settings.)
//
// A watchdog that was killed leaves open intents in the journal; [Recover], or the next
// watchdog when it starts, undoes them. With Config.AtBoot the next boot of the machine does
// so too.
package watchdog

import (
	"context"
	"errors"
	"io"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/atboot"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
)

// ErrExpired reports that the deadline passed and the transaction was undone. Undo
// acknowledges it; until then Apply, Verify and Extend return it.
var ErrExpired = errors.New("the deadline passed: the changes were undone")

// ErrIdle reports that nothing is applied.
var ErrIdle = errors.New("nothing is applied")

// ErrGone reports that the watchdog's process has ended. The client undoes the changes of a
// killed one; call Recover if that may have failed.
var ErrGone = errors.New("the watchdog is gone")

// ErrForeign reports that another program changed a knob that linerate holds.
var ErrForeign = errors.New("changed by another program")

// Config configures a watchdog. The zero value guards this machine without an interface, with
// its journal in the default directory.
type Config struct {
	Dir     string        // of the journal; "" is journal.DefaultDir
	Host    hostknob.Host // whose knobs
	Version string        // of this linerate, stored in the journal's records
	Cap     time.Duration // longest deadline accepted; 0 for no limit
	Command []string      // starts the watchdog, before Args; nil means this program with "watchdog"
	// Patience is how long to wait for another watchdog that has the journal: one whose agent
	// has just died is undoing and will soon be gone. 0 means 5 s.
	Patience time.Duration

	// AtBoot has a boot job (package atboot) undo changes at the next start of the machine:
	// it is installed before the first change is made, and removed when none is open any
	// more. If it cannot be installed, no change is made.
	AtBoot bool
	Root   string // directory that holds the job's files; "" is the machine itself
	// Talk gets message lines: with BootMark when the job is installed or removed, with
	// UndoMark when an undo is not as safe as it could be, or waits for another process, and
	// with KernelMark when the kernel logged a fault while a setting was written. They come
	// from this process, or from the standard error of a Client's watchdog. nil discards
	// them.
	Talk io.Writer

	// Await is how long Recover waits, if the machine was rebooted since a change, for the
	// interface of the change to appear: a boot job may run before the card is there. 0 means
	// no wait.
	Await time.Duration

	// Keeps reports whether linerate has each boot write something to a place, and whether
	// that is now, the value in the place: after a reboot that is neither the old value nor
	// another program's. nil means that linerate keeps nothing.
	Keeps func(id model.KnobID, place hostknob.Place, now string) (kept, there bool)

	// After is called when a step is done: "intent tcp.sack" (on disk), "write tcp.sack",
	// "read tcp.sack", "applied tcp.sack" (on disk), and in undoing "look tcp.sack", "restore
	// tcp.sack", "undone tcp.sack" (on disk), "closed"; before a retry, "still open"; when
	// the boot job is installed or removed, "job recorded" and others of package atboot; when
	// the transaction is kept, "see confirmation", "confirmed" (on disk), "drop
	// confirmation". Tests interrupt the process there. It is not passed to another process.
	After func(step string)

	sys *system // simulated in tests; nil means the machine itself
}

// Mismatch is a knob that does not hold what was written.
type Mismatch struct {
	Host   model.Host   `json:"host"`
	Knob   model.KnobID `json:"knob"`
	Native string       `json:"native"`
	Want   string       `json:"want"`             // native text
	Got    string       `json:"got"`              // native text; "" if it cannot be read
	Reason string       `json:"reason,omitempty"` // why it cannot be read
}

// Serve is the watchdog: it reads requests from in and answers on out until in ends or ctx is
// done, and undoes the present changes before it returns, however long that takes. It is
// meant for a process of its own, whose signals it handles: it ignores SIGHUP, SIGINT and
// SIGPIPE, and SIGTERM ends it like ctx. The error says what could not be undone. The rules
// of the exchange are those of Client.
func Serve(ctx context.Context, in io.Reader, out io.Writer, cfg Config) error {
	ctx, stop := shield(ctx)
	defer stop()
	return serve(ctx, in, out, cfg)
}

// Recover undoes what a dead watchdog left applied on this machine, newest first, and returns
// the outcome of each change. Changes made in another network namespace are left open and
// returned as applied, with the reason. It is cheap if there is nothing to do, and then needs
// no rights. The error wraps journal.ErrLocked if a watchdog is and stays at work
// (journal.HeldError says which, and whether it is undoing), journal.ErrNewer, and
// journal.ErrDamaged if part of the journal could not be read; the rest was then undone, and
// the damaged files are saved. What is stuck (StuckError) is retried for 5 s; then a new
// watchdog continues with it, if Config.Command says how to start one.
func Recover(ctx context.Context, cfg Config) ([]model.Change, error) {
	cfg.sys = cfg.system()
	dir, err := cfg.state()
	if err != nil {
		return nil, err
	}
	records, damage, err := dir.Read()
	if err != nil {
		return nil, err
	}
	if len(damage) == 0 && len(journal.OpenIntents(records)) == 0 && !atboot.Installed(dir.Path) {
		return nil, nil
	}
	awaitLinks(ctx, journal.OpenIntents(records), cfg.Await, cfg.sys) // before locking the journal
	j, err := cfg.open(ctx, dir)
	if err != nil {
		return nil, err
	}
	m := newMachine(cfg, j)
	m.takeConfirmation()
	changes, err := m.insist(ctx, m.recover)
	if closeErr := j.Close(); closeErr != nil {
		return changes, errors.Join(err, closeErr)
	}
	return goOn(ctx, cfg, changes, err)
}

const (
	// patience is Config's default: longer than sysctls take to undo, and short enough for a
	// recovering agent to say hello in time.
	patience = 5 * time.Second
	// telling is the time until the user sees which process has the journal.
	telling = 2 * time.Second
	// retry is the interval between tries to open a journal that is in use.
	retry = 20 * time.Millisecond
)

// open opens the journal once the watchdog that has it, if any, is gone.
func (c Config) open(ctx context.Context, dir journal.Dir) (*journal.Journal, error) {
	wait := c.Patience
	if wait <= 0 {
		wait = patience
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	soon := time.NewTimer(telling)
	defer soon.Stop()
	again := time.NewTicker(retry)
	defer again.Stop()
	for {
		j, err := dir.Open(c.Version)
		if !errors.Is(err, journal.ErrLocked) {
			return j, err
		}
		select {
		case <-soon.C:
			newBoot(c, dir.Path, nil).talkf(UndoMark, "waiting: %v", err)
		case <-late.C:
			return nil, err
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-again.C:
		}
	}
}
