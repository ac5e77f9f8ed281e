package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"linerate/internal/app/watch"
	"linerate/internal/fault"
	"linerate/internal/store/postgres"
)

// watchTimer prints, installs or removes the system's timer for looks.
func (a *console) watchTimer(ctx context.Context, f watchFlags, fl *pflag.FlagSet, every time.Duration, args []string) error {
	switch {
	case a.json:
		return fault.Usagef("--print-unit, --install and --remove print no document: leave out --json")
	case (f.print || !f.remove) && len(args) == 0:
		return fault.WithHint(fault.Usagef("there is nothing to look at"), "name a HOST: linerate watch root@nas --install")
	case a.storePath() == inMemory:
		return fault.Usagef("--db %s keeps nothing from one look to the next", inMemory)
	}
	db := a.storePath()
	if !postgres.IsAddress(db) {
		var err error
		if db, err = filepath.Abs(db); err != nil {
			return err
		}
	}
	argv := slices.Concat(a.Self, []string{"watch"}, args, []string{"--once", "--db=" + db})
	fl.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "install", "print-unit", "remove", "once", "db", "lines", "quiet":
		default:
			argv = append(argv, "--"+f.Name+"="+f.Value.String())
		}
	})
	e, err := watch.Scheduled(argv, every)
	if err != nil {
		return err
	}
	var paths []string
	for _, file := range e.Files {
		paths = append(paths, file.Path)
		if f.print {
			fmt.Fprintf(a.Out, "# %s\n%s\n", file.Path, file.Text)
		}
	}
	switch {
	case f.print:
		if e.Start != "" {
			fmt.Fprintf(a.Out, "# begin it with: %s\n", e.Start)
		}
		return nil
	case f.remove:
		gone, err := e.Remove(ctx)
		if err == nil && len(gone) == 0 {
			return fault.WithHint(fault.Usagef("nothing is installed here"), "what was seen is removed with: linerate prune --kind watch")
		}
		for _, path := range gone {
			fmt.Fprintln(a.Out, "removed "+path)
		}
		return err
	}
	if err := e.Install(ctx); err != nil {
		return err
	}
	fmt.Fprintln(a.Out, "installed "+strings.Join(paths, " and "))
	if e.Note != "" {
		a.talk("%s", e.Note)
	}
	return nil
}
