// Package agent is the command line of a host that is measured and changed. It is all of
// cmd/linerate-agent, a third of linerate's size: a far host needs no store, reports or pages.
// linerate has the same commands besides its own.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/host/watchdog"
)

// Process describes the process that runs a command.
type Process struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool           // Out is a terminal
	World    func() app.Env // called after the flags are parsed
}

// Main runs a command of the agent program and returns its exit code. self is the argument
// vector that starts this program again; nil is its own file.
func Main(ctx context.Context, version string, self, args []string) int {
	// The first signal ends the command cleanly, a second one kills the process; the watchdog
	// then undoes its changes.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	if self == nil {
		file, err := os.Executable()
		if err != nil {
			file = os.Args[0]
		}
		self = []string{file}
	}
	index := knob.NewIndex()
	p := Process{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	p.World = func() app.Env {
		return app.Env{Version: version, Self: self, Getenv: os.Getenv, Now: time.Now, Catalogue: index, Asker: app.NoUser{}, Observer: printer{p.Err}}
	}
	root := &cobra.Command{
		Use: "linerate-agent", Short: "the part of linerate that runs on a host which is measured",
		Long: `linerate-agent measures and changes the host that it runs on, for a linerate elsewhere,
which copies it here over ssh and starts it.`,
		SilenceErrors: true, SilenceUsage: true, CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	// Not cobra's own flag: with its templates the linker would keep a third more.
	root.AddCommand(&cobra.Command{Use: "version", Short: "print the version", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		_, err := fmt.Fprintf(p.Out, "linerate-agent %s, protocol %d, %s %s/%s\n", version, session.Protocol, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return err
	}})
	root.AddCommand(p.Command(new(bool)), p.Watchdog(), p.undo())
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && fault.KindOf(err) != fault.NotUndone {
		err = fault.WithKind(fault.Interrupted, err)
	}
	fmt.Fprintf(p.Err, "linerate: %s\n", plain.Words(err.Error()))
	if hint := fault.HintOf(err); hint != "" {
		fmt.Fprintf(p.Err, "  %s\n", plain.Words(hint))
	}
	return fault.KindOf(err).ExitCode()
}

// Command is the agent of one session. atBoot points to the program's flag --at-boot.
func (p Process) Command(atBoot *bool) *cobra.Command {
	var o local.Options
	var rate float64  // bit/s
	var remove string // directory of this program, removed with it
	c := &cobra.Command{
		Use: "agent", Short: "measure and change this host for a controller on stdin and stdout",
		Long: `agent serves one session on its stdin and stdout. It is started by a controller:
linerate test 'exec:10.0.0.2 ip netns exec b linerate agent'. What it changes is
undone when the session ends, however it ends; what an earlier agent left changed
when it was killed is undone at the start.`,
		Example: `  linerate test 'exec:10.0.0.2 ip netns exec b linerate agent'`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, ok := p.Out.(*os.File)
			if ok && p.Terminal {
				return fault.WithHint(fault.Usagef("agent speaks a protocol on stdin and stdout, not to people"), "see linerate agent --help")
			}
			if !ok {
				return errors.New("agent needs its own stdout")
			}
			in, ok := p.In.(*os.File)
			if !ok {
				return errors.New("agent needs its own stdin")
			}
			conn, done := wire.Join(in, out)
			env := p.World()
			defer removeSelf(env.Self[0], remove)
			o.AtBoot, o.Rate = *atBoot, units.BitRate(rate)
			err := local.Serve(cmd.Context(), env, conn, o)
			_ = conn.Close()
			_ = in.Close()
			select {
			case <-done:
			case <-time.After(time.Second): // in case the peer never reads the last message
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.State, "state", "", "directory of the journal (default: $LINERATE_STATE, else the system's)")
	f.StringVar(&o.Link, "interface", "", "interface that link settings act on (default: the one that leads to the other end)")
	f.Float64Var(&rate, "link-rate", 0, "rate of that link in bit/s, where the system does not know it")
	f.BoolVar(atBoot, "at-boot", false, "while settings are changed, have a job at the next start of the host put them back, too")
	f.BoolVar(&o.Commands, "allow-commands", false, "let the controller run commands of its own here, with the rights of this agent")
	f.BoolVar(&o.Acknowledge, "acknowledge", false, "you have seen what is left of a damaged journal here; see linerate undo")
	f.StringVar(&remove, "remove", "", "at the end, remove this program with its directory DIR")
	return c
}

// removeSelf removes the running program and its directory, if that is dir: a copy for one
// session. It never removes anything else.
func removeSelf(self, dir string) {
	if dir == "" || filepath.Dir(self) != filepath.Clean(dir) {
		return
	}
	_ = os.Remove(self)
	_ = os.Remove(dir) // only if empty
}

// Watchdog is the command for the process that owns an agent's changes.
func (p Process) Watchdog() *cobra.Command {
	return &cobra.Command{
		Use: "watchdog", Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := watchdog.ParseArgs(args)
			if err != nil {
				return fault.WithKind(fault.Usage, err)
			}
			env := p.World()
			cfg.After, cfg.Talk, cfg.Host.Index = env.AfterStep, p.Err, env.Catalogue
			// The watchdog handles the signals that end other commands.
			return watchdog.Serve(context.WithoutCancel(cmd.Context()), p.In, p.Out, cfg)
		},
	}
}

// undo is run by the job for the next start, or by a person after an agent was killed.
func (p Process) undo() *cobra.Command {
	var state string
	var atBoot bool
	c := &cobra.Command{
		Use: "undo", Short: "put back what was changed here and not kept", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			machine := local.New(p.World(), local.Options{State: state})
			undo := func(ctx context.Context) ([]model.Change, error) { return machine.Revert(ctx, "") }
			if atBoot {
				undo = machine.RecoverAtStart
			}
			changes, err := undo(cmd.Context())
			for _, one := range changes {
				fmt.Fprintln(p.Out, plain.Line(strings.TrimSpace(fmt.Sprintf("%s: %s %s", one.Knob, one.State, one.Detail))))
			}
			return local.UndoFault(err)
		},
	}
	c.Flags().StringVar(&state, "state", "", "directory of the journal (default: $LINERATE_STATE, else the system's)")
	c.Flags().BoolVar(&atBoot, "at-boot", false, "only what was not confirmed: what the job for the next start does")
	return c
}

// printer prints this host's events for the user who started the agent.
type printer struct{ to io.Writer }

// Observe implements app.Observer.
func (t printer) Observe(e app.Event) {
	switch e := e.(type) {
	case app.Trouble:
		fmt.Fprintf(t.to, "linerate: %s\n", plain.Words(e.Err.Error()))
	case app.HostSaid:
		fmt.Fprintln(t.to, plain.Line(e.Line))
	case app.SweptUp:
		fmt.Fprintln(t.to, plain.Line(e.String()))
	default: // of other commands
	}
}
