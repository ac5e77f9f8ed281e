package watch

import (
	"context"
	"time"

	"linerate/internal/host/command"
	"linerate/internal/host/timer"
)

// Scheduled returns the entry with which this system runs a command line periodically. The
// command must look once and end.
func Scheduled(argv []string, every time.Duration) (timer.Entry, error) {
	m, err := timer.Here()
	if err != nil {
		return timer.Entry{}, err
	}
	return m.Entry(timer.Job{Name: "linerate-watch", What: "linerate watch: reports when a path gets worse", Argv: argv, Quiet: "--quiet", Every: every})
}

// execTime is the timeout of a user's command for a change: a mail server may be slow.
const execTime = time.Minute

// Exec runs a shell command with a document on its standard input.
func Exec(ctx context.Context, text, document string) error {
	return command.Feed(ctx, text, document, execTime)
}
