package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"linerate/internal/app/serve"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/store/postgres"
	uilive "linerate/internal/ui/live"
	"linerate/internal/ui/screen"
)

// serveFlags are the flags of a server.
type serveFlags struct {
	serve.Config
	printUnit bool
}

func (a *console) serveCommand() *cobra.Command {
	var f serveFlags
	programs := a.world().AllPrograms()
	c := &cobra.Command{
		Use: "serve", Short: "let other hosts measure to this one",
		Long: `serve listens on one port, TCP for control (TLS 1.3) and data, UDP for data. The
first start makes a key called default and prints its join link, which holds the
server's pin and the key's secret: anyone who has it may measure. linerate serve key makes
and revokes more keys, linerate serve link prints the first link again.

With --allow-tune, holders of a key with the right tune may change settings of this
host as well, with the same undo as everywhere. Changes are made by a process of its
own, the only part that stays root.

Started by root, the part that listens drops root once the port is open: it becomes
the user of --user, or a numeric user without an account. Where the kernel can, it
keeps access to the files that it needs only; a program that can do neither, since it was
built with cgo, refuses unless --unconfined allows it. --print-unit prints a unit for systemd.

--audit FILE records one line for each session, run, change and refused attempt.

On a terminal a live screen shows who measures what, and what is given away: l shows the
terminal as it was, with the link, q stops, --lines leaves it out.

With --open, or --announce, those on the local network find the server by the name of
this host (mDNS): linerate test NAME. It is announced with its port and its pin, never
with a secret; --announce=false leaves that out.

--open lets anyone who reaches the port measure, with limits: 60 s a run, 16
streams, 8 sessions, 4 from one source, UDP up to 100 Mbit/s. No option raises what
one run gets without a key. It never lets them change settings.

` + programs.Names("--") + ` answer the clients of those programs as well.
Those protocols have no secret: anyone who reaches the port may measure, with the limits of
--open.
` + programs.Help() + `
What they measured is kept: see linerate list --kind served.

What all clients together, and one address without a key, may use is bounded by
what is free on this host, or by --limit, --limit-anonymous and --limit-source:
` + serve.LimitExample + `.
none is no limit, 0 is nothing at all.`,
		Example: "  linerate serve\n  linerate serve --listen 10.0.0.2:5299 --open\n  linerate serve --open --announce=false\n  linerate serve --allow-tune --audit /var/log/linerate.log\n  linerate serve --iperf3 --iperf2=:5001 --netpipe --udpstp",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.printUnit {
				return a.printUnit("serve", cmd.Flags())
			}
			f.Foreign = givenServers(cmd.Flags(), programs)
			if !cmd.Flags().Changed("announce") {
				f.Announce = f.Open && a.Getenv("LINERATE_MDNS") != "off"
			}
			if cmd.Flags().Changed("max-sessions") && f.Sessions < 1 {
				return fault.WithHint(fault.Usagef("--max-sessions: %d is not a number of sessions from 1", f.Sessions), "leave it out for the default")
			}
			return a.serve(cmd.Context(), f)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.Listen, "listen", ":"+serve.DefaultPort, "address and port; port 0 takes a free one")
	fl.StringVar(&f.Host, "host", "", "name or address in the join link (default: the address listened on, else this host's name)")
	fl.StringVar(&f.State, "state", "", "directory of the server's state (default: $LINERATE_STATE, else the system's)")
	fl.BoolVar(&f.Open, "open", false, "without a secret, with limits")
	registerServers(fl, programs)
	fl.BoolVar(&f.Announce, "announce", false, "say on the local network, by mDNS, that this server is there, so that it is found by its name (default: with --open)")
	registerLimits(fl, &f.Limits)
	fl.StringVar(&f.Metrics, "metrics", "", "answer http://ADDRESS/metrics with what is given away now, as Prometheus text or OpenMetrics; a port alone is one of 127.0.0.1")
	fl.IntVar(&f.Sessions, "max-sessions", 0, "sessions at a time (default 64, or 8 with --open)")
	fl.StringVar(&f.Peers, "peers", "", "other hosts that sessions may measure with, for linerate mesh: addresses and networks, as 10.0.0.0/24,10.1.0.7 (default: only where a session comes from)")
	fl.BoolVar(&f.MPTCP, "mptcp", false, "speak Multipath TCP with clients that ask for it (test --mptcp); Linux")
	fl.BoolVar(&f.AllowTune, "allow-tune", false, "let keys with the right tune change settings of this host; needs root")
	fl.BoolVar(&f.AllowCommands, "allow-commands", false, "let them run commands of their own too (run --factor cmd:NAME=COMMAND): a client with such a key is root here")
	fl.StringVar(&f.User, "user", "", "user to become once the port is open (default, for root: one that no account has)")
	fl.BoolVar(&f.Unconfined, "unconfined", false, "serve, started by root, also where this program can give up neither new privileges nor files (built with cgo)")
	fl.StringVar(&f.Audit, "audit", "", "append a line for each event to this file")
	fl.BoolVar(&f.printUnit, "print-unit", false, "print a systemd unit that starts serve with these flags")
	c.AddCommand(a.keyCommand(), a.linkCommand())
	return c
}

func (a *console) serve(ctx context.Context, f serveFlags) error {
	a.serving = &serveScreen{state: uilive.NewServer(a.Now, a.traffic)}
	if a.ErrTerminal && !a.quiet {
		a.serving.line, _ = a.Err.(*screen.Writer)
	}
	a.tellJournal(f.State)
	var kept *recorder
	f.Served = func(one model.Session) { kept.keep(one) }
	path := a.storePath()
	if abs, err := filepath.Abs(path); err == nil && path != inMemory && !postgres.IsAddress(path) {
		path, f.Results = abs, filepath.Dir(abs)
	}
	s, err := serve.Open(ctx, a.world(), f.Config)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := a.printServer(s, f.Open); err != nil {
		return err
	}
	a.serving.state.SetAbout(aboutServer(s, f.Open))
	defer a.watchServer(ctx, s)()
	if len(s.Listeners()) > 0 {
		if s.GaveUpRoot() && a.db == "" && a.Getenv("LINERATE_DB") == "" {
			path = recordsFile
		}
		if kept = a.record(ctx, path); kept != nil && path == recordsFile {
			whole, _ := filepath.Abs(path) // its folder is the working directory, which exists
			a.talk("keeps what clients of other programs measure: linerate list --kind served --db %s", whole)
		}
		defer kept.close()
	}
	return s.Run(ctx)
}

// watchServer shows the usage of s, and passes on the signal to reopen the audit log, until the
// returned function is called.
func (a *console) watchServer(ctx context.Context, s *serve.Server) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { a.status(ctx, s.Usage) })
	all.Go(func() { a.serving.show(ctx, a, s) })
	hangup := make(chan os.Signal, 1)
	if s.Logs() {
		signal.Reset(syscall.SIGHUP) // which ends other commands
		signal.Notify(hangup, syscall.SIGHUP)
		all.Go(func() {
			for {
				select {
				case <-hangup:
					s.Reopen()
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return func() {
		signal.Stop(hangup)
		cancel()
		all.Wait()
	}
}

// printServer prints where the server listens, and its link: with a secret only if that is new.
func (a *console) printServer(s *serve.Server, open bool) error {
	if a.json {
		also := map[string]string{}
		for _, l := range s.Listeners() {
			also[l.Name] = l.Addr.String()
		}
		return a.document("linerate/serve/v1", map[string]any{
			"link": s.Link(), "address": s.Addr().String(), "open": open, "foreign": also,
			"budget": describeBudget(s.Usage()), "metrics": s.MetricsAddr(),
		})
	}
	var text strings.Builder
	if s.Shows() {
		fmt.Fprintf(&text, "listening on %s; measure from another host with:\n  linerate test '%s'\n", s.Addr(), s.Link())
	} else {
		fmt.Fprintf(&text, "listening on %s; its link was printed when its key was made:\n"+
			"linerate serve link prints that of the first key again, linerate serve key add NAME makes another\n", s.Addr())
	}
	if name := s.AnnouncedAs(); name != "" {
		fmt.Fprintf(&text, "announced on the local network as %s\n", name)
	}
	for _, l := range s.Listeners() {
		fmt.Fprintf(&text, "answering %s clients on %s\n", l.Name, l.Addr)
	}
	if addr := s.MetricsAddr(); addr != "" {
		fmt.Fprintf(&text, "metrics on http://%s/metrics\n", addr)
	}
	_, err := io.WriteString(a.Out, text.String())
	a.printBudget(s.Usage())
	return err
}

// tunerCommand is the process of a server that changes settings.
func (a *console) tunerCommand() *cobra.Command {
	var state string
	var commands bool
	c := &cobra.Command{
		Use: "tuner", Hidden: true, Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, ok := a.In.(*os.File)
			if !ok {
				return errors.New("tuner needs its own stdin")
			}
			a.tellJournal(state)
			return serve.Tune(cmd.Context(), a.world(), in, state, commands)
		},
	}
	bindServeState(c, &state)
	c.Flags().BoolVar(&commands, "allow-commands", false, "run commands of those who may tune")
	return c
}
