package watchdog

import (
	"flag"
	"fmt"
	"io"
)

// Args returns the flags that make another process's ParseArgs return c, except for Command,
// Talk, After and Host.Backend, which flags cannot express.
func (c Config) Args() []string {
	args := []string{
		"--dir", c.Dir, "--proc-sys", c.Host.ProcSys, "--interface", c.Host.Interface, "--route", c.Host.Route, "--cap", c.Cap.String(),
		"--patience", c.Patience.String(),
	}
	if c.Version != "" {
		args = append(args, "--version", c.Version)
	}
	if c.AtBoot {
		args = append(args, "--at-boot")
	}
	if c.Root != "" {
		args = append(args, "--root", c.Root)
	}
	return args
}

// ParseArgs parses what Args returns.
func ParseArgs(args []string) (Config, error) {
	var c Config
	f := flag.NewFlagSet("watchdog", flag.ContinueOnError)
	f.SetOutput(io.Discard) // the error has the text
	f.StringVar(&c.Dir, "dir", "", "directory of the journal")
	f.StringVar(&c.Host.ProcSys, "proc-sys", "", "root of the sysctl files")
	f.StringVar(&c.Host.Interface, "interface", "", "that knobs of links act on")
	f.StringVar(&c.Host.Route, "route", "", "that knobs of routes act on")
	f.DurationVar(&c.Cap, "cap", 0, "longest deadline that is accepted")
	f.DurationVar(&c.Patience, "patience", 0, "wait for another watchdog to end")
	f.BoolVar(&c.AtBoot, "at-boot", false, "put changes back at the next start of the machine, too")
	f.StringVar(&c.Version, "version", "", "of the linerate that writes the journal")
	f.StringVar(&c.Root, "root", "", "root of the files of the system")
	if err := f.Parse(args); err != nil {
		return Config{}, fmt.Errorf("watchdog: %w", err)
	}
	if f.NArg() > 0 {
		return Config{}, fmt.Errorf("watchdog: unexpected argument %q", f.Arg(0))
	}
	return c, nil
}
