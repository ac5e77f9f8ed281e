package cli

import (
	"context"
	"os"
	"strings"

	"linerate/internal/app/keep"
)

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

// keepSource reads the profile, or the session, that is named; "" is what the hosts
// confirmed.
func (a *console) keepSource(ctx context.Context, name string, f keepFlags) (keep.Source, error) {
	if name == "" {
		if f.setting != "" || f.role != "" {
			return keep.Source{}, withHint(usagef("--setting and --role are about a session or a profile"), "linerate keep SESSION --setting NAME")
		}
		return keep.ConfirmedThere(), nil
	}
	wish := keep.Wish{Anyway: f.anyway, DespiteGuards: f.despiteGuards}
	_, statErr := os.Stat(name)
	if statErr == nil || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		if f.setting != "" {
			return keep.Source{}, usagef("--setting is for sessions; %s is a profile", name)
		}
		p, err := a.readProfile(name)
		if err != nil {
			return keep.Source{}, err
		}
		return keep.OfProfile(a.world(), name, p, wish)
	}
	st, err := a.openStore(ctx)
	if err != nil {
		return keep.Source{}, err
	}
	defer st.Close()
	s, err := find(ctx, st, name)
	if err != nil {
		return keep.Source{}, err
	}
	return keep.OfSession(a.world(), s, f.setting, untrusted(s), wish)
}
