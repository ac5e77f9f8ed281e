package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app/hub"
	"linerate/internal/app/watch"
	"linerate/internal/core/fleet"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
	reportfleet "linerate/internal/report/fleet"
	"linerate/internal/report/format"
	"linerate/internal/store/postgres"
	"linerate/internal/store/sqlite"
)

// hubFlags are the flags of a hub.
type hubFlags struct {
	hub.Config
	state, exec string
	printUnit   bool
	init        bool
}

func (a *console) hubCommand() *cobra.Command {
	var f hubFlags
	c := &cobra.Command{
		Use: "hub", Short: "have many hosts measure with each other, and say when something changes",
		Long: `hub plans which hosts measure with each other and when, takes their results, and reports
what has changed. It prints the command with which a host joins: linerate agent --hub LINK.
Each pair is looked at as soon as both are there, and then in turn: six looks an hour for
each host, each 25 s long, as linerate watch makes them. A host is never in two runs at a
time, and measures within its owner's limits. What differs from what is usual on a path is
measured again at once, up to 24 times, and only what that confirms is reported.

The hub orders measurements, and nothing else: it has no way to change a setting.
Everything is in one SQLite file, for up to 50 hosts. Agents that cannot reach the hub go
on for an hour and keep their results.

With --db postgres://USER@HOST/DATABASE several hubs share a PostgreSQL database, for up to
1,000 hosts: copy the state directory's folder hub, which holds their key, to each of them, and
name all of them: --host NAME,NAME. One of them plans; if it is killed, another one does
within 15 s.

The link holds a token: anyone who has it may add a host. --new-links makes others, and
revokes those before; hosts that have joined stay. linerate fleet remove takes a host out.
--init makes the key and the links alone, to be copied to where hubs will run.
--exec runs a command for each event (worse, better, silent, back, joined, twin, clock,
hub, operator) with a JSON document on its standard input. Started by root, hub becomes the user of
--user, or a numeric user without an account. See linerate fleet for what it knows.`,
		Example: `  linerate hub
  linerate hub --listen 10.0.0.2:5300 --rounds 12
  linerate hub --exec 'mail -s "the network" me@example.org'
  linerate hub --metrics :9101
  linerate hub --db postgres://linerate@db/fleet --host hub1,hub2
  linerate hub --init --state fleet --host linerate-hub.linerate.svc
  linerate hub --new-links`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.printUnit {
				return a.printUnit("hub", cmd.Flags())
			}
			if f.init {
				return a.initHub(f)
			}
			return a.hub(cmd.Context(), f)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.Listen, "listen", ":"+hub.DefaultPort, "address and port; port 0 takes a free one")
	fl.StringVar(&f.Host, "host", "", "names or addresses in the links, with commas between them (default: the address listened on, else this host's)")
	fl.IntVar(&f.Rounds, "rounds", hub.DefaultRounds, "looks of each host an hour, 1 to 60")
	fl.StringVar(&f.exec, "exec", "", "shell command for each event; it reads a JSON document")
	fl.BoolVar(&f.NewLinks, "new-links", false, "make new links, and revoke those before")
	fl.BoolVar(&f.init, "init", false, "make the key and the links of the hubs named by --host, and end: for hubs in containers")
	fl.StringVar(&f.User, "user", "", "user to become once the port is open (default, for root: one that no account has)")
	fl.StringVar(&f.Metrics, "metrics", "", "answer http://ADDRESS/metrics with the state of the fleet, as OpenMetrics; a port alone is one of 127.0.0.1")
	fl.BoolVar(&f.printUnit, "print-unit", false, "print a systemd unit that starts the hub with these flags")
	fl.StringVar(&f.state, "state", "", "directory of the hub's state (default: $LINERATE_STATE, else the system's)")
	return c
}

// hubStore is an open store of a hub.
type hubStore interface {
	hub.Store
	io.Closer
}

// openHub opens the store of a hub with files in dir, and returns how many hosts it takes.
func (a *console) openHub(ctx context.Context, dir string) (hubStore, int, error) {
	if postgres.IsAddress(a.db) {
		st, err := postgres.OpenFleet(ctx, a.db)
		return st, hub.MostOnServer, err
	}
	st, err := sqlite.OpenFleet(ctx, cmp.Or(a.db, filepath.Join(dir, "hub.db")))
	return st, hub.MostHosts, err
}

func (a *console) hub(ctx context.Context, f hubFlags) error {
	if f.Rounds < 1 || f.Rounds > 60 {
		return fault.Usagef("--rounds: %d is not between 1 and 60", f.Rounds)
	}
	debug.SetGCPercent(30) // a hub keeps most of what it has read: half a million paths of a thousand hosts
	dir, err := hub.Dir(f.state)
	if err != nil {
		return fault.WithHint(err, "use --state DIR for a directory of yours")
	}
	st, most, err := a.openHub(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	f.Dir, f.Margin, f.Most = dir, hub.DefaultMargin, most
	f.Measured = func(w io.Writer, s *fleet.Status) error { return format.OpenMetricsFleet(w, s, a.world().Version) }
	f.Tell = func(ctx context.Context, e fleet.Alert) { a.tellAlert(ctx, f.exec, e) }
	h, err := hub.Open(ctx, a.world(), st, f.Config)
	if err != nil {
		return err
	}
	link := h.Link()
	if a.json {
		err = a.document(reportfleet.HubSchema, hubDoc{link, h.Addr().String(), filepath.Join(dir, hub.ViewFile), h.MetricsAddr()})
	} else {
		_, err = fmt.Fprintf(a.Out, "linerate agent --hub %s\n", plain.ShellWord(link))
		if addr := h.MetricsAddr(); addr != "" {
			a.talk("metrics on http://%s/metrics", addr)
		}
		show := "linerate fleet"
		if f.state != "" {
			show += " --state " + plain.ShellWord(f.state)
		}
		a.talk("run this on each host; what they measure: %s. Elsewhere, copy %s there: linerate fleet --hub @view.link", show, filepath.Join(dir, hub.ViewFile))
	}
	return errors.Join(err, h.Run(ctx))
}

// initHub makes the key and the links of hubs.
func (a *console) initHub(f hubFlags) error {
	dir, err := hub.Dir(f.state)
	if err != nil {
		return fault.WithHint(err, "use --state DIR for a directory of yours")
	}
	if f.Dir = dir; f.NewLinks {
		return fault.WithHint(fault.Usagef("--init and --new-links do not go together"), "remove the links in %s for others", dir)
	}
	if err := hub.Init(f.Config); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s has the key and the links of %s: start each hub with a copy of it, or a volume, as the directory hub of its --state\n", dir, plain.Line(f.Host))
	return err
}

// hubDoc is linerate/hub/v1.
type hubDoc struct {
	Link    string `json:"link"`    // with which hosts join
	Address string `json:"address"` // that it listens on
	View    string `json:"view"`    // file of the link with which people look
	Metrics string `json:"metrics"` // address of the metrics; "" for none
}

// tellAlert prints an event, and runs the command of --exec for it.
func (a *console) tellAlert(ctx context.Context, run string, e fleet.Alert) {
	for line := range strings.Lines(e.Text) {
		a.talk("%s  %s", e.At.Format("15:04"), strings.TrimRight(line, "\n"))
	}
	a.exec(ctx, run, reportfleet.AlertSchema, e)
}

// exec runs the command of --exec, "" for none, with an event as a document.
func (a *console) exec(ctx context.Context, run, schema string, event any) {
	if run == "" {
		return
	}
	var doc bytes.Buffer
	err := format.Envelope(&doc, schema, event)
	if err == nil {
		err = watch.Exec(ctx, run, doc.String())
	}
	if err != nil {
		a.talk("--exec: %v", err)
	}
}

// hubLink returns the text of the link with which this machine's user looks at a hub, or
// operates it.
func (a *console) hubLink(given, state, file string) (string, error) {
	if given != "" {
		return given, nil
	}
	if a.Getenv("LINERATE_LINK") != "" {
		return "@", nil
	}
	dir, err := hub.Dir(state)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, file)
	if _, err := os.Stat(path); err != nil {
		return "", fault.New(fault.Usage, err, "no hub was started here: start linerate hub, or name its link: --hub @%s", file)
	}
	return "@" + path, nil
}
