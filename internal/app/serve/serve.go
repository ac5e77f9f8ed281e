// Package serve makes this machine a server to which other hosts measure: its keys, its
// limits, the right to change settings, and the audit log.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/control/access"
	"linerate/internal/control/agent"
	"linerate/internal/control/audit"
	"linerate/internal/control/tuner"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/host/sandbox"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/budget"
)

// DefaultPort is the default port of servers.
const DefaultPort = tls.DefaultPort

// Config says how to serve. The zero value listens nowhere.
type Config struct {
	// Served, if set, takes the session of each test of a foreign client, within the limit of
	// records. Results is the directory that it writes to; "" for none.
	Served    func(model.Session)
	Results   string
	Listen    string // address and port of linerate's own protocol
	Host      string // name or address in the join link; "" is the address, else this host's name
	State     string // directory of the server's state; "" is the system's
	Open      bool   // anyone who reaches the port may measure
	Sessions  int    // at a time; 0 means the default
	Limits    Limits
	Announce  bool   // announce this server and its pin on the local network
	Metrics   string // address of the metrics; "" for none
	Peers     string // other hosts that sessions may measure with: addresses and networks, separated by commas
	MPTCP     bool   // answer clients that ask for Multipath TCP with it
	AllowTune bool   // keys with the right tune may change settings; needs root
	// AllowCommands lets those keys run their own commands on this host, as root.
	AllowCommands bool
	User          string // to become once the ports are open; "" is one without an account, for root
	Unconfined    bool   // started by root, serve even if neither no_new_privs nor Landlock is available
	Guest         bool   // it shares its process with others, and gives up no rights of it
	Audit         string // file of the audit log; "" for none
	Foreign       Foreign
	// Tickets, if set, knows secrets that are no keys.
	Tickets Tickets
	// Writes are directories that are made for this process to write to after Open.
	Writes []string
}

// Tickets are secrets besides the keys of a server.
type Tickets interface {
	// Find is tls.Find.
	Find(secret []byte) (tls.Key, bool)
	// Ended reports that the session of a key, by its name, has ended.
	Ended(name string)
}

// Listener is a server of another protocol besides linerate's own.
type Listener struct {
	Name  string
	Addr  net.Addr
	Serve func(ctx context.Context) error
	Close func()
}

// Server is a server whose ports are open. Run answers on them.
type Server struct {
	env      app.Env
	c        Config
	dir      string        // state directory
	copies   string        // ledger of the files that copies make
	user     *sandbox.User // to become; nil keeps the current user
	got      []string      // what happened to the rights of this process
	store    access.Store
	ring     *access.Ring
	identity tls.Identity
	made     bool // the identity's secret is new
	file     *audit.File
	log      *audit.Log
	tuner    *tuner.Tuner // nil: settings may not be changed

	visits    *visits
	budget    *budget.Budget
	files     budget.Division
	metrics   net.Listener // nil if not requested
	own       *tls.Server
	link      tls.Link
	listeners []Listener
}

// Open opens the files and ports that a server needs, with all the rights of this process,
// and then gives up those that measuring does not need. The listeners of other protocols
// share the budget and the audit log. The server answers once Run is called. The caller calls
// Close.
func Open(ctx context.Context, env app.Env, c Config) (_ *Server, err error) {
	if err := c.Foreign.check(env.AllPrograms()); err != nil {
		return nil, err
	}
	s := &Server{env: env, c: c, visits: newVisits(env.Observe)}
	defer func() {
		if err != nil {
			s.closePorts()
			s.Close()
		}
	}()
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if err := s.share(ctx); err != nil {
		return nil, err
	}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	if s.listeners, err = s.listenForeign(ctx); err != nil {
		return nil, err
	}
	s.link = s.own.Link(LinkHosts(c.Host, s.own.Addr())...)
	if a, ok := s.own.Addr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		s.c.Announce = false // no other host reaches it
	}
	s.noteAddress(s.link.Addr)
	if err := s.giveUpRights(s.own); err != nil {
		return nil, err
	}
	local.SweepUpAt(env, s.copies)
	return s, nil
}

// prepare opens the files, and starts the process that changes settings.
func (s *Server) prepare(ctx context.Context) (err error) {
	if s.dir, err = local.StateDir(s.c.State); err != nil {
		return err
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	s.copies = filepath.Join(s.dir, local.CopiesDir)
	if err := errors.Join(s.mayRun(), s.chooseUser()); err != nil {
		return err
	}
	for _, dir := range s.c.Writes {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	s.store = access.Store{Dir: filepath.Join(s.dir, serveDir)}
	if s.identity, err = tls.LoadKey(s.store.Dir); err != nil {
		return fault.WithHint(err, "use --state DIR for a directory of yours")
	}
	secret, made, err := s.store.Default()
	if err != nil {
		return fault.WithHint(err, "see %s", s.store.Dir)
	}
	if s.made = made; made {
		s.identity.Secret = secret
	}
	if s.ring, err = s.store.Ring(s.say("linerate: ")); err != nil {
		return err
	}
	if err := s.openLog(); err != nil {
		return err
	}
	if s.c.AllowTune {
		if s.tuner, err = tuner.Start(ctx, s.tunerCommand(), local.Lines(s.env, "")); err != nil {
			return fault.WithHint(err, "without --allow-tune serve only measures")
		}
	}
	return nil
}

// say returns a function that reports a line of the server.
func (s *Server) say(prefix string) func(line string) {
	return func(line string) { s.env.Observe(app.Serving{Line: prefix + line}) }
}

// tellLogged reports an event of the audit log in words.
func (s *Server) tellLogged(e audit.Event) {
	line := app.Serving{Line: e.String()}
	switch e.Kind {
	case audit.SessionBegin, audit.SessionEnd, audit.RunBegin, audit.RunEnd, audit.Refused:
		line.Visit = true
	case audit.Started, audit.Stopped, audit.Change, audit.Undo, audit.Confirm, audit.Keep, audit.Restore, audit.Dropped, audit.LeftOut:
	}
	s.env.Observe(line)
}

// mayRun refuses options that need more rights than this process has.
func (s *Server) mayRun() error {
	if s.c.AllowCommands && !s.c.AllowTune {
		return fault.WithHint(fault.Usagef("--allow-commands: only who may change settings may run commands here"), "add --allow-tune, or leave it out")
	}
	if sandbox.IsRoot() {
		return nil
	}
	switch {
	case s.c.AllowTune:
		return fault.New(fault.Unsupported, errors.New("--allow-tune: settings of this host are changed by root only"),
			"start serve as root: all of it but what changes settings gives root up at once; or leave --allow-tune out")
	case s.c.User != "":
		return fault.New(fault.Unsupported, errors.New("--user: only root becomes another user"), "leave it out, or start serve as root")
	}
	return nil
}

// openLog opens the audit log: messages for the user, and a file if one is named.
func (s *Server) openLog() error {
	c := audit.Config{Talk: s.tellLogged, Now: s.env.Now}
	if s.c.Audit != "" {
		path, err := filepath.Abs(s.c.Audit)
		if err != nil {
			return err
		}
		if s.file, err = audit.Open(path, s.say("")); err != nil {
			return fault.WithHint(err, "use --audit FILE for a file that this user may write")
		}
		c.Lines, s.c.Audit = s.file, path
	}
	s.log = audit.New(c)
	return nil
}

// share makes the budget of all listeners, and opens the port of metrics.
func (s *Server) share(ctx context.Context) error {
	r := lookForRoom(s.env, s.c.State, s.c.visitors())
	gives, err := s.c.Limits.config(r, s.c.visitors())
	if err != nil {
		return err
	}
	s.budget, s.files = budget.New(gives), r.files
	if s.c.Metrics != "" {
		s.metrics, err = ListenMetrics(ctx, s.c.Metrics)
	}
	return err
}

// listen opens the port of linerate's own protocol.
func (s *Server) listen(ctx context.Context) error {
	peers, err := parsePeers(s.c.Peers)
	if err != nil {
		return err
	}
	s.own, err = tls.Listen(ctx, s.c.Listen, tls.Config{
		Identity: s.identity, Open: s.c.Open, MPTCP: s.c.MPTCP, Peers: peers, Find: s.find, Budget: s.budget,
		Unknown: s.files.Unknown, Friends: s.files.Friends,
		Agent:   agent.Config{Version: s.env.Version, Catalogue: s.env.Catalogue, Engines: local.EnginesAt(s.env.Engines, s.copies, false)},
		Log:     s.say(""),
		Welcome: s.welcome, Refused: s.refused, Dropped: s.dropped, Ended: s.ended,
	})
	if _, ok := errors.AsType[*net.AddrError](err); ok {
		return fault.New(fault.Usage, err, "write it like --listen 10.0.0.2:5299 or --listen :5299")
	}
	return fault.WithHint(err, "use --listen ADDRESS:PORT for another address or port")
}

// parsePeers parses addresses and networks: "10.0.0.0/24,fd00::7".
func parsePeers(text string) (peers []netip.Prefix, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p, err := netip.ParsePrefix(part)
		if a, aerr := netip.ParseAddr(part); aerr == nil {
			p, err = a.Unmap().WithZone("").Prefix(a.Unmap().BitLen())
		}
		if err != nil {
			return nil, fault.WithHint(fault.Usagef("--peers: %q is neither an address nor a network", part), "write it like --peers 10.0.0.0/24,10.1.0.7")
		}
		peers = append(peers, p.Masked())
	}
	return peers, nil
}

// closePorts closes the ports of a server that is not running.
func (s *Server) closePorts() {
	if s.metrics != nil {
		_ = s.metrics.Close()
	}
	if s.own != nil {
		_ = s.own.Close()
	}
	for _, l := range s.listeners {
		l.Close()
	}
}

// Close ends what Open started, the process that changes settings first, so that its undo is
// still logged.
func (s *Server) Close() {
	if s.tuner != nil {
		if err := s.tuner.Close(); err != nil {
			s.env.Observe(app.Trouble{Err: err})
		}
	}
	if s.ring != nil {
		_ = s.ring.Close()
	}
	_ = s.log.Close()
	if s.file != nil {
		_ = s.file.Close()
	}
}

// Run answers on all ports until ctx ends or linerate's own listener fails. An error or panic
// in another protocol is reported, and the others continue.
func (s *Server) Run(ctx context.Context) error {
	s.log.Record(audit.Event{Kind: audit.Started, Protocol: protocolName, Reason: "listens on " + s.own.Addr().String()})
	defer s.log.Record(audit.Event{Kind: audit.Stopped, Protocol: protocolName})
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { s.ring.Watch(ctx) })
	if s.env.Getenv("GOMEMLIMIT") == "" { // else the user has set a limit
		all.Go(func() { holdMemory(ctx, s.budget) })
	}
	if s.metrics != nil { // a failure does not end the server
		all.Go(func() {
			if err := Metrics(ctx, s.metrics, metricsOf(s.env.Version, s.budget)); err != nil {
				s.env.Observe(app.Trouble{Err: err})
			}
		})
	}
	if s.c.Announce {
		all.Go(func() {
			accept.Guard(s.say(""), "mDNS", func() { s.announce(ctx) })
		})
	}
	for _, l := range s.listeners {
		all.Go(func() {
			accept.Guard(s.say(""), l.Name, func() {
				if err := l.Serve(ctx); err != nil && ctx.Err() == nil {
					s.say("")(fmt.Sprintf("%s: answers no more: %v", l.Name, err))
				}
			})
		})
	}
	return s.own.Serve(ctx)
}

// Reopen reopens the file of the audit log after it was renamed.
func (s *Server) Reopen() {
	if s.file != nil {
		s.file.Reopen()
	}
}

// Logs reports whether the audit log has a file.
func (s *Server) Logs() bool { return s.file != nil }

// Link returns the join link, with its secret if Shows returns true.
func (s *Server) Link() string { return s.link.String() }

// Shows reports whether the link may be shown: its secret is new, or it has none.
func (s *Server) Shows() bool { return s.made || s.c.Open }

// Identity returns the key of the server.
func (s *Server) Identity() tls.Identity { return s.identity }

// Hosts returns the names and addresses by which others may reach this server.
func (s *Server) Hosts() []string { return LinkHosts(s.c.Host, s.own.Addr()) }

// Near returns a connection to an agent of this machine in this process. It measures by the
// server's limits on files, and changes no settings.
func (s *Server) Near(ctx context.Context, why string) wire.Peer {
	h := local.New(s.env, local.Options{State: s.c.State})
	c := agent.Config{Version: s.env.Version, Catalogue: s.env.Catalogue, Engines: local.EnginesAt(s.env.Engines, s.copies, false), Facts: h.Facts, LinkRate: h.LinkRate, Watch: h.Watch, NoKnobs: why}
	return wire.Pipe(ctx, app.ThisMachine, "127.0.0.1", func(ctx context.Context, conn net.Conn) error { return agent.Serve(ctx, conn, c) })
}

// Addr returns the address of linerate's own protocol.
func (s *Server) Addr() net.Addr { return s.own.Addr() }

// MetricsAddr returns the address of the metrics; "" if there are none.
func (s *Server) MetricsAddr() string {
	if s.metrics == nil {
		return ""
	}
	return s.metrics.Addr().String()
}

// Listeners returns the servers of other protocols.
func (s *Server) Listeners() []Listener { return s.listeners }

// Usage returns the present usage of the budget, and its limits.
func (s *Server) Usage() Usage { return s.budget.Usage() }

// Usage is the usage of a server's budget at a moment, and its limits.
type Usage = budget.Usage

// KindUsage is the usage of one kind.
type KindUsage = budget.KindUsage

// Kind is a kind of resource in a server's budget.
type Kind = budget.Kind

// The kinds of resources in a server's budget.
const (
	Sessions    = budget.Sessions
	Descriptors = budget.Descriptors
	Memory      = budget.Memory
	Disk        = budget.Disk
	UDP         = budget.UDP
	Egress      = budget.Egress
	Time        = budget.Time
	Records     = budget.Records
)

// AnonymousRun returns what one run without a key may ask for. No option raises it.
func AnonymousRun() budget.Run { return budget.AnonymousRun() }

// noteAddress stores the server's address for links made later. If that fails, they name this
// host's addresses and the default port.
func (s *Server) noteAddress(addr string) {
	_ = os.WriteFile(filepath.Join(s.store.Dir, addressFile), []byte(addr+"\n"), 0o600)
}
