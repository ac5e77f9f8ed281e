package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app"
	"linerate/internal/app/here"
	"linerate/internal/control/agent"
	"linerate/internal/control/audit"
	"linerate/internal/control/wire/tls"
)

// serveFlags are the flags of a server.
type serveFlags struct {
	listen, host, state string
	open                bool
	foreign             listenFlags
	sessions            int
	budget              budgetFlags
	metrics             string

	allowTune, printUnit bool
	user, audit          string
}

func (a *console) serveCommand() *cobra.Command {
	var f serveFlags
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
keeps access to the files that it needs only. --print-unit prints a unit for systemd.

--audit FILE records one line for each session, run, change and refused attempt.

--open lets anyone who reaches the port measure, with limits: 60 s a run, 16
streams, 8 sessions, 4 from one source, UDP up to 100 Mbit/s. It never lets them
change settings.

--iperf3, --iperf2 and --netpipe answer the clients of those programs as well.
Those protocols have no secret: anyone who reaches the port may measure, with the limits of
--open, except that a test of NPtcp may last 15 min, or the lifetime of a session
where that is less, as it is unless --limit-source says more. iperf3 can ask for a name and
a password, and has the limits of those who have the link then, and an hour.
iperf 2 is sent UDP only where a TCP connection of its host came first, unless
--iperf2-reverse-udp is given.

What all clients together, and one address without a key, may use is bounded by
what is free on this host, or by --limit, --limit-anonymous and --limit-source:
` + limitExample + `.
none is no limit, 0 is nothing at all.`,
		Example: "  linerate serve\n  linerate serve --listen 10.0.0.2:5299 --open\n  linerate serve --allow-tune --audit /var/log/linerate.log\n  linerate serve --iperf3 --iperf2=:5001 --netpipe",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.printUnit {
				return a.printUnit(cmd.Flags())
			}
			return a.serve(cmd.Context(), f)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.listen, "listen", ":"+tls.DefaultPort, "address and port; port 0 takes a free one")
	fl.StringVar(&f.host, "host", "", "name or address in the join link (default: the address listened on, else this host's name)")
	fl.StringVar(&f.state, "state", "", "directory of the server's state (default: $LINERATE_STATE, else the system's)")
	fl.BoolVar(&f.open, "open", false, "without a secret, with limits")
	f.foreign.register(fl)
	f.budget.register(fl)
	fl.StringVar(&f.metrics, "metrics", "", "answer http://ADDRESS/metrics with what is given away now, as OpenMetrics text; a port alone is one of 127.0.0.1")
	fl.IntVar(&f.sessions, "max-sessions", 0, "sessions at a time (default 64, or 8 with --open)")
	fl.BoolVar(&f.allowTune, "allow-tune", false, "let keys with the right tune change settings of this host; needs root")
	fl.StringVar(&f.user, "user", "", "user to become once the port is open (default, for root: one that no account has)")
	fl.StringVar(&f.audit, "audit", "", "append a line for each event to this file")
	fl.BoolVar(&f.printUnit, "print-unit", false, "print a systemd unit that starts serve with these flags")
	c.AddCommand(a.keyCommand(), a.linkCommand())
	return c
}

func (a *console) serve(ctx context.Context, f serveFlags) (err error) {
	s, err := a.prepareServing(ctx, f)
	if err != nil {
		return err
	}
	defer s.close()
	a.tellJournal(f.state)
	if s.sharing, err = a.share(ctx, f); err != nil {
		return err
	}
	server, err := tls.Listen(ctx, f.listen, tls.Config{
		Identity: s.identity, Open: f.open, Find: s.find, Budget: s.sharing.budget,
		Strangers: s.sharing.files.Strangers, Friends: s.sharing.files.Friends,
		Agent:   agent.Config{Version: a.Version, Engines: here.EnginesAt(a.Engines, s.copies, false)},
		Log:     func(line string) { a.talk("%s", line) },
		Welcome: s.welcome, Refused: s.refused, Dropped: s.dropped, Ended: s.ended,
	})
	if err != nil {
		s.sharing.close()
		if _, ok := errors.AsType[*net.AddrError](err); ok {
			return withHint(app.WithKind(app.Usage, err), "write it like --listen 10.0.0.2:5299 or --listen :5299")
		}
		return withHint(err, "use --listen ADDRESS:PORT for another address or port")
	}
	foreign, err := a.listenForeign(ctx, f.foreign, new(here.Machine).LinkRate, s.sharing)
	if err != nil {
		s.sharing.close()
		_ = server.Close()
		return err
	}
	link := server.Link(linkHost(f.host, server.Addr()))
	s.noteAddress(link.Addr)
	if err = s.giveUpRights(server); err == nil {
		here.SweepUpAt(a.world(), s.copies)
		err = s.printLink(link.String(), server.Addr().String(), foreign)
	}
	if err != nil {
		s.sharing.close()
		_ = server.Close()
		for _, f := range foreign {
			f.close()
		}
		return err
	}
	s.log.Record(audit.Event{Kind: audit.Started, Protocol: protocolName, Reason: "listens on " + server.Addr().String()})
	defer s.log.Record(audit.Event{Kind: audit.Stopped, Protocol: protocolName})
	defer s.watch(ctx)()
	defer s.sharing.begin(ctx)()
	return a.serveAll(ctx, server.Serve, foreign)
}

// linkHost is what goes into the join link: the user's word, the address that
// is listened on, or this host's name.
func linkHost(given string, addr net.Addr) string {
	if given != "" {
		return given
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		return tcp.IP.String()
	}
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "localhost"
}

// printLink says where the server listens, and its link: with a secret only where
// that was made just now.
func (s *serving) printLink(link, addr string, foreign []foreignServer) error {
	a := s.app
	if a.json {
		also := map[string]string{}
		for _, f := range foreign {
			also[f.name] = f.addr.String()
		}
		return a.document("linerate/serve/v1", map[string]any{
			"link": link, "address": addr, "open": s.flags.open, "foreign": also,
			"budget": describeBudget(s.sharing.budget), "metrics": s.sharing.addr(),
		})
	}
	var text strings.Builder
	if s.made || s.flags.open {
		fmt.Fprintf(&text, "listening on %s; measure from another host with:\n  linerate test '%s'\n", addr, link)
	} else {
		fmt.Fprintf(&text, "listening on %s; its link was printed when its key was made:\n"+
			"linerate serve link prints that of the first key again, linerate serve key add NAME makes another\n", addr)
	}
	for _, f := range foreign {
		fmt.Fprintf(&text, "answering %s clients on %s\n", f.name, f.addr)
	}
	if addr := s.sharing.addr(); addr != "" {
		fmt.Fprintf(&text, "metrics on http://%s/metrics\n", addr)
	}
	_, err := io.WriteString(a.Out, text.String())
	a.printBudget(s.sharing.budget)
	return err
}
