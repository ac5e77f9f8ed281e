package keep

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/app"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/profile"
	"linerate/internal/fault"
)

// Source is where the settings to keep come from.
type Source struct {
	Label     string // for the list of kept settings
	Profile   profile.Profile
	Confirmed bool // no profile: the settings that each host has confirmed
	// The roles of the ends of a session whose direction is known.
	Near, Far profile.Role
	there     string // the command that keeps a session's setting on its far host
	// Proof is the evidence that they are good; nil if they were not measured.
	Proof *fingerprint.Proof
	// proofs are those of earlier sessions, for Confirmed; the newest first.
	proofs []fingerprint.Proof
}

// ConfirmedThere is the source of settings that were confirmed on the hosts and are still in
// force. The proof of a value is that of the session in which it proved better, for example
// the tune that set it.
func ConfirmedThere(sessions ...model.Session) Source {
	out := Source{Confirmed: true, Label: "confirmed with linerate set"}
	for i := range sessions {
		names, _ := profile.Candidates(sessions[i])
		for _, name := range names {
			if p, err := fingerprint.Prove(&sessions[i], name); err == nil {
				out.proofs = append(out.proofs, p)
			}
		}
	}
	return out
}

// proven returns the newest proof that covers all settings of an end.
func (s Source) proven(end model.Host, settings []model.Assignment) *fingerprint.Proof {
	for i := range s.proofs {
		p := s.proofs[i]
		p.Side = end
		if !slices.ContainsFunc(settings, func(a model.Assignment) bool { return !p.Covers(a.Knob, a.Value) }) {
			return &p
		}
	}
	return nil
}

// Wish says what the user wants kept despite the evidence.
type Wish struct {
	Anyway        bool // settings that did not prove better
	DespiteGuards bool // settings that violate a guard, or may
}

// OfProfile is the source of a profile that came from name. Without a Wish it refuses
// settings that no verdict calls better.
func OfProfile(env app.Env, name string, p profile.Profile, w Wish) (Source, error) {
	s := Source{Profile: p, Label: strings.TrimSuffix("profile "+name+": "+p.Title, ": "), Proof: p.Proof()}
	return s, demandProof(env, p.Evidence, w, name)
}

// OfSession is the source of a setting of a stored session, "" for the one that proved
// better. untrusted means that the session's verdicts are not reliable. Without a Wish it
// refuses a setting that no verdict calls better.
func OfSession(env app.Env, s model.Session, setting string, untrusted bool, w Wish) (Source, error) {
	if names, refused := profile.Candidates(s); setting == "" && len(names)+len(refused) == 0 {
		return Source{}, fault.WithHint(fault.Usagef("session %s: no setting that changes a host proved better%s", s.ID, verdictLines(s)),
			"name the setting and your wish to keep it all the same: --setting NAME --anyway; its settings are %s", settingNames(s))
	}
	setting, p, err := Setting(env, s, setting)
	if err != nil {
		return Source{}, err
	}
	if untrusted {
		if !w.Anyway {
			return Source{}, fault.New(fault.Untrusted, fmt.Errorf("session %s says that its verdicts must not be believed", s.ID),
				"measure again, or keep it all the same: --anyway")
		}
		env.Observe(app.Unproven{What: "session " + s.ID, Distrusted: true})
	}
	src := Source{Profile: p, Label: fmt.Sprintf("session %s, setting %q", s.ID, setting)}
	if d := s.Plan.Directions; len(d) == 1 && d[0] != model.Both {
		src.Near, src.Far = profile.Sender, profile.Receiver
		if d[0] == model.From {
			src.Near, src.Far = profile.Receiver, profile.Sender
		}
	}
	src.there = "linerate keep " + s.ID + " HOST"
	if !strings.HasPrefix(s.Far, "lab:") {
		src.there = "linerate keep " + s.ID + " " + plain.ShellWord(s.Far)
	}
	proof, err := fingerprint.Prove(&s, setting)
	if err != nil {
		return src, err
	}
	src.Proof = &proof
	return src, demandProof(env, p.Evidence, w, src.Label)
}

// Setting makes a profile of a setting of a session, "" for the one that proved better. It
// reports the parts that belong to the test traffic and are left out.
func Setting(env app.Env, s model.Session, name string) (string, profile.Profile, error) {
	name, err := chooseSetting(env, s, name)
	if err != nil {
		return "", profile.Profile{}, err
	}
	p, flow, err := profile.FromSession(s, name)
	if errors.Is(err, profile.ErrCommand) {
		return name, p, fault.New(fault.Unsupported, err, "have that host run it at its start, as by a unit of its own; keep settings that were measured without it")
	}
	if err != nil {
		return name, p, fault.New(fault.Usage, err, "its settings are %s", settingNames(s))
	}
	for _, one := range flow {
		env.Observe(app.OfTheFlow{Setting: model.Assignment{Knob: one.Knob, Value: one.Value}})
	}
	return name, p, nil
}

// demandProof refuses a measured setting that did not prove better or made something worse,
// and one that is better but violates a guard, or may. A setting that was not measured is
// accepted: the author of the profile wants it.
func demandProof(env app.Env, e *profile.Evidence, w Wish, what string) error {
	if e == nil {
		env.Observe(app.Unproven{What: what})
		return nil
	}
	keep := e.MayKeep()
	against := keep.InTheWay()
	if !keep.Better || keep.Worse {
		lines := strings.Join(e.Lines()[1:], "; ")
		if !w.Anyway {
			return fault.WithHint(fault.Usagef("%s: no proof that it is better: %s", what, lines), "measure it once more, or keep it all the same: --anyway")
		}
		env.Observe(app.Unproven{What: what, Verdicts: lines})
		against = keep.Harms
	}
	if len(against) == 0 {
		return nil
	}
	if !w.DespiteGuards {
		return fault.WithHint(fault.Usagef("%s: refused by its guards: %s", what, guardLines(against)),
			"choose another setting, measure on where a guard is not decided, or keep it all the same: --despite-guards")
	}
	env.Observe(app.Unproven{What: what, Guards: guardLines(against)})
	return nil
}

// GuardLines returns the guard verdicts against keeping the settings, in one line.
func GuardLines(e *profile.Evidence) string { return guardLines(e.MayKeep().InTheWay()) }

func guardLines(against []model.Verdict) string {
	lines := lists.Each(against, func(v model.Verdict) string { return profile.FromVerdict(v).String() })
	return strings.Join(lines, "; ")
}

// verdictLines returns the verdicts of a session, for an error.
func verdictLines(s model.Session) string {
	var b strings.Builder
	for _, v := range s.Verdicts {
		if v.IsTwin {
			continue
		}
		fmt.Fprintf(&b, "\n%q: %s", v.Setting, profile.FromVerdict(v))
	}
	if b.Len() == 0 {
		return "; it has no verdicts"
	}
	return b.String()
}

// chooseSetting returns the setting that the user names, or else the one that proved better:
// of several levels the smallest that is good enough.
func chooseSetting(env app.Env, s model.Session, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	if chosen, among := profile.Chosen(s); chosen != "" {
		if len(among) > 1 {
			others := slices.DeleteFunc(among, func(o string) bool { return o == chosen })
			event := app.SmallestGood{Setting: chosen, Others: others}
			if len(s.Plateaus) > 0 {
				event.Tolerance = s.Plateaus[0].Tolerance
			}
			env.Observe(event)
		}
		return chosen, nil
	}
	names, refused := profile.Candidates(s)
	if len(names) == 0 {
		names = refused // reported with the reasons against each
	}
	switch len(names) {
	case 1:
		return names[0], nil
	case 0:
		err := fault.Usagef("no setting of session %s that changes a host proved better", s.ID)
		if slices.ContainsFunc(s.Plan.Settings, func(one model.Setting) bool { return len(one.Assignments) > 0 }) {
			err = fault.WithHint(err, "name one with --setting: %s", settingNames(s))
		}
		return "", err
	}
	return "", fault.WithHint(fault.Usagef("several settings of session %s proved better", s.ID), "choose with --setting: %s", strings.Join(names, ", "))
}

func settingNames(s model.Session) string {
	var names []string
	for _, one := range s.Plan.Settings {
		if one.Name != s.Plan.Twin {
			names = append(names, fmt.Sprintf("%q", one.Name))
		}
	}
	return strings.Join(names, ", ")
}

// hostFor returns the settings of a profile for one end. other reports that there are none
// for this end, but some for the other one.
func (s Source) hostFor(end model.Host, asked profile.Role, alone bool) (h profile.Host, other bool, err error) {
	role, err := s.roleFor(end, asked, alone)
	if err != nil {
		return h, false, err
	}
	h, ok := s.Profile.Host(role)
	if !ok {
		roles := s.Profile.RoleNames()
		if alone && asked == "" && s.Near != "" {
			return h, true, fault.WithHint(fault.Usagef("this machine was the %s, and the setting is one of the %s", role, plain.Join(roles, ", ")), "keep it there: %s; or say what this machine is: --role %s", s.there, plain.Join(roles, " or "))
		}
		return h, true, fault.WithHint(fault.Usagef("no settings for the %s; the profile has some for %s", role, plain.Join(roles, ", ")),
			"say whose settings that host gets: --role %s", plain.Join(roles, " or "))
	}
	return h, false, nil
}

// roleFor returns the role of an end. If the user asked for a role, HOST gets it, or this
// machine if it is alone, and the other end gets the opposite one; otherwise this machine is
// near and HOST far.
func (s Source) roleFor(end model.Host, asked profile.Role, alone bool) (profile.Role, error) {
	names := s.Profile.RoleNames()
	if asked != "" {
		if !slices.Contains(profile.Roles(), asked) || asked == profile.Both {
			return "", fault.Usagef("--role %q: want near, far, sender or receiver", asked)
		}
		if alone || end == model.Far {
			return asked, nil
		}
		return map[profile.Role]profile.Role{
			profile.Near: profile.Far, profile.Far: profile.Near, profile.Sender: profile.Receiver, profile.Receiver: profile.Sender,
		}[asked], nil
	}
	switch {
	case len(names) == 0:
		return profile.Both, nil
	case slices.Contains(names, profile.Near) || slices.Contains(names, profile.Far):
		if end == model.Near {
			return profile.Near, nil
		}
		return profile.Far, nil
	case end == model.Near && s.Near != "":
		return s.Near, nil
	case end == model.Far && s.Far != "":
		return s.Far, nil
	case len(names) == 1 && alone:
		return names[0], nil
	}
	return "", fault.WithHint(fault.Usagef("the profile has settings of their own for sender and receiver"), "say what HOST, or this machine alone, is: --role sender or --role receiver")
}

// proofFor returns the text of the proof for an end with a role, as the host stores it; "" if
// there is none.
func (s Source) proofFor(end model.Host, role profile.Role) (string, error) {
	if s.Proof == nil {
		return "", nil
	}
	p := *s.Proof
	first := model.To
	if len(p.Directions) > 0 && p.Directions[0] == model.From {
		first = model.From
	}
	switch role {
	case profile.Near:
		p.Side = model.Near
	case profile.Far:
		p.Side = model.Far
	case profile.Sender:
		p.Side = first.Sender()
	case profile.Receiver:
		p.Side = first.Receiver()
	case profile.Both:
		p.Side = end
	}
	return p.Text()
}
