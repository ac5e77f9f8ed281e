package cli

import (
	"context"
	"os"
	"strings"

	"linerate/internal/app/keep"
	"linerate/internal/app/target"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/store"
)

// keepArgs distinguishes SOURCE and HOST: an existing file is a profile, and a word with the @ or
// colon of a target is a host; a session's name has neither.
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
			return "", "", fault.WithHint(fault.Usagef("keep: %q is a host", args[0]), "the profile or session comes first: linerate keep %s %s", args[1], args[0])
		}
		return args[0], args[1], nil
	}
	return "", "", fault.WithHint(fault.Usagef("keep takes a profile or a session, and at most one HOST, got %q", args), "see linerate keep --help")
}

func looksLikeHost(s string) bool {
	if _, err := os.Stat(s); err == nil {
		return false
	}
	return strings.ContainsAny(s, "@:") && !isYAML(s)
}

// provingSessions is how many of the last experiments to search for the proof of a confirmed
// change (p).
const provingSessions = 20

// confirmedSource returns the changes confirmed on the hosts, with the experiments that may prove
// them. Without a store it returns no experiments.
func (a *console) confirmedSource(ctx context.Context, host string) (keep.Source, error) {
	st, err := a.openStore(ctx)
	if err != nil {
		return keep.ConfirmedThere(), nil
	}
	defer st.Close()
	items, err := st.Sessions(ctx, store.Filter{Kind: model.KindRun, Far: target.Redact(host), Limit: provingSessions})
	if err != nil {
		return keep.Source{}, err
	}
	var all []model.Session
	for _, one := range items {
		s, err := st.Session(ctx, one.ID)
		if err != nil {
			return keep.Source{}, err
		}
		if !untrusted(s) {
			all = append(all, s)
		}
	}
	return keep.ConfirmedThere(all...), nil
}

// keepSource reads the named profile or session; "" is what host and this machine confirmed.
func (a *console) keepSource(ctx context.Context, name, host string, f keepFlags) (keep.Source, error) {
	if name == "" {
		if f.setting != "" || f.role != "" {
			return keep.Source{}, fault.WithHint(fault.Usagef("--setting and --role are about a session or a profile"), "linerate keep SESSION --setting NAME")
		}
		return a.confirmedSource(ctx, host)
	}
	wish := keep.Wish{Anyway: f.anyway, DespiteGuards: f.despiteGuards}
	if isProfile(name) {
		p, err := a.source(ctx, name, f.setting)
		if err != nil {
			return keep.Source{}, err
		}
		return keep.OfProfile(a.world(), name, p, wish)
	}
	st, s, err := a.openProof(ctx, name)
	if err != nil {
		return keep.Source{}, err
	}
	defer st.Close()
	return keep.OfSession(a.world(), s, f.setting, untrusted(s), wish)
}
