package opener

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Page shows text in the pager that its user chose with PAGER, else in less, as git does. It
// wraps ErrNone if there is none, or if PAGER is cat, which means no pager. Leaving a pager
// before the end is not an error. getenv reads the environment.
func Page(ctx context.Context, text string, out, errs io.Writer, getenv func(string) string) error {
	args, err := pager(getenv("PAGER"))
	if err != nil {
		return err
	}
	// The pager handles Ctrl-C itself, so ctx does not end it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), out, errs
	cmd.Env = os.Environ()
	if getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS=FRX") // exits at once if the text fits the screen; shows bold
	}
	if getenv("LV") == "" {
		cmd.Env = append(cmd.Env, "LV=-c")
	}
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if code := exit.ExitCode(); code == 126 || code == 127 { // POSIX.1-2017, sh: not found, or not a program
			return fmt.Errorf("PAGER=%s: %w", getenv("PAGER"), ErrNone)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", args[0], err, ErrNone)
	}
	return nil
}

// pager returns the pager's command; chosen is the value of PAGER.
func pager(chosen string) ([]string, error) {
	switch chosen = strings.TrimSpace(chosen); chosen {
	case "cat":
		return nil, fmt.Errorf("PAGER wants none: %w", ErrNone)
	case "":
		path, err := exec.LookPath("less")
		if err != nil {
			return nil, fmt.Errorf("less is not installed: %w", ErrNone)
		}
		return []string{path}, nil
	}
	return words(chosen), nil
}
