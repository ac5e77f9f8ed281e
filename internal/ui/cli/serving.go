package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/here"
	"linerate/internal/control/access"
	"linerate/internal/control/agent"
	"linerate/internal/control/audit"
	"linerate/internal/control/tuner"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
	"linerate/internal/host/sandbox"
)

// protocolName is linerate's own protocol in the audit log.
const protocolName = "linerate"

// serving is what a server has besides its port.
type serving struct {
	app      *console
	flags    serveFlags
	dir      string        // state directory
	copies   string        // ledger of the files that copies make
	user     *sandbox.User // to become; nil stays who it is
	got      []string      // what became of the rights of this process
	store    access.Store
	ring     *access.Ring
	identity tls.Identity
	made     bool // the identity's secret is new
	file     *audit.File
	log      *audit.Log
	sharing  *sharing     // what the server gives away
	tuner    *tuner.Tuner // nil: nobody may change settings
}

// prepareServing opens what a server needs while it still has all its rights. The
// caller calls close.
func (a *console) prepareServing(ctx context.Context, f serveFlags) (_ *serving, err error) {
	s := &serving{app: a, flags: f}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = here.StateDir(f.state); err != nil {
		return nil, err
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return nil, err
	}
	s.copies = filepath.Join(s.dir, here.CopiesDir)
	if err := s.mayRun(); err != nil {
		return nil, err
	}
	if err := s.chooseUser(); err != nil {
		return nil, err
	}
	s.store = access.Store{Dir: filepath.Join(s.dir, serveDir)}
	if s.identity, err = tls.LoadKey(s.store.Dir); err != nil {
		return nil, withHint(err, "use --state DIR for a directory of yours")
	}
	secret, made, err := s.store.Default()
	if err != nil {
		return nil, withHint(err, "see %s", s.store.Dir)
	}
	if s.made = made; made {
		s.identity.Secret = secret
	}
	if s.ring, err = s.store.Ring(func(line string) { a.talk("linerate: %s", line) }); err != nil {
		return nil, err
	}
	if err := s.openLog(); err != nil {
		return nil, err
	}
	if f.allowTune {
		if s.tuner, err = tuner.Start(ctx, s.tunerCommand(), a.Err); err != nil {
			return nil, withHint(err, "without --allow-tune serve only measures")
		}
	}
	return s, nil
}

// mayRun refuses flags that ask for more than this process may.
func (s *serving) mayRun() error {
	if sandbox.IsRoot() {
		return nil
	}
	switch {
	case s.flags.allowTune:
		return withHint(app.WithKind(app.Unsupported, errors.New("--allow-tune: settings of this host are changed by root only")),
			"start serve as root: all of it but what changes settings gives root up at once; or leave --allow-tune out")
	case s.flags.user != "":
		return withHint(app.WithKind(app.Unsupported, errors.New("--user: only root becomes another user")), "leave it out, or start serve as root")
	}
	return nil
}

// openLog opens the audit log: in words on stderr, and in a file where one is
// named.
func (s *serving) openLog() error {
	a := s.app
	c := audit.Config{Talk: func(line string) { a.talk("%s", line) }, Now: a.Now}
	if s.flags.audit != "" {
		path, err := filepath.Abs(s.flags.audit)
		if err != nil {
			return err
		}
		if s.file, err = audit.Open(path, c.Talk); err != nil {
			return withHint(err, "use --audit FILE for a file that this user may write")
		}
		c.Lines, s.flags.audit = s.file, path
	}
	s.log = audit.New(c)
	a.audit = s.log
	return nil
}

// close ends everything, the tuner first: what it undoes is recorded.
func (s *serving) close() {
	if s.tuner != nil {
		if err := s.tuner.Close(); err != nil {
			s.app.talk("linerate: %v", err)
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

// watch looks after the keys and the log until the function returned is called.
func (s *serving) watch(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { s.ring.Watch(ctx) })
	hangup := make(chan os.Signal, 1)
	if s.file != nil {
		signal.Reset(syscall.SIGHUP) // which ends other commands
		signal.Notify(hangup, syscall.SIGHUP)
		all.Go(func() {
			for {
				select {
				case <-hangup:
					s.file.Reopen()
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

// noteAddress remembers how links name the server, for commands that make more of
// them. One that cannot be kept is asked for there.
func (s *serving) noteAddress(addr string) {
	_ = os.WriteFile(filepath.Join(s.store.Dir, addressFile), []byte(addr+"\n"), 0o600)
}

// find is tls.Config.Find.
func (s *serving) find(secret []byte) (tls.Key, bool) {
	g, ok := s.ring.Find(secret)
	if !ok {
		return tls.Key{}, false
	}
	return tls.Key{Name: g.Name, Tune: g.Right == access.Tune, Over: g.Over}, true
}

// welcome gives a session its own view of this host: the interface and the route
// are those that lead to v, whatever the controller says of its address, and no
// session sees another's. Who may tune gets the hand that does it.
func (s *serving) welcome(v tls.Visitor, c *agent.Config) {
	a := s.app
	h := here.New(a.world(), here.Options{State: s.flags.state})
	c.Facts = func(ctx context.Context, _ string) (model.HostFacts, error) { return h.Facts(ctx, v.Addr.String()) }
	c.LinkRate, c.Watch = h.LinkRate, h.Watch
	record := func(e audit.Event) {
		e.Protocol, e.Key, e.From = protocolName, v.Key.Name, v.Addr
		s.log.Record(e)
	}
	c.Runs = func(f model.Flow) func(model.EndReport, error) { return recordRun(record, a.Now, f) }
	switch {
	case v.Key.Stranger():
		c.NoKnobs = "this linerate serve lets clients without a key measure, and change no settings"
	case !v.Key.Tune:
		c.NoKnobs = fmt.Sprintf("the key %s has the right to measure, not to change settings of this host", v.Key.Name)
	case s.tuner == nil:
		c.NoKnobs = "linerate serve was started there without --allow-tune: it changes no settings of its host"
	default:
		hand := &tuner.Hand{Tuner: s.tuner, Request: tuner.Request{Secret: v.Secret, Peer: v.Addr.String()}, Version: a.Version, Record: record}
		c.Knobs, c.Settings = hand, hand
	}
	record(audit.Event{Kind: audit.SessionBegin})
}

// recordRun records the beginning of a run, and returns what records its end.
func recordRun(record func(audit.Event), now func() time.Time, f model.Flow) func(model.EndReport, error) {
	began := now()
	record(audit.Event{Kind: audit.RunBegin, Engine: f.Engine, Direction: string(f.Direction)})
	return func(r model.EndReport, err error) {
		e := audit.Event{Kind: audit.RunEnd, Engine: f.Engine, Direction: string(f.Direction), Took: now().Sub(began), Outcome: audit.OK}
		for _, flow := range r.Flows {
			if flow.Role == model.Sender {
				e.Sent += flow.Bytes
			} else {
				e.Received += flow.Bytes
			}
		}
		if err != nil {
			e.Outcome, e.Reason = audit.Failed, err.Error()
		}
		record(e)
	}
}

func (s *serving) refused(from netip.Addr, err error) {
	s.log.Record(audit.Event{Kind: audit.Refused, Protocol: protocolName, From: from, Outcome: audit.Denied, Reason: err.Error()})
}

func (s *serving) dropped(from netip.Addr, why error) {
	s.log.Record(audit.Event{Kind: audit.Dropped, Protocol: protocolName, From: from, Reason: why.Error()})
}

func (s *serving) ended(v tls.Visitor, took time.Duration, err error) {
	e := audit.Event{Kind: audit.SessionEnd, Protocol: protocolName, Key: v.Key.Name, From: v.Addr, Took: took, Outcome: audit.OK}
	switch {
	case errors.Is(err, tls.ErrKeyOver):
		e.Outcome, e.Reason = audit.Cut, err.Error()
	case err != nil:
		e.Outcome, e.Reason = audit.Failed, err.Error()
	}
	s.log.Record(e)
}
