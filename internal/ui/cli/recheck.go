package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/app/keep"
	"linerate/internal/app/recheck"
	"linerate/internal/app/target"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
	"linerate/internal/regex"
	"linerate/internal/report/term"
)

// recheckFlags say what to recheck, and how.
type recheckFlags struct {
	runFlags // only from, far and allowExec
	setting  string
	state    string
	allow    string
	look     bool
}

func (a *console) recheckCommand() *cobra.Command {
	var f recheckFlags
	c := &cobra.Command{
		Use: "recheck [SETTING...] [HOST|SESSION]", Short: "whether settings that were kept, or proved better once, still help",
		Long: `recheck says of each setting that linerate keep wrote on HOST, or without HOST on
this machine, whether it is still better than what was there before; with SESSION of
those that proved better in it. SETTINGs name only some, as tcp.recv_buffer_max.

It measures what is kept against the value before, in six blocks in random order, with
the traffic and the guards with which it was proven. What differs from what holds now
is undone after its run, as in linerate run. Where it is still better, the host keeps
the new measurement as its proof, with the fingerprint of today. Settings that can cut the connection are
measured only if you agree, or with --allow risky.

--look measures nothing. It compares the fingerprint under which each was proven
(hosts, kernel, driver, firmware, interface, MTU, gateway, tunnels, round trip) with
that of now, as far as both are known: "unproven since kernel 6.19 -> 7.0".

The exit code is 0 where all are still better, or with --look proven, and else 8.`,
		Example: `  linerate recheck root@nas
  linerate recheck --look
  linerate recheck tcp.recv_buffer_max root@nas
  linerate recheck last`,
		Args: cobra.ArbitraryArgs, // see recheckArgs
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.recheck(cmd.Context(), f, cmd.Flags(), args)
		},
	}
	fl := c.Flags()
	a.bindAtBoot(fl)
	registerPath(c)
	fl.BoolVar(&f.look, "look", false, "only show what the fingerprints say; measure nothing")
	fl.StringVar(&f.setting, "setting", "", "of a session: name of the setting (default: the one that proved better)")
	fl.StringVar(&f.from, "from", "", "the near HOST (default: this machine)")
	fl.StringVar(&f.allow, "allow", "", "risky: settings that can cut the connection are measured without asking")
	fl.StringVar(&f.state, "state", "", "directory of this machine's journal (default: $LINERATE_STATE, else the system's)")
	fl.BoolVar(&f.allowExec, "allow-exec", false, "run the command of an exec: host that stands in the stored session")
	return c
}

// sessionWord matches the forms of a session's name.
var sessionWord = regex.New(`^(last(~\d+)?|\d{4,8}T?\d*(-\w*)?)$`)

// recheckArgs distinguishes settings, a session and a host.
func (a *console) recheckArgs(args []string) (only []model.KnobID, session, host string, err error) {
	for _, arg := range args {
		_, known := a.knobs.ByID(model.KnobID(arg))
		switch {
		case known:
			only = append(only, model.KnobID(arg))
		case session+host != "":
			return nil, "", "", fault.WithHint(fault.Usagef("recheck takes settings and one HOST or SESSION, got %q", args), "see linerate recheck --help")
		case sessionWord.MatchString(arg):
			session = arg
		default:
			host = arg
		}
	}
	return only, session, host, nil
}

func (a *console) recheck(ctx context.Context, f recheckFlags, fl *pflag.FlagSet, args []string) error {
	only, ref, host, err := a.recheckArgs(args)
	switch {
	case err != nil:
		return err
	case f.allow != "" && f.allow != "risky":
		return fault.Usagef("--allow: value %q: the only value is risky", f.allow)
	case f.setting != "" && ref == "":
		return fault.WithHint(fault.Usagef("--setting is about a session"), "linerate recheck SESSION --setting NAME")
	case f.state != "" && host+ref != "":
		return fault.Usagef("--state is for this machine alone")
	case f.look && ref+host == "":
		return a.recheckHere(ctx, f, only)
	}
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	side := model.Far
	var kept []fingerprint.Kept
	switch {
	case ref != "":
		s, err := find(ctx, st, ref)
		if err == nil {
			s, err = proofOf(ctx, st, s)
		}
		if err != nil {
			return err
		}
		name, _, err := keep.Setting(a.world(), s, f.setting)
		if err == nil {
			kept, err = recheck.OfSession(&s, name)
		}
		if err != nil {
			return err
		}
		side, f.far, a.path = "", s.Far, s.Plan.Path
		if err := f.mayExec("session "+s.ID, s.Near, s.Far); err != nil {
			return err
		}
		if f.from == "" && s.Near != s.Far {
			f.from = s.Near
		}
	case host != "":
		f.far = host
	default:
		side = model.Near
		if f.far, err = a.provenWith(ctx, f, only); err != nil {
			return err
		}
	}
	if err := a.pathOver(a.path, fl); err != nil {
		return err
	}
	near, far, err := target.Pair(f.from, f.far, a.world())
	if err != nil {
		return err
	}
	e, err := a.reach().Open(ctx, near, far)
	if err != nil {
		return err
	}
	defer e.Close()
	if ref == "" {
		if kept, err = recheck.OfHost(ctx, e, side); err != nil {
			return err
		}
	}
	all, err := recheck.Do(ctx, a.world(), e, st, kept, side, recheck.Request{
		Only: only, Look: f.look, Risky: f.allow == "risky", Seed: rand.Uint64() >> 11, Command: target.RedactAll(os.Args),
	})
	return a.rechecked(all, only, err)
}

// recheckHere rechecks only what is kept on this machine.
func (a *console) recheckHere(ctx context.Context, f recheckFlags, only []model.KnobID) error {
	all, err := a.standingHere(ctx, f.state)
	if len(only) > 0 {
		all = slices.DeleteFunc(all, func(s recheck.Setting) bool { return !slices.Contains(only, s.Knob) })
	}
	if err != nil {
		return err
	}
	return a.rechecked(all, only, nil)
}

// standingHere returns the state of what is kept on this machine.
func (a *console) standingHere(ctx context.Context, state string) ([]recheck.Setting, error) {
	h, shut, err := a.openFiles(ctx, "", state)
	if err != nil {
		return nil, err
	}
	defer shut()
	records, err := h.Client.Kept(ctx)
	if err != nil {
		return nil, err
	}
	facts := h.Facts
	facts.Host = model.Near
	return recheck.Alone(keep.Standing(records, model.Near), facts, h.Name), nil
}

// provenWith returns the host with which the kept settings of this machine were proven.
func (a *console) provenWith(ctx context.Context, f recheckFlags, only []model.KnobID) (string, error) {
	all, err := a.standingHere(ctx, f.state)
	if err != nil {
		return "", err
	}
	var far []string
	for _, s := range all {
		if w := s.Kept.Proof.Far; w != "" && !slices.Contains(far, w) && (len(only) == 0 || slices.Contains(only, s.Knob)) {
			far = append(far, w)
		}
	}
	const hint = "name it: linerate recheck HOST asks about what is kept there; --look shows what the fingerprints of this machine say"
	switch {
	case len(all) == 0:
		return "", fault.WithHint(fault.Usagef("nothing is kept on this machine"), "linerate recheck HOST, or of what a session proved: linerate recheck last")
	case len(far) == 0:
		return "", fault.WithHint(fault.Usagef("no note says to which host the settings of this machine were proven"), hint)
	case len(far) > 1:
		return "", fault.WithHint(fault.Usagef("the settings of this machine were proven to several hosts: %s", strings.Join(far, ", ")), "say which: linerate recheck SETTING")
	}
	return far[0], f.mayExec("what is kept on this machine", "", far[0])
}

// rechecked shows the state of settings.
func (a *console) rechecked(all []recheck.Setting, only []model.KnobID, err error) error {
	bad := 0
	for _, s := range all {
		if s.State != fingerprint.Still && s.State != fingerprint.Proven {
			bad++
		}
	}
	if len(all) == 0 && err == nil && len(only) > 0 {
		return fault.Usagef("%v is not kept there", only)
	}
	if err == nil && bad > 0 {
		err = &fault.Error{Kind: fault.Found, Err: fmt.Errorf("%s of %d not shown to be better", plain.Count(bad, "setting"), len(all))}
	}
	if a.json {
		return errors.Join(a.document("linerate/recheck/v1", newRecheckDoc(all)), err)
	}
	if len(all) == 0 && err == nil {
		fmt.Fprintln(a.Out, "nothing is kept")
	}
	shown := ""
	for _, s := range all {
		lines := a.standingLines(s)
		if s.Measured != "" && s.Measured != shown {
			shown = s.Measured
			lines = append(lines, "  see the measurement: linerate show "+shown)
		}
		for _, text := range lines {
			for _, l := range wrapped(text, a.Width()) {
				fmt.Fprintln(a.Out, l)
			}
		}
	}
	return err
}

// wrapped wraps a text within width and keeps its own indent; later lines get four columns more.
func wrapped(text string, width int) []string {
	body := strings.TrimLeft(text, " ")
	indent := len(text) - len(body)
	out := term.Wrap(body, width-indent, width-indent-4)
	for i := range out {
		pad := indent
		if i > 0 {
			pad += 4
		}
		out[i] = strings.Repeat(" ", pad) + out[i]
	}
	return out
}

// standingLines describes the state of one setting.
func (a *console) standingLines(s recheck.Setting) []string {
	out := []string{fmt.Sprintf("%s=%s on %s: %s", s.Knob, a.formatKnob(s.Knob, s.Value), s.Host, s.Standing)}
	if s.Gain != "" {
		out = append(out, "  "+s.Gain)
	}
	if s.Kept.Proven {
		line := "  proven on " + s.Kept.Proof.Date.Format(time.DateOnly) + " in session " + s.Kept.Proof.Session
		if s.State == fingerprint.Proven {
			line = "  in session " + s.Kept.Proof.Session
		}
		if s.Before != "" {
			line += ", against " + a.formatKnob(s.Knob, s.Before)
		}
		if s.State == fingerprint.Proven {
			line += "; nothing that is known has changed since"
		}
		out = append(out, line)
	}
	if s.Measured != "" && len(s.Changes) > 0 {
		out = append(out, "  since then: "+fingerprint.Since(s.Changes))
	}
	switch {
	case s.Renewed:
		out = append(out, "  its fingerprint is renewed: from now on that of today counts")
	case s.Trouble != "" && s.Measured != "":
		out = append(out, "  its fingerprint is not renewed: "+s.Trouble)
	case s.Trouble != "":
		out = append(out, "  not measured again: "+s.Trouble)
	}
	return out
}

// recheckDoc is linerate/recheck/v1.
type recheckDoc struct {
	Settings []standingDoc `json:"settings"`
}

type standingDoc struct {
	recheck.Setting
	Text   string    `json:"text"`
	Proof  string    `json:"proof,omitempty"` // session; "" if it was not measured
	Proven time.Time `json:"proven,omitzero"` // zero if unknown
}

func newRecheckDoc(all []recheck.Setting) recheckDoc {
	d := recheckDoc{Settings: []standingDoc{}}
	for _, s := range all {
		one := standingDoc{Setting: s, Text: s.String()}
		if s.Kept.Proven {
			one.Proof, one.Proven = s.Kept.Proof.Session, s.Kept.Proof.Date
		}
		d.Settings = append(d.Settings, one)
	}
	return d
}
