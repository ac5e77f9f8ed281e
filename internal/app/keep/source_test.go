package keep

import (
	"errors"
	"strings"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/core/profile"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// listener records events.
type listener struct {
	app.NoUser
	events []app.Event
}

// Observe implements app.Observer.
func (l *listener) Observe(e app.Event) { l.events = append(l.events, e) }

func listening() (app.Env, *listener) {
	l := &listener{}
	return app.Env{Now: time.Now, Asker: l, Observer: l}, l
}

// verdict returns a verdict on the setting "tall" of the session below.
func verdict(outcome model.Outcome, guard model.GuardState) model.Verdict {
	v := model.Verdict{
		Setting: "tall", Outcome: outcome, Direction: model.To, Metric: model.Goodput, Estimate: 0.1,
		Interval: model.Interval{Low: 0.05, High: 0.15, Confidence: 0.95}, Blocks: 6,
	}
	if guard != "" {
		v.Metric, v.Guard = model.LossRatio, &model.GuardCheck{State: guard}
	}
	return v
}

// tall is a session that tried one setting of the far host.
func tall(direction model.Direction, verdicts ...model.Verdict) model.Session {
	return model.Session{
		ID: "s1", Created: time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC), State: model.SessionDone,
		Plan: model.Plan{Baseline: "current", Directions: []model.Direction{direction}, Settings: []model.Setting{{Name: "current"}, {Name: "tall", Assignments: []model.Assignment{
			{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: "4194304"}, {Knob: "window", Value: "65536"},
		}}}},
		Verdicts: verdicts,
	}
}

// TestProof: a setting that no verdict calls better, or that violates a guard, is kept only
// if the user insists.
func TestProof(t *testing.T) {
	better, same := verdict(model.Better, ""), verdict(model.Equivalent, "")
	for name, c := range map[string]struct {
		verdicts []model.Verdict
		setting  string
		wish     Wish
		untrust  bool
		kind     fault.Kind // of the refusal
		refused  string     // "" for none
		unproven app.Unproven
	}{
		"better":               {verdicts: []model.Verdict{better}},
		"nothing better":       {verdicts: []model.Verdict{same}, kind: fault.Usage, refused: `"tall": `},
		"no verdicts":          {kind: fault.Usage, refused: "it has no verdicts"},
		"named":                {verdicts: []model.Verdict{same}, setting: "tall", kind: fault.Usage, refused: "no proof that it is better"},
		"named and wished":     {verdicts: []model.Verdict{same}, setting: "tall", wish: Wish{Anyway: true}, unproven: app.Unproven{Verdicts: "goodput"}},
		"guarded":              {verdicts: []model.Verdict{better, verdict(model.Worse, model.GuardViolated)}, kind: fault.Usage, refused: "refused by its guards"},
		"despite guards":       {verdicts: []model.Verdict{better, verdict(model.Worse, model.GuardViolated)}, wish: Wish{DespiteGuards: true}, unproven: app.Unproven{Guards: "loss"}},
		"distrusted":           {verdicts: []model.Verdict{better}, untrust: true, kind: fault.Untrusted, refused: "must not be believed"},
		"distrusted and asked": {verdicts: []model.Verdict{better}, untrust: true, wish: Wish{Anyway: true}, unproven: app.Unproven{Distrusted: true}},
		"unknown":              {verdicts: []model.Verdict{better}, setting: "wide", kind: fault.Usage, refused: "wide"},
	} {
		t.Run(name, func(t *testing.T) {
			env, l := listening()
			s, err := OfSession(env, tall(model.To, c.verdicts...), c.setting, c.untrust, c.wish)
			must.True(t, (err != nil) == (c.refused != "") && (err == nil || fault.KindOf(err) == c.kind && strings.Contains(err.Error(), c.refused) && fault.HintOf(err) != ""), "%+v, kind %v, %v", s, err, fault.HintOf(err))
			if err != nil {
				return
			}
			must.True(t, s.Label == `session s1, setting "tall"` && s.Near == profile.Sender && s.Far == profile.Receiver, "%+v", s)
			var flow, unproven int
			for _, e := range l.events {
				switch e := e.(type) {
				case app.OfTheFlow:
					flow++
				case app.Unproven:
					unproven++
					must.True(t, e.Distrusted == c.unproven.Distrusted && strings.Contains(e.Verdicts, c.unproven.Verdicts) && strings.Contains(e.Guards, c.unproven.Guards), "told %+v", e)
				}
			}
			want := c.unproven != (app.Unproven{})
			must.True(t, flow == 1 && (unproven > 0) == want, "told %+v", l.events)
		})
	}
}

// TestFirstHour08SmallestGoodLevel: of several levels that proved better, the smallest that
// is good enough is kept if the user names none, and that is reported; if the session leaves
// the choice open, or a guard refuses that level, none is chosen.
func TestFirstHour08SmallestGoodLevel(t *testing.T) {
	levels := func(plateaus ...model.Plateau) model.Session {
		s := tall(model.To)
		s.Plan.Settings = s.Plan.Settings[:1]
		for _, name := range []string{"1MiB", "4MiB", "16MiB"} {
			s.Plan.Settings = append(s.Plan.Settings, model.Setting{Name: name, Assignments: []model.Assignment{
				{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: "1048576"}}})
			v := verdict(model.Better, "")
			v.Setting = name
			s.Verdicts = append(s.Verdicts, v)
		}
		s.Plateaus = plateaus
		return s
	}
	decided := func(d model.Direction, level string) model.Plateau {
		return model.Plateau{Direction: d, Decided: true, Level: level, Tolerance: 5}
	}
	env, l := listening()
	s, err := OfSession(env, levels(decided(model.To, "4MiB")), "", false, Wish{})
	must.Need(t, err == nil && s.Label == `session s1, setting "4MiB"` && len(l.events) == 1, "%+v, %v, told %+v", s, err, l.events)
	e := l.events[0].(app.SmallestGood)
	must.True(t, e.Setting == "4MiB" && strings.Join(e.Others, " ") == "1MiB 16MiB" && e.Tolerance == 5, "told %+v", e)
	s, err = OfSession(env, levels(decided(model.To, "4MiB")), "16MiB", false, Wish{})
	must.True(t, err == nil && s.Label == `session s1, setting "16MiB"`, "the one that is named: %+v, %v", s, err)
	harmful := levels(decided(model.To, "4MiB"))
	g := verdict(model.Worse, model.GuardViolated)
	g.Setting = "4MiB"
	harmful.Verdicts = append(harmful.Verdicts, g)
	for name, s := range map[string]model.Session{
		"no plateau": levels(), "not decided": levels(model.Plateau{Direction: model.To, From: "1MiB", To: "4MiB"}),
		"the baseline": levels(decided(model.To, "current")), "two directions": levels(decided(model.To, "4MiB"), decided(model.From, "1MiB")), "guarded": harmful,
	} {
		must.Say(t, must.Err(OfSession(env, s, "", false, Wish{})), "several settings of session s1 proved better", "%s", name)
	}
}

// TestDirectionsGiveRoles: in a session in the other direction this machine receives.
func TestDirectionsGiveRoles(t *testing.T) {
	env, _ := listening()
	s := must.Get(OfSession(env, tall(model.From, verdict(model.Better, "")), "", false, Wish{}))(t)
	must.True(t, s.Near == profile.Receiver && s.Far == profile.Sender, "%+v", s)
}

// TestRoles: the part of a profile that an end gets.
func TestRoles(t *testing.T) {
	of := func(roles ...profile.Role) Source {
		s := Source{}
		for _, r := range roles {
			s.Profile.Hosts = append(s.Profile.Hosts, profile.Host{Role: r, Settings: []profile.Setting{{Knob: model.KnobID(r), Value: "1"}}})
		}
		return s
	}
	directed := of(profile.Sender, profile.Receiver)
	directed.Near, directed.Far = profile.Sender, profile.Receiver
	for name, c := range map[string]struct {
		s     Source
		end   model.Host
		asked profile.Role
		alone bool
		want  string // the knob, named after the role; "" for a refusal
		other bool
	}{
		"either end":        {s: of(profile.Both), end: model.Near, alone: true, want: "both"},
		"near":              {s: of(profile.Near, profile.Far), end: model.Near, want: "near"},
		"far":               {s: of(profile.Near, profile.Far), end: model.Far, want: "far"},
		"asked":             {s: of(profile.Near, profile.Far), end: model.Far, asked: profile.Near, want: "near"},
		"the other of them": {s: of(profile.Near, profile.Far), end: model.Near, asked: profile.Near, want: "far"},
		"asked alone":       {s: of(profile.Near, profile.Far), end: model.Near, asked: profile.Far, alone: true, want: "far"},
		"sender":            {s: directed, end: model.Near, want: "sender"},
		"receiver":          {s: directed, end: model.Far, want: "receiver"},
		"the only one":      {s: of(profile.Receiver), end: model.Far, alone: true, want: "receiver"},
		"unsaid":            {s: of(profile.Sender, profile.Receiver), end: model.Far},
		"both is no role":   {s: of(profile.Near), end: model.Far, asked: profile.Both},
		"nothing for it":    {s: of(profile.Near), end: model.Far, other: true},
	} {
		h, other, err := c.s.hostFor(c.end, c.asked, c.alone)
		must.True(t, other == c.other && (err != nil) == (c.want == "") && (err == nil || fault.KindOf(err) == fault.Usage), "%s: %+v, %v, %v", name, h, other, err)
		must.True(t, err != nil || len(h.Settings) == 1 && string(h.Settings[0].Knob) == c.want, "%s: %+v", name, h.Settings)
	}
}

// TestWrongMachine: a session proved a setting of the host that received; alone on the sender keep
// refuses, and names the command that keeps it on that host.
func TestWrongMachine(t *testing.T) {
	env, _ := listening()
	for far, hint := range map[string]string{"root@nas": "linerate keep s1 root@nas", "lab:lan": "linerate keep s1 HOST"} {
		s := tall(model.To, verdict(model.Better, ""))
		s.Far = far
		src := must.Get(OfSession(env, s, "", false, Wish{}))(t)
		_, other, err := src.hostFor(model.Near, "", true)
		must.True(t, other && err != nil && strings.Contains(err.Error(), "this machine was the sender") && strings.Contains(fault.HintOf(err), hint), "%v, %s", err, fault.HintOf(err))
	}
}

// TestSeveralAreBetter: without a choice the error asks for one.
func TestSeveralAreBetter(t *testing.T) {
	env, _ := listening()
	s := tall(model.To, verdict(model.Better, ""))
	wide := s.Plan.Settings[1]
	wide.Name = "wide"
	s.Plan.Settings = append(s.Plan.Settings, wide)
	v := verdict(model.Better, "")
	v.Setting = "wide"
	s.Verdicts = append(s.Verdicts, v)
	if _, err := OfSession(env, s, "", false, Wish{}); fault.KindOf(err) != fault.Usage || fault.HintOf(err) != "choose with --setting: tall, wide" {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
	_, p, err := Setting(env, s, "wide")
	must.True(t, err == nil && len(p.Hosts) == 1 && p.Evidence != nil, "%+v, %v", p, err)
}

// TestHostsWithoutFiles: nothing can be kept on hosts that end with the command.
func TestHostsWithoutFiles(t *testing.T) {
	env, _ := listening()
	env.Getenv = func(string) string { return "" }
	for _, named := range []string{"lab:rate=1gbit", "iperf3://127.0.0.1:5201"} {
		_, _, err := OpenAlone(t.Context(), env, nil, local.Options{}, named)
		must.True(t, fault.KindOf(err) == fault.Unsupported, "%s: %v", named, err)
		_, _, err = Open(t.Context(), env, nil, local.Options{}, named, true)
		must.True(t, fault.KindOf(err) == fault.Unsupported, "%s: %v", named, err)
	}
	_, _, err := OpenAlone(t.Context(), env, nil, local.Options{}, "nonsense host")
	must.True(t, fault.KindOf(err) == fault.Usage, "%v", err)
}

// TestCommandIsNotKept: the effect of a command cannot be kept in a file, nor can half of the
// setting that proved better with it. A command that was off does not matter.
func TestCommandIsNotKept(t *testing.T) {
	env, _ := listening()
	s := tall(model.To, verdict(model.Better, ""))
	command := model.Assignment{Host: model.Near, Knob: "cmd:shaper", Value: model.On, Command: model.Command{Run: "tc add", Undo: "tc del", Limit: time.Second}}
	as := &s.Plan.Settings[1].Assignments
	*as = append(*as, command)
	for _, w := range []Wish{{}, {Anyway: true}} {
		_, err := OfSession(env, s, "", false, w)
		must.True(t, fault.KindOf(err) == fault.Unsupported && strings.Contains(err.Error(), `runs a command, which cannot be made permanent: "tc add" on the near host`) && strings.Contains(fault.HintOf(err), "at its start"), "%v, hint %q", err, fault.HintOf(err))
	}
	_, _, err := Setting(env, s, "tall")
	must.True(t, errors.Is(err, profile.ErrCommand), "as a profile: %v", err)
	(*as)[len(*as)-1].Value = model.Off
	src, err := OfSession(env, s, "", false, Wish{})
	must.True(t, err == nil && len(src.Profile.Hosts) == 1 && len(src.Profile.Hosts[0].Settings) == 1 && src.Profile.Hosts[0].Settings[0].Knob == "tcp.recv_buffer_max", "off: %+v, %v", src.Profile.Hosts, err)
}

// TestOverruled: a program that sets the value before the written file does is not reported.
func TestOverruled(t *testing.T) {
	k := session.Keeping{Format: model.FormatIfupdown, Files: []session.KeepFile{{Path: "/etc/sysctl.d/zz-linerate.conf"}}, Omitted: []model.Omission{{Knob: "tcp.sack"}, {Knob: "nic.wol"}}}
	for file, want := range map[model.Claim]bool{
		{Manager: model.ManagerSystemdSysctl, File: "/usr/lib/sysctl.d/99-vendor.conf"}:                            true,
		{Manager: model.ManagerSystemdSysctl, File: "/run/sysctl.d/zzz.conf"}:                                      false,
		{Manager: model.ManagerProcpsSysctl, File: "/etc/sysctl.conf"}:                                             false,
		{Manager: model.ManagerTuneD, File: "/usr/lib/sysctl.d/99-vendor.conf"}:                                    false,
		{Manager: model.ManagerSystemdSysctl, File: "/usr/lib/sysctl.d/99-vendor.conf", Knob: "tcp.sack"}:          false,
		{Manager: model.ManagerIfupdown, Link: "eth0", Knob: "link.mtu", File: "/etc/network/interfaces.d/uplink"}: true,
		{Manager: model.ManagerIfupdown, Link: "eth0", Knob: "nic.wol", File: "/etc/network/interfaces.d/uplink"}:  false,
		{Manager: model.ManagerDHCP, Link: "eth0", Knob: "link.mtu"}:                                               false,
	} {
		must.True(t, overruled(file, k) == want, "%+v", file)
	}
}
