// Package command runs a user's command in the shell of this machine, for a limited time, and
// keeps the end of its output.
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
	// maxOutput is how much of the end of the output an error includes, in bytes: it travels
	// as one sentence of a session.
	maxOutput = 1 << 10
	// drain is how long to wait for output after the command has ended: a background process
	// of it may hold its standard output open.
	drain = 300 * time.Millisecond
)

// Error says how a command failed, and the end of its output.
type Error struct {
	Command string
	Status  int    // exit status; -1 if it was killed, or did not start
	Why     string // "exit status 2", "ended after its limit of 10s"
	Output  string // the end of its output, in one line; "" for none
}

// Error returns the command, how it ended and its output.
func (e *Error) Error() string {
	s := fmt.Sprintf("command %q: %s", e.Command, e.Why)
	if e.Output != "" {
		s += ": " + e.Output
	}
	return s
}

// Run runs text in the shell of this system (/bin/sh -c; cmd.exe on Windows), without input,
// in the environment of this process plus env, and returns when it has ended. Background
// processes that it leaves go on. After limit, or when ctx ends, Run kills the command with
// its process group. On Linux the command does not outlive this process. The error is an
// *Error unless the exit status is 0.
func Run(ctx context.Context, text string, limit time.Duration, env ...string) error {
	return Feed(ctx, text, "", limit, env...)
}

// Feed is Run with input.
func Feed(ctx context.Context, text, input string, limit time.Duration, env ...string) error {
	// The death signal of a parent is really that of its thread, see prctl(2)
	// PR_SET_PDEATHSIG.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := shell(limited, text)
	out := &tail.Tail{Keep: maxOutput}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, drain
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
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
