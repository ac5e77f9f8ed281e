package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/host/canary"
	"linerate/internal/host/knob"
)

// setFlags say how settings are changed by hand.
type setFlags struct {
	within   time.Duration // until they go back by themselves
	both     bool          // also on this machine
	link     string        // interface of this machine
	state    string        // journal of this machine
	canaries []string
}

func (a *app) setCommand() *cobra.Command {
	var f setFlags
	c := &cobra.Command{
		Use: "set KNOB=VALUE... [HOST]", Short: "change settings for a while, and keep them if you confirm",
		Long: `set changes settings of this machine, or of HOST, or with --both of both as one
change. Everything that is wrong with the values is told before anything is
written. The old values go back after --for, unless you confirm: you are asked
on the terminal, and the answer travels over a new connection, so that a change
that locks you out is never kept. Without a terminal the change is held for the
time and goes back. What was confirmed stays until the machine restarts, or
linerate undo.

Where a change can cut the link (MTU, link mode, offloads and the like), the
gateway, the other end and what --canary names are asked before and after it,
with full packets too. Who answered before and does not after undoes it at once.`,
		Example: `  linerate set tcp.recv_buffer_max=64MiB socket.recv_buffer_max=64MiB --for 5m
  linerate set link.mtu=9000 --both root@nas --canary https://example.net/
  linerate set tcp.sack=off lab:rate=1gbit,rtt=10ms --for 1s`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.set(cmd.Context(), f, args) },
	}
	a.bindAtBoot(c.Flags())
	s := c.Flags()
	s.DurationVar(&f.within, "for", time.Minute, "time after which the old values go back unless confirmed, 1s to 24h")
	s.BoolVar(&f.both, "both", false, "on HOST and on this machine, all or nothing")
	s.StringVar(&f.link, "interface", "", "interface that settings of a link act on (this machine only)")
	s.StringVar(&f.state, "state", "", "directory of this machine's journal (default: $LINERATE_STATE, else the system's)")
	s.StringSliceVar(&f.canaries, "canary", nil, "address, HOST:PORT or URL that must answer as before")
	return c
}

// set carries out one change of settings.
func (a *app) set(ctx context.Context, f setFlags, args []string) error {
	wanted, host, err := parseSet(args)
	if err == nil {
		err = f.check(host)
	}
	if err != nil {
		return err
	}
	s, err := a.openSetting(ctx, f, host, wanted)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.check(); err != nil {
		return err
	}
	if s.holds() {
		s.outcome, s.reason = outcomeNone, "all of it holds already"
		return s.print()
	}
	err = s.carryOut(ctx)
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
		if err := canary.Valid(c); err != nil {
			return usagef("--canary %w", err)
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
		id, value, _ := strings.Cut(arg, "=")
		k, ok := knob.ByID(model.KnobID(id))
		if !ok {
			errs, unknown = append(errs, knob.UnknownError(model.KnobID(id))), true
			continue
		}
		v, err := k.Parse(value)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		wanted = append(wanted, model.Assignment{Knob: k.ID, Value: v})
	}
	if err := errors.Join(errs...); err != nil {
		err = withCode(exitUsage, err)
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

// check reports everything that is wrong with the change on any of its hosts,
// and says what is unwise.
func (s *setting) check() error {
	var errs []error
	unsupported := true
	for _, e := range s.ends {
		if !e.client.CanTune() {
			return withHint(withCode(exitUnsupported, fmt.Errorf("%s measures only: nothing can be set there", e.client.Name())),
				"reach it over ssh, as in user@host, or start its agent by a command: exec:ADDRESS COMMAND...")
		}
		before := e.values()
		faults := knob.Faults(e.facts.OS, before, s.wanted)
		if len(faults) == 0 {
			faults = e.unreadable(s.wanted)
		}
		for _, err := range faults {
			unsupported = unsupported && errors.Is(err, errors.ErrUnsupported)
			if len(s.ends) > 1 || e.host == model.Far {
				err = fmt.Errorf("%s: %w", e.name, err)
			}
			errs = append(errs, err)
		}
		for _, advice := range knob.Advice(e.facts.OS, before, s.wanted) {
			s.app.talk("note: %s: %s", e.name, advice)
		}
		s.app.noteLasting(e.name, e.facts.OS, s.wanted, s.flags.within)
	}
	if len(errs) > 0 {
		code := exitUsage
		if unsupported {
			code = exitUnsupported
		}
		err := withCode(code, errors.Join(errs...))
		if s.linkMissing() {
			return withHint(err, "name the interface with --interface; known are %s", interfaceNames())
		}
		return err
	}
	for _, w := range s.wanted {
		if k, _ := knob.ByID(w.Knob); k.NeedsBoth && len(s.ends) == 1 {
			s.app.talk("note: %s is useful only when both ends agree: --both HOST changes both", w.Knob)
		}
	}
	return nil
}

// linkMissing reports whether a setting of a link is wanted and no link is named.
func (s *setting) linkMissing() bool {
	for _, w := range s.wanted {
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
		doc := setDoc{Hosts: map[model.Host]string{}, For: s.flags.within, Outcome: s.outcome, Reason: s.reason, Changes: []model.Change{}, Canaries: []canaryDoc{}}
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
		if v, err := k.Decode(raw); err == nil {
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
