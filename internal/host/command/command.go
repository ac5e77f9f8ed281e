// Package command runs what a person wrote for the shell of this machine, for a
// bounded time, and keeps the end of what it printed.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/tail"
)

const (
	// maxOutput is how much of the end of the output an error tells, in bytes: it
	// travels as one sentence of a session.
	maxOutput = 1 << 10
	// drain is how long output is awaited after the command itself has ended: what it
	// left running in the background may hold its standard output.
	drain = 300 * time.Millisecond
)

// Error says how a command failed, and what it printed last.
type Error struct {
	Command string
	Status  int    // exit status; -1 where it was ended, or never began
	Why     string // "exit status 2", "ended after its limit of 10s"
	Output  string // the end of what it printed, in one line; "" for nothing
}

// Error names the command, how it ended and what it printed.
func (e *Error) Error() string {
	s := fmt.Sprintf("command %q: %s", e.Command, e.Why)
	if e.Output != "" {
		s += ": " + e.Output
	}
	return s
}

// Run runs text with the shell of this system (/bin/sh -c; cmd.exe on Windows), with
// nothing to read, in the environment of this process and env, and returns when it
// has ended. What it leaves running in the background stays. After limit, or when
// ctx ends, it is killed with all that it started in its process group. On Linux it
// does not outlive this process. The error is an *Error unless status 0 was
// returned.
func Run(ctx context.Context, text string, limit time.Duration, env ...string) error {
	// The signal for the death of a parent is one for that of its thread, see
	// prctl(2) PR_SET_PDEATHSIG.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := shell(limited, text)
	out := &tail.Tail{Keep: maxOutput}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, drain
	cmd.Env = append(os.Environ(), env...)
	err := cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) && limited.Err() == nil {
		return nil
	}
	e := &Error{Command: text, Status: -1, Why: err.Error(), Output: oneLine(out.String())}
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		e.Why = "interrupted"
	case limited.Err() != nil:
		e.Why = "ended after its limit of " + units.FormatDuration(limit)
	case exited && exit.Exited():
		e.Status, e.Why = exit.ExitCode(), fmt.Sprintf("exit status %d", exit.ExitCode())
	}
	return e
}

func oneLine(said string) string {
	return plain.Line(strings.Join(strings.Fields(strings.ToValidUTF8(said, "?")), " "))
}
