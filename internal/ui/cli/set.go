package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/app/here"
	"linerate/internal/control/session"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
	"linerate/internal/core/units"
)

// setFlags say how settings are changed by hand.
type setFlags struct {
	within   time.Duration // until they go back by themselves
	both     bool          // also on this machine
	link     string        // interface of this machine
	state    string        // journal of this machine
	canaries []string
	around   bool // take a work-around where only paths beyond the other end fail
}

func (a *console) setCommand() *cobra.Command {
	var f setFlags
	c := &cobra.Command{
		Use: "set [a.|b.]KNOB=VALUE... [HOST]", Short: "change settings for a while, and keep them if you confirm",
		Long: `set changes settings of this machine, or of HOST, or with --both of both as one
change. Everything that is wrong with the values is told before anything is
written. The old values go back after --for, unless you confirm: you are asked
on the terminal, and the answer travels over a new connection, so that a change
that locks you out is never kept. Without a terminal the change is held for the
time and goes back. What was confirmed stays until the machine restarts, or
linerate undo.

With --both a setting is of both hosts, or of one: a.KNOB is this machine's,
b.KNOB is HOST's.

Where a change can cut the link (MTU, link mode, offloads and the like), the
gateway, the other end and what --canary names are asked before and after it,
with full packets too. Who answered before and does not after undoes it at once.

link.mtu=max is the largest MTU that the drivers of all ends take. A new MTU is
kept only where full packets pass uncut from each end to the other, and where a
transfer over new connections does not stall in either direction; if not, you are
told what passes, and whether somebody says so or a black hole swallows the rest.
Where all is well between the ends and only a canary beyond a router dies,
--work-around has the host ask for small segments there: route.mtu of that route
and tcp.mtu_probing, as part of the same change and proven again.`,
		Example: `  linerate set tcp.recv_buffer_max=64MiB socket.recv_buffer_max=64MiB --for 5m
  linerate set link.mtu=9000 --both root@nas --canary https://example.net/
  linerate set link.mtu=max --both root@nas --work-around --canary https://example.net/
  linerate set a.tcp.send_buffer_max=64MiB b.tcp.recv_buffer_max=64MiB --both root@nas
  linerate set tcp.sack=off lab:rate=1gbit,rtt=10ms --for 1s`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.set(cmd.Context(), f, args) },
	}
	a.bindAtBoot(c.Flags())
	f.register(c.Flags())
	return c
}

func (f *setFlags) register(s *pflag.FlagSet) {
	s.DurationVar(&f.within, "for", time.Minute, "time after which the old values go back unless confirmed, 1s to 24h")
	s.BoolVar(&f.both, "both", false, "on HOST and on this machine, all or nothing")
	s.StringVar(&f.link, "interface", "", "interface that settings of a link act on (this machine only)")
	s.StringVar(&f.state, "state", "", "directory of this machine's journal (default: $LINERATE_STATE, else the system's)")
	s.StringSliceVar(&f.canaries, "canary", nil, "address, HOST:PORT or URL that must answer as before")
	s.BoolVar(&f.around, "work-around", false, "where only a canary beyond a router dies of a new MTU: small segments on that route")
}

// set carries out one change of settings.
func (a *console) set(ctx context.Context, f setFlags, args []string) error {
	wanted, host, err := parseSet(args)
	if err == nil {
		err = errors.Join(f.check(host), f.checkHosts(host, wanted))
	}
	if err != nil {
		return err
	}
	s, err := a.openSetting(ctx, f, host, wanted)
	if err != nil {
		return err
	}
	defer s.close()
	return s.conclude(ctx)
}

// conclude makes a change that is open, unless something is wrong with it.
func (s *setting) conclude(ctx context.Context) error {
	s.tellHalf()
	if err := s.check(); err != nil {
		return err
	}
	if s.holds() {
		s.outcome, s.reason = outcomeNone, "all of it holds already"
		return s.print()
	}
	if err := s.noteOthers(ctx); err != nil {
		return err
	}
	err := s.carryOut(ctx)
	if err != nil && s.canGoAround() {
		err = s.goAround(ctx, err)
	}
	return errors.Join(err, s.print())
}

// check refuses flags that cannot be meant.
func (f setFlags) check(host string) error {
	if f.within < session.MinDeadline || f.within > session.MaxDuration {
		return usagef("--for %s: want 1s to 24h", units.FormatDuration(f.within))
	}
	if host == "" && f.both {
		return withHint(usagef("--both names no HOST"), "linerate set KNOB=VALUE... --both HOST")
	}
	if host != "" && f.link != "" {
		return usagef("--interface is for this machine alone; with HOST the interface between the two is used")
	}
	if len(f.canaries) > maxCanaries {
		return usagef("--canary: at most %d", maxCanaries)
	}
	for _, c := range f.canaries {
		err := probe.Valid(c)
		if scheme, _, ok := strings.Cut(c, "://"); err == nil && ok && scheme != "http" && scheme != "https" {
			err = fmt.Errorf("%q: want a URL of http or https", c)
		}
		if err != nil {
			return usagef("--canary %w", err)
		}
	}
	return nil
}

// checkHosts refuses settings of a host that the change is not about.
func (f setFlags) checkHosts(host string, wanted []model.Assignment) error {
	for _, w := range wanted {
		switch {
		case w.Host == model.Far && host == "":
			return withHint(usagef("b.%s: no HOST is named", w.Knob), "linerate set b.%s=VALUE HOST", w.Knob)
		case w.Host == model.Near && host != "" && !f.both:
			return withHint(usagef("a.%s: without --both the change is about HOST alone", w.Knob), "add --both")
		}
	}
	return nil
}

// maxCanaries leaves room for the gateway and the other end.
const maxCanaries = session.MaxTargets - 2

// isAssignment reports whether an argument is KNOB=VALUE: a HOST may have an
// equal sign too, but not before a colon.
func isAssignment(arg string) bool {
	name, _, ok := strings.Cut(arg, "=")
	return ok && !strings.ContainsAny(name, ":@ ")
}

// parseSet reads the arguments, and reports every one that is wrong.
func parseSet(args []string) (wanted []model.Assignment, host string, err error) {
	var errs []error
	var hosts []string
	unknown := false
	for _, arg := range args {
		if !isAssignment(arg) {
			hosts = append(hosts, arg)
			continue
		}
		name, value, _ := strings.Cut(arg, "=")
		on, id, err := splitHost(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		k, ok := knob.ByID(id)
		if !ok {
			errs, unknown = append(errs, knob.UnknownError(id)), true
			continue
		}
		v := value
		if k.ID != mtuKnob || value != largestMTU {
			v, err = k.Parse(value)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		wanted = append(wanted, model.Assignment{Host: on, Knob: k.ID, Value: v})
	}
	if err := errors.Join(errs...); err != nil {
		err = app.WithKind(app.Usage, err)
		if unknown {
			err = withHint(err, "linerate knobs lists them; linerate knobs explain NAME knows what systems call them")
		}
		return nil, "", err
	}
	if len(hosts) > 1 {
		return nil, "", withHint(usagef("several hosts: %q", hosts), "a setting is written KNOB=VALUE, without blanks")
	}
	if len(wanted) == 0 {
		return nil, "", withHint(usagef("no setting to change"), "linerate set KNOB=VALUE... [HOST]; linerate knobs lists them")
	}
	if len(hosts) == 1 {
		host = hosts[0]
	}
	return wanted, host, nil
}

// splitHost splits "b.link.mtu" into host and knob, as plan files do: a is the near
// host, b the far one, and without either it is both.
func splitHost(name string) (model.Host, model.KnobID, error) {
	prefix, rest, dotted := strings.Cut(name, ".")
	if !dotted {
		return "", model.KnobID(name), nil
	}
	if h := model.Host(prefix); h == model.Near || h == model.Far {
		return h, model.KnobID(rest), nil
	}
	if _, known := knob.ByID(model.KnobID(name)); !known {
		if _, known := knob.ByID(model.KnobID(rest)); known {
			return "", "", fmt.Errorf("%s: unknown host %q: write a. (near) or b. (far) before the setting, or nothing for both", name, prefix)
		}
	}
	return "", model.KnobID(name), nil
}

// check reports everything that is wrong with the change on any of its hosts,
// and says what is unwise.
func (s *setting) check() error {
	for _, e := range s.changing() {
		if !e.client.CanTune() {
			return withHint(app.WithKind(app.Unsupported, fmt.Errorf("%s measures only: nothing can be set there", e.client.Name())),
				"reach it over ssh, as in user@host, or start its agent by a command: exec:ADDRESS COMMAND...")
		}
	}
	if err := s.settleMTU(); err != nil {
		return err
	}
	var errs []error
	unsupported := true
	for _, e := range s.changing() {
		before := e.values()
		for _, err := range e.faults() {
			unsupported = unsupported && errors.Is(err, errors.ErrUnsupported)
			if len(s.ends) > 1 || e.host == model.Far {
				err = fmt.Errorf("%s: %w", e.name, err)
			}
			errs = append(errs, err)
		}
		for _, advice := range knob.Advice(e.facts.OS, before, e.wanted) {
			s.app.talk("note: %s: %s", e.name, advice)
		}
		s.app.noteLasting(e.name, e.facts.OS, e.wanted, s.flags.within)
	}
	if len(errs) > 0 {
		kind := app.Usage
		if unsupported {
			kind = app.Unsupported
		}
		err := app.WithKind(kind, errors.Join(errs...))
		if s.linkMissing() {
			return withHint(err, "name the interface with --interface; known are %s", here.LinkNames())
		}
		return s.hintMTU(err)
	}
	s.noteOneSided()
	return nil
}

// faults are what is wrong with what a host is to get.
func (e *setEnd) faults() []error {
	if faults := knob.Faults(e.facts.OS, e.values(), e.wanted); len(faults) > 0 {
		return faults
	}
	return e.unreadable(e.wanted)
}

// noteOthers says which programs may set the same again while the change holds.
func (s *setting) noteOthers(ctx context.Context) error {
	for _, e := range s.changing() {
		var ids []model.KnobID
		for _, w := range e.wanted {
			ids = append(ids, w.Knob)
		}
		all, err := lastClaims(ctx, e.client, ids)
		if err != nil {
			return err
		}
		for _, c := range all {
			if c.Manager.AtWork() {
				s.app.talk("note: %s: %s", e.name, c)
			}
		}
	}
	return nil
}

// noteOneSided says what one end alone gets and both should have.
func (s *setting) noteOneSided() {
	s.noteMTU()
	for _, e := range s.changing() {
		for _, w := range e.wanted {
			k, _ := knob.ByID(w.Knob)
			if k.NeedsBoth && k.ID != mtuKnob && len(s.changing()) == 1 {
				s.app.talk("note: %s is useful only when both ends agree: --both HOST changes both", w.Knob)
			}
		}
	}
}

// linkMissing reports whether a setting of a link is wanted and no link is named.
func (s *setting) linkMissing() bool {
	for _, w := range s.ends[0].wanted {
		if k, _ := knob.ByID(w.Knob); k.Scope == knob.ScopeLink && s.ends[0].host == model.Near && s.flags.link == "" && len(s.ends) == 1 {
			return true
		}
	}
	return false
}

// setDoc is linerate/set/v1.
type setDoc struct {
	Hosts    map[model.Host]string `json:"hosts"`
	For      time.Duration         `json:"for_ns"`
	Outcome  string                `json:"outcome"`
	Reason   string                `json:"reason"`
	Changes  []model.Change        `json:"changes"`
	Canaries []canaryDoc           `json:"canaries"`

	Paths     []wayDoc      `json:"paths"`       // of packets, after a change of an MTU
	Transfers []transferDoc `json:"transfers"`   // that were tried, after a change of an MTU
	Around    bool          `json:"work_around"` // the settings of --work-around are among the changes
}

// canaryDoc is one question that was asked before and after a change.
type canaryDoc struct {
	Host   model.Host `json:"host"` // that asked
	Target string     `json:"target"`
	Bytes  int        `json:"bytes"` // of the IP packets after the change; 0 where the system decided
	Before bool       `json:"before"`
	After  bool       `json:"after"`
	Detail string     `json:"detail"`
}

// print shows how the change ended.
func (s *setting) print() error {
	a := s.app
	if a.json {
		doc := setDoc{Hosts: map[model.Host]string{}, For: s.flags.within, Outcome: s.outcome, Reason: s.reason, Changes: []model.Change{}, Canaries: []canaryDoc{},
			Paths: append([]wayDoc{}, s.paths...), Transfers: append([]transferDoc{}, s.transfers...), Around: s.around}
		for _, e := range s.ends {
			doc.Hosts[e.host] = e.name
			doc.Changes = append(doc.Changes, e.changes...)
			doc.Canaries = append(doc.Canaries, e.canaryDocs()...)
		}
		return a.document("linerate/set/v1", doc)
	}
	for _, e := range s.ends {
		for _, c := range e.changes {
			if c.State == model.ChangeApplied && s.outcome == outcomeConfirmed {
				continue
			}
			fmt.Fprintf(a.Out, "%s: %s (%s): %s\n", e.name, c.Knob, c.Native, undoneText(c))
		}
	}
	fmt.Fprintf(a.Out, "%s: %s\n", s.outcome, s.reason)
	return nil
}

// announce shows what was changed, while it holds.
func (s *setting) announce() {
	if s.app.json {
		return
	}
	for _, e := range s.ends {
		for _, c := range e.changes {
			fmt.Fprintf(s.app.Out, "%s: %s (%s): %s -> %s\n", e.name, c.Knob, c.Native, readable(c.Knob, c.Old), readable(c.Knob, c.New))
		}
	}
}

// readable is a native text for people.
func readable(id model.KnobID, raw string) string {
	if k, ok := knob.ByID(id); ok {
		if v, err := k.Decode(runtime.GOOS, raw); err == nil {
			return k.Format(v)
		}
	}
	return raw
}

// setFault gives an error of a change its exit code and hint.
func setFault(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return withHint(err, "run linerate as root; over ssh with --sudo")
	case errors.Is(err, session.ErrBusy):
		return withHint(err, "another linerate changes that host: wait until it has ended")
	}
	return err
}
