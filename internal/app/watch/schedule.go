package watch

import (
	"context"
	"time"

	"linerate/internal/host/command"
	"linerate/internal/host/timer"
)

// Scheduled returns what has this system run a command line, which looks once, again and
// again.
func Scheduled(argv []string, every time.Duration) (timer.Entry, error) {
	m, err := timer.Here()
	if err != nil {
		return timer.Entry{}, err
	}
	return m.Entry(timer.Job{Name: "linerate-watch", What: "linerate watch: tells when a path gets worse", Argv: argv, Quiet: "--quiet", Every: every})
}

// execTime bounds a command that is told of a change: a mail server may be slow.
const execTime = time.Minute

// Exec has a command of the shell read a document.
func Exec(ctx context.Context, text, document string) error {
	return command.Feed(ctx, text, document, execTime)
}
