package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"linerate/internal/app"
	"linerate/internal/core/model"
	"linerate/internal/core/profile"
)

// keepSource is where the settings to keep come from.
type keepSource struct {
	profile   profile.Profile
	label     string // for the list of what is kept
	confirmed bool   // no profile: what each host confirmed
	// The roles of the ends of a session whose direction is known.
	near, far profile.Role
}

// keepArgs tells SOURCE and HOST apart: what names a file is a profile, what
// has the @ or the colon of a target is a host, and a session's name has neither.
func keepArgs(args []string) (source, host string, err error) {
	switch len(args) {
	case 0:
		return "", "", nil
	case 1:
		if looksLikeHost(args[0]) {
			return "", args[0], nil
		}
		return args[0], "", nil
	case 2:
		if looksLikeHost(args[0]) && !looksLikeHost(args[1]) {
			return "", "", withHint(usagef("keep: %q is a host", args[0]), "the profile or session comes first: linerate keep %s %s", args[1], args[0])
		}
		return args[0], args[1], nil
	}
	return "", "", withHint(usagef("keep takes a profile or a session, and at most one HOST, got %q", args), "see linerate keep --help")
}

func looksLikeHost(s string) bool {
	if _, err := os.Stat(s); err == nil {
		return false
	}
	return strings.ContainsAny(s, "@:") && !strings.HasSuffix(s, ".yaml") && !strings.HasSuffix(s, ".yml")
}

// keepSourceOf reads the profile, or the session. What no verdict calls better
// is refused, unless the user wishes it by --anyway.
func (a *console) keepSourceOf(ctx context.Context, name string, f keepFlags) (keepSource, error) {
	if name == "" {
		if f.setting != "" || f.role != "" {
			return keepSource{}, withHint(usagef("--setting and --role are about a session or a profile"), "linerate keep SESSION --setting NAME")
		}
		return keepSource{confirmed: true, label: "confirmed with linerate set"}, nil
	}
	_, statErr := os.Stat(name)
	if statErr == nil || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		if f.setting != "" {
			return keepSource{}, usagef("--setting is for sessions; %s is a profile", name)
		}
		p, err := readProfile(name)
		if err != nil {
			return keepSource{}, err
		}
		s := keepSource{profile: p, label: strings.TrimSuffix("profile "+name+": "+p.Title, ": ")}
		return s, a.demandProof(p.Evidence, f, name)
	}
	return a.keepSession(ctx, name, f)
}

// keepSession is keepSourceOf for a stored session.
func (a *console) keepSession(ctx context.Context, ref string, f keepFlags) (keepSource, error) {
	st, err := a.openStore(ctx)
	if err != nil {
		return keepSource{}, err
	}
	defer st.Close()
	s, err := find(ctx, st, ref)
	if err != nil {
		return keepSource{}, err
	}
	setting := f.setting
	if names, refused := profile.Candidates(s); setting == "" && len(names)+len(refused) == 0 {
		return keepSource{}, withHint(usagef("session %s: no setting that changes a host proved better%s", s.ID, verdictLines(s)),
			"name the setting and your wish to keep it all the same: --setting NAME --anyway; its settings are %s", settingNames(s))
	}
	if setting, err = chooseSetting(s, setting); err != nil {
		return keepSource{}, err
	}
	p, flow, err := profile.FromSession(s, setting)
	if err != nil {
		return keepSource{}, withHint(app.WithKind(app.Usage, err), "its settings are %s", settingNames(s))
	}
	for _, one := range flow {
		a.talk("left out: %s=%s belongs to the test traffic, not to a host", one.Knob, one.Value)
	}
	if untrusted(s) {
		if !f.anyway {
			return keepSource{}, withHint(app.WithKind(app.Untrusted, fmt.Errorf("session %s says that its verdicts must not be believed", s.ID)),
				"measure again, or keep it all the same: --anyway")
		}
		a.talk("warning: session %s says that its verdicts must not be believed", s.ID)
	}
	src := keepSource{profile: p, label: fmt.Sprintf("session %s, setting %q", s.ID, setting)}
	if d := s.Plan.Directions; len(d) == 1 && d[0] != model.Both {
		src.near, src.far = profile.Sender, profile.Receiver
		if d[0] == model.From {
			src.near, src.far = profile.Receiver, profile.Sender
		}
	}
	return src, a.demandProof(p.Evidence, f, fmt.Sprintf("session %s, setting %q", s.ID, setting))
}

// demandProof refuses what was measured and did not prove better, or made
// something worse, and what is better but harms what a guard watches over, or has
// not been shown not to. What nobody measured is a wish of whoever wrote the
// profile.
func (a *console) demandProof(e *profile.Evidence, f keepFlags, what string) error {
	if e == nil {
		a.talk("note: %s: nobody measured these settings", what)
		return nil
	}
	proof := e.Proof()
	if !proof.Better || proof.Worse {
		lines := strings.Join(e.Lines()[1:], "; ")
		if !f.anyway {
			return withHint(usagef("%s: no proof that it is better: %s", what, lines), "measure it once more, or keep it all the same: --anyway")
		}
		a.talk("warning: %s: kept by wish, not by proof: %s", what, lines)
		proof.Guards = slices.DeleteFunc(proof.Guards, func(v profile.Verdict) bool { return v.Guard != model.GuardViolated })
	}
	if len(proof.Guards) == 0 {
		return nil
	}
	if !f.despiteGuards {
		return withHint(usagef("%s: refused by its guards: %s", what, guardLines(e)),
			"choose another setting, measure on where a guard is not decided, or keep it all the same: --despite-guards")
	}
	a.talk("warning: %s: kept despite its guards: %s", what, guardLines(e))
	return nil
}

// guardLines are the guards that do not hold, in one line.
func guardLines(e *profile.Evidence) string {
	var lines []string
	for _, v := range e.Proof().Guards {
		lines = append(lines, v.String())
	}
	return strings.Join(lines, "; ")
}

// verdictLines are the verdicts of a session, for an error.
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

// hostFor returns the settings of a profile for one end. other reports that
// there are none for this end, but for the other one.
func (s keepSource) hostFor(end model.Host, f keepFlags, alone bool) (h profile.Host, other bool, err error) {
	role, err := s.roleFor(end, f, alone)
	if err != nil {
		return h, false, err
	}
	h, ok := s.profile.Host(role)
	if !ok {
		var words []string
		for _, r := range s.profile.RoleNames() {
			words = append(words, string(r))
		}
		return h, true, withHint(usagef("no settings for the %s; the profile has some for %s", role, strings.Join(words, ", ")),
			"say whose settings that host gets: --role %s", strings.Join(words, " or "))
	}
	return h, false, nil
}

// roleFor is the role of an end: what --role says of HOST, or of this machine
// where it is alone, and the opposite for the other end; else near is this
// machine and far HOST.
func (s keepSource) roleFor(end model.Host, f keepFlags, alone bool) (profile.Role, error) {
	names := s.profile.RoleNames()
	if f.role != "" {
		role := profile.Role(f.role)
		if !slices.Contains(profile.Roles(), role) || role == profile.Both {
			return "", usagef("--role %q: want near, far, sender or receiver", f.role)
		}
		if alone || end == model.Far {
			return role, nil
		}
		return map[profile.Role]profile.Role{
			profile.Near: profile.Far, profile.Far: profile.Near, profile.Sender: profile.Receiver, profile.Receiver: profile.Sender,
		}[role], nil
	}
	switch {
	case len(names) == 0:
		return profile.Both, nil
	case slices.Contains(names, profile.Near) || slices.Contains(names, profile.Far):
		if end == model.Near {
			return profile.Near, nil
		}
		return profile.Far, nil
	case end == model.Near && s.near != "":
		return s.near, nil
	case end == model.Far && s.far != "":
		return s.far, nil
	case len(names) == 1 && alone:
		return names[0], nil
	}
	return "", withHint(usagef("the profile has settings of their own for sender and receiver"), "say what HOST, or this machine alone, is: --role sender or --role receiver")
}
