package change

import (
	"errors"
	"slices"

	"linerate/internal/app"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/profile"
	"linerate/internal/fault"
)

// TellProfile reports why the evidence of a profile may not apply to the hosts of its parts,
// and how many of its settings they have already.
func TellProfile(env app.Env, h Hosts, parts map[model.Host]profile.Host) {
	for _, host := range h.changed() {
		part, ok := parts[host.Side]
		if !ok {
			continue
		}
		for _, doubt := range part.Doubts(host.Facts) {
			env.Observe(app.Doubted{Host: host.Name, Doubt: doubt})
		}
		same := lists.Count(part.Diff(host.Facts.Knobs), func(d profile.Difference) bool { return d.Same })
		if same > 0 {
			env.Observe(app.Same{Host: host.Name, Settings: same, Of: len(part.Settings)})
		}
	}
}

// ChooseHost returns the settings of one role of a profile.
func ChooseHost(p profile.Profile, role string) (profile.Host, error) {
	names := p.RoleNames()
	switch {
	case role == "" && len(names) > 1:
		return profile.Host{}, fault.WithHint(fault.Usagef("the profile has settings of its own for %s", plain.Join(names, " and ")), "choose with --role")
	case role == "" && len(names) == 1:
		role = string(names[0])
	case role == "":
		role = string(profile.Both)
	}
	h, ok := p.Host(profile.Role(role))
	if !slices.Contains(profile.Roles(), profile.Role(role)) || !ok {
		return h, fault.WithHint(fault.Usagef("--role: the profile has no settings for %q", role), "it has some for %s", plain.Join(names, ", "))
	}
	return h, nil
}

// Assignments returns the settings of a host of a profile.
func Assignments(h profile.Host) []model.Assignment {
	all := lists.Each(h.Settings, func(s profile.Setting) model.Assignment { return model.Assignment{Knob: s.Knob, Value: s.Value} })
	return all
}

// CastProfile assigns the parts of a profile to the hosts of a change: to the near host alone
// without far, to the far one alone without both.
func CastProfile(p profile.Profile, role string, far, both bool) (map[model.Host]profile.Host, error) {
	names := p.RoleNames()
	has := func(r profile.Role) bool { return slices.Contains(names, r) }
	pair := has(profile.Sender) || has(profile.Receiver)
	if far && role == "" && !pair && (both || has(profile.Far)) {
		role = string(profile.Far)
	}
	if !both {
		part, err := ChooseHost(p, role)
		if err != nil {
			return nil, err
		}
		if far {
			return map[model.Host]profile.Host{model.Far: part}, nil
		}
		return map[model.Host]profile.Host{model.Near: part}, nil
	}
	other, ok := map[profile.Role]profile.Role{
		profile.Near: profile.Far, profile.Far: profile.Near, profile.Sender: profile.Receiver, profile.Receiver: profile.Sender,
	}[profile.Role(role)]
	if !ok || pair != (role == string(profile.Sender) || role == string(profile.Receiver)) {
		want := "near or far"
		if pair {
			want = "sender or receiver"
		}
		return nil, fault.WithHint(fault.Usagef("--role %q: the profile has settings for %s", role, want), "say what HOST is with --role %s", want)
	}
	parts := map[model.Host]profile.Host{}
	for h, r := range map[model.Host]profile.Role{model.Far: profile.Role(role), model.Near: other} {
		if part, ok := p.Host(r); ok {
			parts[h] = part
		}
	}
	if len(parts) == 0 {
		return nil, errors.New("the profile has no settings")
	}
	return parts, nil
}
