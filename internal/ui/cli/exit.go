package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"linerate/internal/fault"
	"linerate/internal/store"
)

const exitText = `  0    done
  1    the operation failed; the message says why
  2    wrong flags, arguments, plan file or lab specification
  3    a host could not be reached, or refused
  4    this system or these rights cannot do that
  5    the session ended, but its result must not be used
  6    results could not be read or kept
  7    a host may still hold a changed setting: see linerate undo
  8    check, recheck, selftest, tune, mesh --fail-on, watch --once: something is not as it should be
  9    check --expect: a demand is not met
  130  stopped by the user: what was changed goes back, data is kept, a run may be resumed
`

// exitCode is the one place that turns an error into an exit code.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	return fault.KindOf(err).ExitCode()
}

func (a *console) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: exactArgs(),
		Example: "  linerate version\n  linerate version --json",
		RunE:    func(*cobra.Command, []string) error { return a.version() },
	}
}

// version prints the versions of this program.
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
