// Package opener shows a file in the program that its user chose for such files, and a text in
// the pager that they chose.
package opener

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// ErrNone reports that this system cannot show a file: it has no opener, or no screen.
var ErrNone = errors.New("nothing here shows files")

// patience is how long an opener may take to fail. Most end at once; some are the program that
// shows the file, and stay.
const patience = 3 * time.Second

// Open shows the file at path with the system's own opener: xdg-open, open, or rundll32. It wraps
// ErrNone if there is none. getenv reads the environment.
func Open(ctx context.Context, path string, getenv func(string) string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if why := blind(getenv); why != "" {
		return fmt.Errorf("%s: %w", why, ErrNone)
	}
	args := opener(path)
	program, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("%s is not installed: %w", args[0], ErrNone)
	}
	// It must outlive this program, so ctx does not end it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, args[1:]...)
	cmd.Env = os.Environ()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", args[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		return nil
	case <-time.After(patience):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
