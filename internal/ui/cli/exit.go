package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"linerate/internal/app"
	"linerate/internal/store"
	"linerate/internal/ui/config"
)

const exitText = `  0    done
  1    the operation failed; the message says why
  2    wrong flags, arguments, plan file or lab specification
  3    a host could not be reached, or refused
  4    this system or these rights cannot do that
  5    the session ended, but its result must not be used
  6    results could not be read or kept
  7    a host may still hold a changed setting: see linerate undo
  8    check, recheck, selftest, tune: something is not as it should be
  9    check --expect: a demand is not met
  130  stopped by the user: what was changed goes back, data is kept, a run may be resumed
`

// exitCode is the one place that turns an error into an exit code.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	return kindOf(err).ExitCode()
}

// kindOf is app.KindOf for the errors of the packages too that only the command
// line knows: plan files and the store.
func kindOf(err error) app.Kind {
	var f *app.Fault
	var problems config.Errors
	switch {
	case errors.As(err, &f), errors.Is(err, context.Canceled):
	case errors.As(err, &problems):
		return app.Usage
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrFull), errors.Is(err, store.ErrNewer), errors.Is(err, store.ErrForeign):
		return app.Store
	}
	return app.KindOf(err)
}

// withHint is app.WithHint with the kind that kindOf finds.
func withHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return app.WithHint(app.WithKind(kindOf(err), err), format, args...)
}

// usagef returns a fault of the user's input.
func usagef(format string, args ...any) error { return app.Usagef(format, args...) }

func hintOf(err error) string {
	if h, ok := errors.AsType[*store.HintError](err); ok && app.HintOf(err) == "" {
		return h.Hint
	}
	return app.HintOf(err)
}

func (a *console) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: exactArgs(),
		Example: "  linerate version\n  linerate version --json",
		RunE:    func(*cobra.Command, []string) error { return a.version() },
	}
}

// version prints what this program is.
func (a *console) version() error {
	if a.json {
		return a.document("linerate/version/v1", map[string]any{
			"version": a.Version, "store_schema": store.Schema, "protocol": protocol,
			"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
		})
	}
	_, err := fmt.Fprintf(a.Out, "linerate %s, schema %d, protocol %d, %s %s/%s\n",
		a.Version, store.Schema, protocol, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
