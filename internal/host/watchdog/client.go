package watchdog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/panics"
	"linerate/internal/tail"
)

// farewell is how long Close waits for the watchdog to end, besides the time that an undo may
// take (knob.UndoTime).
const farewell = 10 * time.Second

// Client is the agent's side of a watchdog. It is safe for concurrent use;
// calls wait for each other.
type Client struct {
	// Recovered are the changes of an earlier watchdog that this one found when it started,
	// as from Recover; RecoveryErr is the error of that recovery.
	Recovered   []model.Change
	RecoveryErr error

	cfg     Config
	process *process
	replies chan reply    // closed when the watchdog's output ends
	gone    chan struct{} // closed when its process has ended
	exit    error         // valid after gone, like the next three
	rescued bool          // the process failed, and Recover was called instead
	left    []model.Change
	leftErr error // of Recover
	talk    *tail.Tail
	mu      sync.Mutex   // one call at a time
	last    int          // id of the last request
	applied string       // name of the transaction of the last Apply
	undoing atomic.Int64 // how long the undo of the present changes may take, in ns
	close   sync.Once
}

// Start starts a watchdog in a session of its own, and, if systemd runs the agent in a unit,
// in a scope of its own. It returns when the watchdog has the journal. The error wraps
// journal.ErrLocked, naming the holder, if another watchdog is at work, and fs.ErrPermission
// if the journal's directory is not writable. ctx ends only the wait, not the watchdog: Close
// does that.
func Start(ctx context.Context, cfg Config) (*Client, error) {
	command := cfg.Command
	if command == nil {
		program, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("start watchdog: %w", err)
		}
		command = []string{program, "watchdog"}
	}
	return startScoped(ctx, cfg, append(slices.Clone(command), cfg.Args()...))
}

// startProcess is Start for a command. enter is the program that executes the watchdog, "" if
// the command starts it directly.
func startProcess(ctx context.Context, cfg Config, command []string, enter string) (*Client, error) {
	c := &Client{cfg: cfg, replies: make(chan reply, pending), gone: make(chan struct{}), talk: &tail.Tail{Keep: 4096}}
	var err error
	if cfg.sys != nil && cfg.sys.start != nil {
		c.process, err = cfg.sys.start(cfg)
	} else {
		c.process, err = c.run(exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...))
	}
	if err != nil {
		return nil, fmt.Errorf("start watchdog: %w", err)
	}
	go func() {
		defer close(c.replies)
		defer close(c.gone)
		err := panics.Call(func() error {
			c.listen(context.WithoutCancel(ctx))
			return nil
		})
		if err != nil { // the watchdog undoes, as if the agent were gone
			c.close.Do(func() { _ = c.process.in.Close() })
			c.exit = errors.Join(c.exit, err)
		}
	}()
	if enter != "" {
		go panics.From(func(error) {}, func() { c.watchEntering(enter) })() // a program that hangs ends with its input
	}
	hello, err := c.await(ctx, 0)
	switch {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("start watchdog: %w", err), c.Close())
	case !hello.Ready:
		_ = c.Close() // its exit status says the same as hello
		return nil, fmt.Errorf("start watchdog: %w", hello.err())
	}
	c.Recovered, c.RecoveryErr = hello.Changes, hello.err()
	return c, nil
}

// process is a running watchdog.
type process struct {
	pid  int
	in   io.WriteCloser
	out  io.Reader
	wait func() error // waits for its end
	kill func() error
}

// run starts a command as the watchdog.
func (c *Client) run(cmd *exec.Cmd) (*process, error) {
	cmd.Stderr = c.talk
	if c.cfg.Talk != nil {
		cmd.Stderr = io.MultiWriter(c.talk, BootLines(c.cfg.Talk))
	}
	cmd.SysProcAttr = ownSession()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{pid: cmd.Process.Pid, in: in, out: out, wait: cmd.Wait, kill: cmd.Process.Kill}, nil
}

// listen owns the watchdog's output and its process. If the watchdog is killed, listen
// recovers in its place, since no deadline would undo the changes any more.
func (c *Client) listen(ctx context.Context) {
	guarding := false
	_ = readLines(c.process.out, func(r reply) bool { // the exit status says more than a read error
		guarding = guarding || r.Ready
		c.replies <- r
		return true
	})
	c.close.Do(func() { _ = c.process.in.Close() }) // a watchdog with unreadable output must undo and end
	if c.exit = c.process.wait(); c.exit != nil && guarding {
		c.rescued = true
		c.left, c.leftErr = Recover(ctx, c.cfg)
	}
}

// Apply makes the changes on this host, all or none, and undoes them after deadline from now
// unless Extend moves it. Values may be canonical or as a user writes them. It returns the
// changes in the order in which they were made. On an error nothing stays applied, not even
// of an earlier Apply, and it returns what was undone. A second Apply before Undo adds to the
// transaction: Old stays the text before the first, and a knob set again gets the same text
// as if it were set first. A command runs if its value is model.On, after all knobs. The
// error wraps fs.ErrPermission, errors.ErrUnsupported, ErrForeign or ErrExpired.
func (c *Client) Apply(ctx context.Context, changes []model.Assignment, deadline time.Duration) ([]model.Change, error) {
	var ids []model.KnobID
	var running time.Duration
	for _, a := range changes {
		ids = append(ids, a.Knob)
		running += 2 * a.Command.Limit // wait for a running one
	}
	c.undoing.Add(int64(c.cfg.Host.Index.UndoTime(ids...) + running))
	r, err := c.call(ctx, request{Op: opApply, Changes: changes, Deadline: deadline})
	return r.Changes, err
}

// Transaction returns the name of the transaction of the last successful Apply, for Confirm;
// "" for none.
func (c *Client) Transaction() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.applied
}

// Verify returns the knobs that do not hold what was written. The error wraps ErrIdle if
// nothing is applied, and ErrExpired.
func (c *Client) Verify(ctx context.Context) ([]Mismatch, error) {
	r, err := c.call(ctx, request{Op: opVerify})
	return r.Mismatches, err
}

// Extend moves the deadline to d from now. The error wraps ErrIdle or ErrExpired.
func (c *Client) Extend(ctx context.Context, d time.Duration) error {
	_, err := c.call(ctx, request{Op: opExtend, Deadline: d})
	return err
}

// Undo undoes the present changes, newest first, and returns the outcome of each. If nothing
// is applied it does nothing. After the deadline it returns what the deadline undid, with an
// error that wraps ErrExpired. After a watchdog was killed it returns what was undone in its
// place, with an error that wraps ErrGone: Recover tells whether anything is left.
func (c *Client) Undo(ctx context.Context) ([]model.Change, error) {
	r, err := c.call(ctx, request{Op: opUndo})
	if err == nil {
		c.undoing.Store(0)
	}
	if !errors.Is(err, ErrGone) {
		return r.Changes, err
	}
	select {
	case <-c.gone:
		return c.left, err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the end of the watchdog: %w", ctx.Err())
	}
}

// Read returns the canonical values of the knobs, as knob.Host.Read does.
func (c *Client) Read(ctx context.Context, ids []model.KnobID) (map[model.KnobID]fact.Of[string], error) {
	r, err := c.call(ctx, request{Op: opRead, Knobs: ids})
	return r.Values, err
}

// Close ends the watchdog, which undoes the present changes, and waits for that. The error
// says what could not be undone. It is idempotent.
func (c *Client) Close() error {
	c.close.Do(func() { _ = c.process.in.Close() }) // fails only if the process is gone
	wait := min(farewell+time.Duration(c.undoing.Load()), knob.MaxUndoTime)
	limit := time.NewTimer(wait)
	defer limit.Stop()
	for {
		select {
		case <-c.gone:
			if c.exit == nil || c.rescued && c.leftErr == nil {
				return nil
			}
			return errors.Join(fmt.Errorf("watchdog: %w%s", c.exit, c.said()), c.leftErr)
		case <-c.replies: // no caller waits for them
		case <-limit.C:
			return fmt.Errorf("watchdog (process %d): still undoing after %s, and goes on", c.process.pid, units.FormatDuration(wait))
		}
	}
}

func (c *Client) call(ctx context.Context, r request) (reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return reply{}, fmt.Errorf("ask the watchdog: %w", err)
	}
	c.last++
	r.ID = c.last
	if err := writeLine(c.process.in, r); err != nil {
		return reply{}, fmt.Errorf("%w: %w", ErrGone, err)
	}
	a, err := c.await(ctx, r.ID)
	if err != nil {
		return reply{}, err
	}
	if r.Op == opApply {
		c.applied = a.Transaction
	}
	return a, a.err()
}

// await returns the reply to request id. It drops replies to earlier requests, whose callers
// gave up.
func (c *Client) await(ctx context.Context, id int) (reply, error) {
	for {
		select {
		case r, ok := <-c.replies:
			if !ok {
				return reply{}, fmt.Errorf("%w%s", ErrGone, c.said())
			}
			if r.ID == id {
				return r, nil
			}
		case <-ctx.Done():
			return reply{}, fmt.Errorf("wait for the watchdog: %w", ctx.Err())
		}
	}
}

// said returns the end of the watchdog's standard error, after a colon; "" for nothing.
func (c *Client) said() string {
	if s := strings.TrimSpace(c.talk.String()); s != "" {
		return ": " + s
	}
	return ""
}
