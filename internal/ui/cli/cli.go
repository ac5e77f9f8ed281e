// Package cli is the command line: it turns arguments into calls, wires the packages together
// and prints results. One file holds one command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	terminal "golang.org/x/term"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/lab"
	"linerate/internal/report/format"
	"linerate/internal/report/term"
	uilive "linerate/internal/ui/live"
	"linerate/internal/ui/screen"
)

// Env is the environment of the commands; tests make their own.
type Env struct {
	Version  string
	Self     []string // the argument vector that starts this program again
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Now      func() time.Time
	// OutTerminal and ErrTerminal say whether a person watches, InTerminal whether one can
	// answer; Width returns the terminal's width in columns.
	InTerminal, OutTerminal, ErrTerminal bool
	Width                                func() int
	// AfterStep, for tests, is called by the watchdog after each step of a change; see
	// watchdog.Config.After.
	AfterStep func(step string)
	// Root, for tests, is the root folder for the files of a job for the next start of the
	// machine; see watchdog.Config.Root.
	Root string
	// Engines are the engines of this program; nil is engines.All.
	Engines app.Engines
	// Programs are the foreign programs that it measures with; nil is foreign.All.
	Programs app.Programs
}

// OS returns the environment of this process.
func OS(version string) Env {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return Env{
		Version: version, Self: []string{self},
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv: os.Getenv, Now: time.Now,
		InTerminal:  terminal.IsTerminal(int(os.Stdin.Fd())),
		OutTerminal: terminal.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: terminal.IsTerminal(int(os.Stderr.Fd())),
		Width: func() int {
			for _, f := range []*os.File{os.Stdout, os.Stderr} {
				if w, _, err := terminal.GetSize(int(f.Fd())); err == nil && w > 0 {
					return w
				}
			}
			return 80
		},
	}
}

// console is shared by all commands. Its Out and Err filter escapes that are not linerate's own;
// see package screen.
type console struct {
	Env
	// raw are stdout and stderr themselves: for a protocol, for a file's bytes, and for a
	// program of the user.
	raw   struct{ Out, Err io.Writer }
	knobs *knob.Index
	json  bool
	why   bool // of a check: the evidence of each line
	// details adds the statistics to a report.
	details bool
	full    bool // everything known, in documents that are brief by default
	db      string
	quiet   bool
	// timeout is how long a host may be silent while linerate connects to it.
	timeout time.Duration
	calm    time.Duration // how long a measurement waits for a busy host
	live    *live         // of the current experiment
	// lines prints progress in lines, without the live screen.
	lines   bool
	watched watched
	serving *serveScreen  // of serve, set before its first event
	sharing func()        // stops sharing the current session
	search  *uilive.State // of tune, shown with its proof
	// interrupt ends the command cleanly, like the first Ctrl-C; interrupted is closed when that
	// or a signal has begun.
	interrupt   func()
	interrupted <-chan struct{}
	ssh         sshFlags
	boot        bootJob
	// copied is the elapsed time of a copy at its last progress report.
	copied   time.Duration
	path     model.DataPath  // of the data connections of this command
	contract target.Contract // rate of the path, from --rate
	// commands are the ends that run this command's user's commands.
	commands []model.Host
	// intervals shows a test's intervals and connections; nil if not requested.
	intervals *intervals
	// acknowledge makes the far agent acknowledge a damaged journal.
	acknowledge bool
	journalOnce sync.Once // prints the problems of this machine's journal
	// printed says that stdout already has the command's JSON document.
	printed bool
}

// Main runs one command and returns its exit code.
func Main(ctx context.Context, env Env, args []string) int {
	// The first signal ends the command cleanly: hosts are undone, data kept. Then the handler
	// is removed, so that a second one kills the process; the agents undo by themselves when the
	// connection closes.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	context.AfterFunc(ctx, stop) // after a key that does the same, the next signal kills the process too

	// The flags before a mistake are parsed, those after it are not.
	a := &console{Env: env, knobs: knob.NewIndex(), json: wantsJSON(args), interrupt: interrupt, interrupted: ctx.Done()}
	a.raw.Out, a.raw.Err = env.Out, env.Err
	out, errs := screen.New(env.Out), screen.New(env.Err)
	if !utf8Locale(env.Getenv) {
		errs.ASCII()
		if !a.json {
			out.ASCII()
		}
	}
	a.Out, a.Err = out, errs
	defer func() { _, _ = out.Flush(), errs.Flush() }()
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	errs.Line("")
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*lab.ExitError](err); ok && ctx.Err() == nil {
		return exit.Code // of the user's own program, which has printed its own error
	}
	if ctx.Err() != nil && fault.KindOf(err) != fault.NotUndone {
		err = fault.WithKind(fault.Interrupted, err)
	}
	a.printError(err)
	return exitCode(err)
}

// printError is the only place that prints an error: what happened, then what to do.
func (a *console) printError(err error) {
	text, hint := plain.Words(err.Error()), plain.Words(fault.HintOf(err))
	if text != "" && (fault.KindOf(err) != fault.Interrupted || !errors.Is(err, context.Canceled)) {
		for line := range strings.Lines(text) {
			a.errLine("linerate: ", line)
		}
	}
	if hint != "" {
		for line := range strings.Lines(hint) {
			a.errLine("  ", line)
		}
	}
	if a.json && !a.printed {
		_ = a.document("linerate/error/v1", errorDoc{text, hint, exitCode(err)})
	}
}

// errLine prints a line to stderr after head. On a terminal it wraps between words and indents
// further lines to the first word; elsewhere it stays one line, for searching. A command to copy
// is never wrapped.
func (a *console) errLine(head, text string) {
	text = strings.TrimRight(text, "\r\n")
	if a.ErrTerminal && a.Width != nil && !strings.HasPrefix(strings.TrimSpace(text), "linerate ") {
		indent := len(head)
		if head == "" {
			indent = 2
		}
		lines := term.Wrap(text, a.Width()-len(head), a.Width()-indent)
		text = strings.Join(lines, "\n"+strings.Repeat(" ", indent))
	}
	fmt.Fprintf(a.Err, "%s%s\n", head, text)
}

// utf8Locale reports whether text may contain more than ASCII: not if the locale names another
// character set (POSIX.1-2017, Base Definitions section 8.2). No locale counts as UTF-8, which
// nearly every terminal uses.
func utf8Locale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if set := strings.ToUpper(getenv(name)); set != "" {
			return strings.Contains(set, "UTF-8") || strings.Contains(set, "UTF8")
		}
	}
	return true
}

// errorDoc is linerate/error/v1, printed if a command has no other document.
type errorDoc struct {
	Error    string `json:"error"`
	Hint     string `json:"hint"`
	ExitCode int    `json:"exit_code"`
}

// document prints the JSON document of a command.
func (a *console) document(schema string, v any) error {
	a.printed = true
	return format.Envelope(a.Out, schema, v)
}

// wantsJSON looks for --json without parsing the other flags.
func wantsJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--json", "--json=true", "--json=brief", "--json=full":
			return true
		}
	}
	return false
}

// documentFlag is --json, --json=brief or --json=full.
type documentFlag struct{ app *console }

// Set implements pflag.Value.
func (f *documentFlag) Set(text string) error {
	switch text {
	case "full", "brief":
		f.app.json, f.app.full = true, text == "full"
		return nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New("want brief or full")
	}
	f.app.json, f.app.full = on, false
	return nil
}

// String implements pflag.Value.
func (f *documentFlag) String() string {
	switch {
	case f.app == nil || !f.app.json:
		return "false"
	case f.app.full:
		return "full"
	}
	return "true"
}

// Type implements pflag.Value: a switch, whose value is optional.
func (f *documentFlag) Type() string { return "bool" }

// root builds the command tree.
func (a *console) root() *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "linerate",
		Short: "find what limits your network, fix it, prove it",
		Long: `linerate measures the path between two hosts, names what limits it, tries the
settings that could help on both hosts, keeps only those that provably helped,
and can always go back.

HOST is one of
  user@nas, ssh://user@nas:2222, ssh://nas         over the system's own ssh; linerate is
                                                   copied there for as long as it runs
  linerate://PIN.SECRET@nas:5299                   the join link that linerate serve prints
                                                   there; "$NAS" in the examples
  nas, nas:5300, 10.0.0.2                          a linerate serve --open, found on this
                                                   network by its name, or at that address
  lab:rate=1gbit,rtt=10ms                          two virtual hosts and a wire (Linux)
  'exec:10.0.0.2 ssh root@10.0.0.2 linerate agent' an agent started by any command, the
                                                   address of its data path first`,
		Example: `  linerate demo
  linerate test "$NAS"
  linerate run --far lab:rate=1gbit,rtt=10ms --factor far.tcp.recv_buffer_max=64KiB,1MiB`,
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              knownCommand,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if a.timeout < time.Second || a.timeout > time.Hour {
				return fault.Usagef("--timeout: %s is not between 1s and 1h", units.FormatDuration(a.timeout))
			}
			return emptyFlags(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return a.version()
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVarP(&version, "version", "v", false, "print the version")
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	f := root.PersistentFlags()
	f.Var(&documentFlag{a}, "json", "print one JSON document to stdout; --json=full with every fact of a session")
	f.Lookup("json").NoOptDefVal = "true"
	_ = root.RegisterFlagCompletionFunc("json", cobra.FixedCompletions([]string{"brief", "full"}, cobra.ShellCompDirectiveNoFileComp)) // fails only for an unknown flag
	f.StringVar(&a.db, "db", "", "file of the results, postgres://USER@HOST/DATABASE, or :memory: (default $LINERATE_DB, else the user's data directory)")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "no progress")
	f.BoolVar(&a.lines, "lines", false, "progress in lines, without the live screen")
	a.timeout = app.DefaultTimeout
	f.Var(durationFlag{&a.timeout}, "timeout", "how long a host may be silent before it is given up, 1s to 1h")
	a.ssh.bind(f)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flagFault(cmd, err)
	})
	root.AddGroup(
		&cobra.Group{ID: "measure", Title: "Measure and try:"},
		&cobra.Group{ID: "results", Title: "Results:"},
		&cobra.Group{ID: "hosts", Title: "Hosts:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("measure", a.bindContract(a.testCommand()), a.bindContract(a.checkCommand()), a.meshCommand(), a.bindContract(a.watchCommand()), a.fleetCommand(), a.bindContract(a.sweepCommand()), a.bindContract(a.copyCommand()), a.bindContract(a.runCommand()), a.bindContract(a.tuneCommand()), a.limitsCommand(), a.demoCommand(), a.labCommand())
	add("results", a.listCommand(), a.showCommand(), a.reportCommand(), a.uiCommand(), a.importCommand(), a.compareCommand(), a.annotateCommand(), a.rmCommand(), a.pruneCommand(), a.profileCommand(), a.exportCommand())
	add("hosts", a.factsCommand(), a.knobsCommand(), a.setCommand(), a.keepCommand(), a.bindContract(a.recheckCommand()), a.undoCommand(), a.serveCommand(), a.hubCommand(), a.agentCommand(), a.selftestCommand())
	root.AddCommand(a.docsCommand(), a.versionCommand(), a.completionCommand(), a.process().Watchdog(), a.tunerCommand(), a.labInitCommand(), exitCodesTopic())
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) { // not for all commands at each start
		fitHelp(c)
		help(c, args)
	})
	root.SetHelpCommand(helpCommand())
	a.complete(root, a.flagWords())
	return root
}

// Commands returns the command tree, for tests and documents about all commands. Its commands
// print nothing and have no environment.
func Commands() *cobra.Command {
	a := &console{Env: Env{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}}
	return a.root()
}

// exitCodesTopic is a help text.
func exitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "the closed list of exit codes", Long: "Exit codes:\n" + exitText}
}

// talk prints a line to stderr unless --quiet. Its arguments stay on that line: a host cannot
// start a line that looks like linerate's own.
func (a *console) talk(format string, args ...any) {
	if a.quiet {
		return
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			args[i] = plain.Line(v)
		case error:
			args[i] = plain.Line(v.Error())
		case fmt.Stringer:
			args[i] = plain.Line(v.String())
		}
	}
	a.errLine("", plain.Words(fmt.Sprintf(format, args...)))
}

// color reports whether stdout may carry colour (https://no-color.org).
func (a *console) color() bool {
	return a.OutTerminal && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
}
