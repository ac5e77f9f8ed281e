// Package watchdog changes the knobs of a host in a process that outlives the
// agent, and takes the changes back.
//
// The agent starts the watchdog ([Start]), which leads a session of its own and
// ignores the end of the terminal. From then on the watchdog alone writes:
//
//  1. Apply: every change of the call is in the journal, on disk, before the
//     first is made. Then each is written and read back. If one fails, the
//     whole transaction is undone.
//  2. The transaction lives until its deadline, which Extend moves.
//  3. Undo takes everything back, newest first, where the knob still holds what
//     was written. So do the deadline, the death of the agent (end of input)
//     and SIGTERM, without being asked.
//  4. What cannot be undone (a driver is busy) does not keep the rest. It is tried
//     again, after 0.1 s and then less and less often, at least every 30 s. The
//     process does not end before, also not by SIGTERM, until it has tried for 12 h.
//
// [Confirm], called by another process, keeps what is applied: the deadline is
// over then, and only [Revert] takes it back. (A restart of the machine forgets
// most settings.)
//
// A watchdog that was killed leaves open intents in the journal; [Recover], or
// the next watchdog when it starts, takes them back. With Config.AtBoot the next
// start of the machine does so too.
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

// ErrExpired says that the deadline passed and the transaction was undone.
// Undo acknowledges it; until then Apply, Verify and Extend return it.
var ErrExpired = errors.New("the deadline passed: the changes were undone")

// ErrIdle says that nothing is applied.
var ErrIdle = errors.New("nothing is applied")

// ErrGone says that the watchdog's process ended. The client undoes what a
// killed one had applied; call Recover where that may have failed.
var ErrGone = errors.New("the watchdog is gone")

// ErrForeign says that somebody else changed a knob that linerate holds.
var ErrForeign = errors.New("changed by another program")

// Config says what a watchdog guards and how. The zero value guards this
// machine without an interface, with its journal in the default directory.
type Config struct {
	Dir     string        // of the journal; "" is journal.DefaultDir
	Host    hostknob.Host // whose knobs
	Version string        // of this linerate, which the journal's records name
	Cap     time.Duration // longest deadline that is accepted; 0 is no limit
	Command []string      // starts the watchdog, before Args; nil is this program with "watchdog"
	// Patience is how long to wait for another watchdog that has the journal: one
	// whose agent has just died is undoing and will be gone. 0 is 5 s.
	Patience time.Duration

	// AtBoot has a job of the system (package atboot) put changes back at the next
	// start of the machine: it is installed before the first change is made, and
	// removed when none is open any more. Where it cannot be, no change is made.
	AtBoot bool
	Root   string // below which the job's files lie; "" is the machine itself
	// Talk gets one line, which begins with BootMark, when the job is installed or
	// removed, and one that begins with UndoMark when an undo is not as safe as it
	// could be, or waits for somebody, or with KernelMark when the kernel logged a fault
	// while a setting was written: of this process, or what the watchdog of a Client says on its
	// standard error. nil is for nobody.
	Talk io.Writer

	// Await is how long Recover waits, where the machine was restarted since a change, for
	// the interface of the change to be there: a job that runs at the start may be earlier
	// than the card. 0 is not at all.
	Await time.Duration

	// Keeps reports whether linerate has each start write something to a place, and
	// whether that is now, which the place holds after a restart: neither the old value
	// nor somebody else's. nil keeps nothing.
	Keeps func(id model.KnobID, place hostknob.Place, now string) (kept, there bool)

	// After is called when a step is done: "intent tcp.sack" (on disk), "write
	// tcp.sack", "read tcp.sack", "applied tcp.sack" (on disk), and in undoing
	// "look tcp.sack", "restore tcp.sack", "undone tcp.sack" (on disk), "closed";
	// before it is tried again, "still open";
	// where the job for the next start is installed or removed, "job recorded" and
	// others of package atboot;
	// where it is kept, "see confirmation", "confirmed" (on disk), "drop confirmation".
	// Tests interrupt the process there. Another process does not get it.
	After func(step string)

	sys *system // tests simulate one; nil is the machine itself
}

// Mismatch is a knob that does not hold what was written.
type Mismatch struct {
	Host   model.Host   `json:"host"`
	Knob   model.KnobID `json:"knob"`
	Native string       `json:"native"`
	Want   string       `json:"want"`             // native text
	Got    string       `json:"got"`              // native text; "" when it cannot be read
	Reason string       `json:"reason,omitempty"` // why it cannot be read
}

// Serve is the watchdog: it reads requests from in and answers on out until in
// ends or ctx is done, and undoes what is applied before it returns, however long
// that takes. It is
// meant for a process of its own, whose signals it takes over: SIGHUP, SIGINT
// and SIGPIPE are ignored, SIGTERM ends it like ctx. The error says what could
// not be undone. The rules of the exchange are those of Client.
func Serve(ctx context.Context, in io.Reader, out io.Writer, cfg Config) error {
	ctx, stop := shield(ctx)
	defer stop()
	return serve(ctx, in, out, cfg)
}

// Recover undoes what a dead watchdog left applied on this machine, newest
// first, and returns what became of each change. Changes made in another
// network namespace are left open and returned as applied, with the reason. It
// is cheap when there is nothing to do, and needs no rights then. The error
// wraps journal.ErrLocked when a watchdog is and stays at work (journal.HeldError
// says who, and whether it is undoing), journal.ErrNewer, and journal.ErrDamaged
// when part of the journal could not be read; the rest was undone then, and
// the damaged files are kept. What is stuck (StuckError) is tried for 5 s; then a
// watchdog of its own goes on with it, where Config.Command says how to start one.
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
	awaitLinks(ctx, journal.OpenIntents(records), cfg.Await, cfg.sys) // before anybody is kept from the journal
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
	// patience is Config's default: longer than sysctls take to undo, and short
	// enough for an agent that recovers to say hello in time.
	patience = 5 * time.Second
	// telling is after how long a person is told who has the journal.
	telling = 2 * time.Second
	// retry is how often a journal that is in use is tried again.
	retry = 20 * time.Millisecond
)

// open opens the journal when the watchdog that has it, if any, is gone.
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
