package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/control/agent"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
)

// serveFlags are the flags of a server.
type serveFlags struct {
	listen, host, state string
	open                bool
	foreign             listenFlags
	sessions            int
	budget              budgetFlags
	metrics             string
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use: "serve", Short: "let other hosts measure to this one",
		Long: `serve listens on one port, TCP for control (TLS 1.3) and data, UDP for data. The
first start makes a key and a secret; every start prints the join link that holds
the key's pin and the secret. Those who have the link may measure, nothing else:
serve changes no settings of this host.

--open lets everybody measure who reaches the port, with limits: 60 s a run, 16
streams, 8 sessions, 4 from one source, UDP up to 100 Mbit/s.

--iperf3, --iperf2 and --netpipe answer the clients of those programs as well.
They know no secret: whoever reaches the port may measure, with the limits of
--open, except that a test of NPtcp may last 15 min. iperf3 can ask for a name and
a password, and has the limits of those who have the link then, and an hour.
iperf 2 is sent UDP only where a TCP connection of its host came first, unless
--iperf2-reverse-udp is given.

What all of them may take together, and one address without a key, is bounded by
what is free on this host, or by --limit, --limit-strangers and --limit-source:
` + limitExample + `.
none is no limit, 0 is nothing at all.`,
		Example: "  linerate serve\n  linerate serve --listen 10.0.0.2:5299 --open\n  linerate serve --iperf3 --iperf2=:5001 --netpipe",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serve(cmd.Context(), f)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.listen, "listen", ":"+tls.DefaultPort, "address and port; port 0 takes a free one")
	fl.StringVar(&f.host, "host", "", "name or address in the join link (default: the address listened on, else this host's name)")
	fl.StringVar(&f.state, "state", "", "directory of key and secret (default: $LINERATE_STATE, else the system's)")
	fl.BoolVar(&f.open, "open", false, "without a secret, with limits")
	f.foreign.register(fl)
	f.budget.register(fl)
	fl.StringVar(&f.metrics, "metrics", "", "answer http://ADDRESS/metrics with what is given away now, as OpenMetrics text; a port alone is one of 127.0.0.1")
	fl.IntVar(&f.sessions, "max-sessions", 0, "sessions at a time (default 64, or 8 with --open)")
	return c
}

func (a *app) serve(ctx context.Context, f serveFlags) error {
	dir, err := stateDir(f.state)
	if err != nil {
		return err
	}
	identity, err := tls.LoadIdentity(filepath.Join(dir, "serve"))
	if err != nil {
		return withHint(err, "use --state DIR for a directory of yours")
	}
	a.tellJournal(f.state)
	a.sweepUp(f.state)
	sharing, err := a.share(ctx, f)
	if err != nil {
		return err
	}
	server, err := tls.Listen(ctx, f.listen, tls.Config{
		Identity: identity, Open: f.open, MaxSessions: f.sessions, Budget: sharing.budget,
		Agent:   agent.Config{Version: a.Version, Engines: a.instruments(f.state, false)},
		Log:     func(line string) { a.talk("%s", line) },
		Welcome: func(v tls.Visitor, c *agent.Config) { a.welcome(f.state, v, c) },
		Ended: func(from netip.Addr, err error) {
			if err != nil {
				a.talk("session from %s ended: %v", from, err)
			} else {
				a.talk("session from %s ended", from)
			}
		},
	})
	if err != nil {
		sharing.close()
		if _, ok := errors.AsType[*net.AddrError](err); ok {
			return withHint(withCode(exitUsage, err), "write it like --listen 10.0.0.2:5299 or --listen :5299")
		}
		return withHint(err, "use --listen ADDRESS:PORT for another address or port")
	}
	foreign, err := a.listenForeign(ctx, f.foreign, new(hostKnobs).linkRate, sharing.budget)
	if err != nil {
		sharing.close()
		_ = server.Close()
		return err
	}
	link := server.Link(linkHost(f.host, server.Addr()))
	if err := a.printLink(link.String(), server.Addr().String(), f.open, foreign, sharing); err != nil {
		sharing.close()
		_ = server.Close()
		for _, s := range foreign {
			s.close()
		}
		return err
	}
	defer sharing.begin(ctx)()
	return a.serveAll(ctx, server.Serve, foreign)
}

// welcome gives a session its own view of this host: the interface and the route
// are those that lead to v, whatever the controller says of its address, and no
// session sees another's.
func (a *app) welcome(state string, v tls.Visitor, c *agent.Config) {
	h := a.newHostKnobs(state, "")
	c.Facts = func(ctx context.Context, _ string) (model.HostFacts, error) { return h.facts(ctx, v.Addr.String()) }
	c.LinkRate, c.Watch = h.linkRate, h.watch
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

func (a *app) printLink(link, addr string, open bool, foreign []foreignServer, sharing *sharing) error {
	if a.json {
		also := map[string]string{}
		for _, s := range foreign {
			also[s.name] = s.addr.String()
		}
		return a.document("linerate/serve/v1", map[string]any{
			"link": link, "address": addr, "open": open, "foreign": also,
			"budget": describeBudget(sharing.budget), "metrics": sharing.addr(),
		})
	}
	var text strings.Builder
	fmt.Fprintf(&text, "listening on %s; measure from another host with:\n  linerate test '%s'\n", addr, link)
	for _, s := range foreign {
		fmt.Fprintf(&text, "answering %s clients on %s\n", s.name, s.addr)
	}
	if addr := sharing.addr(); addr != "" {
		fmt.Fprintf(&text, "metrics on http://%s/metrics\n", addr)
	}
	_, err := io.WriteString(a.Out, text.String())
	a.printBudget(sharing.budget)
	return err
}
