package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/app/change"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// setFlags say how settings are changed by hand.
type setFlags struct {
	within   time.Duration // until they are undone automatically
	both     bool          // also on this machine
	link     string        // interface of this machine
	state    string        // journal of this machine
	canaries []string
	around   bool // apply a work-around if only paths beyond the other end fail
}

func (a *console) setCommand() *cobra.Command {
	var f setFlags
	c := &cobra.Command{
		Use: "set [near.|far.]KNOB=VALUE... [HOST]", Short: "change settings for a while, and keep them if you confirm",
		Long: `set changes settings of this machine, or of HOST, or with --both of both as one
change. Everything that is wrong with the values is reported before anything is
written. The old values go back after --for, unless you confirm: you are asked
on the terminal, and the answer travels over a new connection, so that a change
that locks you out is never kept. Without a terminal the change is held for the
time and goes back. What was confirmed stays until the machine restarts, or
linerate undo.

With --both a setting applies to both hosts, or to one: near.KNOB to this machine,
far.KNOB to HOST.

Where a change can cut the link (MTU, link mode, offloads and the like), the
gateway, the other end and what --canary names are checked before and after it,
with full packets too. If one that answered before does not answer after, the change
is undone at once.

link.mtu=max is the largest MTU that the drivers of all ends take. On Linux an MTU
of a bridge, a bond or a VLAN takes its ports or its parent along, and a smaller one
takes the VLANs along; each is named, and undone in the reverse order. A new MTU is
kept only where full packets pass uncut from each end to the other, and where a
transfer over new connections does not stall in either direction; if not, you are
told what passes, and whether a router reports the rest as too big or drops it silently.
Where all is well between the ends and only a canary beyond a router dies,
--work-around has the host ask for small segments there: route.mtu of that route
and tcp.mtu_probing, as part of the same change and proven again.`,
		Example: `  linerate set tcp.recv_buffer_max=64MiB socket.recv_buffer_max=64MiB --for 5m
  linerate set link.mtu=9000 --both root@nas --canary https://example.net/
  linerate set link.mtu=max --both root@nas --work-around --canary https://example.net/
  linerate set near.tcp.send_buffer_max=64MiB far.tcp.recv_buffer_max=64MiB --both root@nas
  linerate set tcp.sack=off lab:rate=1gbit,rtt=10ms --for 1s`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.set(cmd.Context(), f, args) },
	}
	a.bindAtBoot(c.Flags())
	f.register(c.Flags())
	return c
}

func (f *setFlags) register(s *pflag.FlagSet) {
	f.within = time.Minute
	s.Var(durationFlag{&f.within}, "for", "time after which the old values go back unless confirmed, 1s to 24h")
	s.BoolVar(&f.both, "both", false, "on HOST and on this machine, all or nothing")
	s.StringVar(&f.link, "interface", "", "interface that settings of a link act on (this machine only)")
	s.StringVar(&f.state, "state", "", "directory of this machine's journal (default: $LINERATE_STATE, else the system's)")
	s.StringSliceVar(&f.canaries, "canary", nil, "address, HOST:PORT or URL that must answer as before")
	s.BoolVar(&f.around, "work-around", false, "where only a canary beyond a router dies of a new MTU: small segments on that route")
}

// set runs linerate set.
func (a *console) set(ctx context.Context, f setFlags, args []string) error {
	wanted, host, err := parseSet(a.knobs, args)
	if err != nil {
		return err
	}
	r := f.request(a, wanted)
	if err := errors.Join(f.check(host), r.Check(host != "", f.both)); err != nil {
		return err
	}
	h, shut, err := change.Open(ctx, a.world(), a.reach(), a.hereOptions(f.state, f.link), host, f.both)
	if err != nil {
		return err
	}
	defer shut()
	return a.change(ctx, f, h, r)
}

// change carries out a request on open hosts, and shows the result.
func (a *console) change(ctx context.Context, f setFlags, h change.Hosts, r change.Request) error {
	got, err := change.Do(ctx, a.world(), h, r)
	if got.Outcome == "" {
		return err
	}
	return errors.Join(err, a.printSet(f, got, err != nil))
}

func (f setFlags) request(a *console, wanted []model.Assignment) change.Request {
	return change.Request{Wanted: wanted, Within: f.within, Canaries: f.canaries, Around: f.around, AtBoot: a.boot.wanted}
}

// check refuses flags that contradict each other.
func (f setFlags) check(host string) error {
	if host == "" && f.both {
		return fault.WithHint(fault.Usagef("--both names no HOST"), "linerate set KNOB=VALUE... --both HOST")
	}
	if host != "" && f.link != "" {
		return fault.Usagef("--interface is for this machine alone; with HOST the interface between the two is used")
	}
	return nil
}

// isAssignment reports whether an argument is KNOB=VALUE: a HOST may contain an equal sign too,
// but not before a colon.
func isAssignment(arg string) bool {
	name, _, ok := strings.Cut(arg, "=")
	return ok && !strings.ContainsAny(name, ":@ ")
}

// parseSet parses the arguments, and reports all mistakes.
func parseSet(x *knob.Index, args []string) (wanted []model.Assignment, host string, err error) {
	var errs []error
	var hosts []string
	unknown, ofFlow := false, model.KnobID("")
	for _, arg := range args {
		if !isAssignment(arg) {
			hosts = append(hosts, arg)
			continue
		}
		name, value, _ := strings.Cut(arg, "=")
		on, id, err := splitHost(x, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		k, ok := x.ByID(id)
		if !ok {
			errs, unknown = append(errs, x.UnknownError(id)), true
			continue
		}
		if k.Scope == knob.ScopeFlow {
			ofFlow = k.ID
		}
		v, err := change.Valid(k, value)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		wanted = append(wanted, model.Assignment{Host: on, Knob: k.ID, Value: v})
	}
	if err := errors.Join(errs...); err != nil {
		err = fault.WithKind(fault.Usage, err)
		if unknown {
			err = fault.WithHint(err, "linerate knobs lists them; linerate knobs explain NAME knows what systems call them")
		} else if ofFlow != "" {
			err = fault.WithHint(err, "its values are tried with: linerate run HOST --factor %s=VALUE,VALUE", ofFlow)
		}
		return nil, "", err
	}
	if len(hosts) > 1 {
		err := fault.Usagef("several hosts: %q", strings.Join(hosts, " "))
		if _, known := x.ByID(model.KnobID(hosts[0])); known {
			return nil, "", fault.WithHint(err, "a setting is written without blanks: %s=%s", hosts[0], hosts[1])
		}
		return nil, "", fault.WithHint(err, "a setting is written KNOB=VALUE, without blanks")
	}
	if len(wanted) == 0 {
		if k, known := x.ByID(model.KnobID(strings.Join(hosts, ""))); known {
			return nil, "", fault.WithHint(fault.Usagef("%s needs a value", k.ID), "linerate set %s=VALUE [HOST]; its values: linerate knobs explain %s", k.ID, k.ID)
		}
		return nil, "", fault.WithHint(fault.Usagef("no setting to change"), "linerate set KNOB=VALUE... [HOST]; linerate knobs lists them")
	}
	if len(hosts) == 1 {
		host = hosts[0]
	}
	return wanted, host, nil
}

// splitHost splits "far.link.mtu" into host and knob, as plan files do; without a prefix it is
// both hosts.
func splitHost(x *knob.Index, name string) (model.Host, model.KnobID, error) {
	prefix, rest, dotted := strings.Cut(name, ".")
	if !dotted {
		return "", model.KnobID(name), nil
	}
	if h, ok := model.ParseHost(prefix); ok {
		return h, model.KnobID(rest), nil
	}
	if _, known := x.ByID(model.KnobID(name)); !known {
		if _, known := x.ByID(model.KnobID(rest)); known {
			return "", "", fmt.Errorf("%s: unknown host %q: write near. or far. before the setting, or nothing for both", name, prefix)
		}
	}
	return "", model.KnobID(name), nil
}

// setDoc is linerate/set/v1.
type setDoc struct {
	Hosts    map[model.Host]string `json:"hosts"`
	For      time.Duration         `json:"for_ns"`
	Outcome  change.Outcome        `json:"outcome"`
	Reason   string                `json:"reason"`
	Changes  []model.Change        `json:"changes"`
	Canaries []canaryDoc           `json:"canaries"`

	Paths     []change.Way      `json:"paths"`       // of packets, after a change of an MTU
	Transfers []change.Transfer `json:"transfers"`   // attempted after a change of an MTU
	Around    bool              `json:"work_around"` // the settings of --work-around are among the changes
}

// canaryDoc is one probe before and after a change.
type canaryDoc struct {
	Host   model.Host `json:"host"` // that probed
	Target string     `json:"target"`
	Bytes  int        `json:"bytes"` // of the IP packets after the change; 0 if the system chose
	Before bool       `json:"before"`
	After  bool       `json:"after"`
	Detail string     `json:"detail"`
}

// printSet shows the result of a change. failed means that its reason is an error, which is
// printed once, as such.
func (a *console) printSet(f setFlags, r change.Result, failed bool) error {
	if a.json {
		doc := setDoc{Hosts: map[model.Host]string{}, For: f.within, Outcome: r.Outcome, Reason: r.Reason, Changes: []model.Change{}, Canaries: []canaryDoc{},
			Paths: append([]change.Way{}, r.Paths...), Transfers: append([]change.Transfer{}, r.Transfers...), Around: r.Around}
		for _, h := range r.Hosts {
			doc.Hosts[h.Side] = h.Name
			doc.Changes = append(doc.Changes, h.Changes...)
			doc.Canaries = append(doc.Canaries, canaryDocs(h)...)
		}
		return a.document("linerate/set/v1", doc)
	}
	var changes []model.Change
	for _, h := range r.Hosts {
		changes = append(changes, h.Changes...)
		for _, c := range h.Changes {
			if c.State == model.ChangeApplied && r.Outcome == change.Confirmed {
				continue
			}
			fmt.Fprintf(a.Out, "%s: %s (%s): %s\n", h.Name, c.Knob, c.Native, a.undoneText(h.System, c))
		}
	}
	if failed && r.Outcome == change.Undone {
		r.Reason = app.Returned(changes)
	}
	fmt.Fprintf(a.Out, "%s: %s\n", r.Outcome, r.Reason)
	return nil
}

// canaryDocs returns the probes of a host with both results.
func canaryDocs(h change.HostResult) []canaryDoc {
	var all []canaryDoc
	for i, b := range h.Before {
		d := canaryDoc{Host: h.Side, Target: b.Target, Bytes: b.Bytes, Before: b.OK, Detail: b.Detail}
		if i < len(h.After) {
			d.Bytes, d.After, d.Detail = h.After[i].Bytes, h.After[i].OK, h.After[i].Detail
		}
		all = append(all, d)
	}
	return all
}

// readable formats a native text of a system (a GOOS) for people.
func (a *console) readable(system string, id model.KnobID, raw string) string {
	if k, ok := a.knobs.ByID(id); ok {
		if text, err := k.Text(system, raw); err == nil {
			return text
		}
	}
	return raw
}
