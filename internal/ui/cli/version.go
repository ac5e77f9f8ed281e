package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func (a *console) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: exactArgs(),
		Example: "  linerate version\n  linerate version --json",
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.document("linerate/version/v1", map[string]any{
					"version": a.Version, "protocol": protocol,
					"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(a.Out, "linerate %s, session protocol %d, %s %s/%s\n",
				a.Version, protocol, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
