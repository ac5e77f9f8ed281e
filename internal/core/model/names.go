package model

import (
	"slices"
	"strings"
)

// Names are the display names of the two ends of a session.
type Names struct{ Near, Far string }

// ThisMachine is the target of an end that is the controller's own host.
const ThisMachine = "this machine"

// Names returns the display names of the ends of s: for an end that the user named, that name
// without user, scheme and secret; for this machine and the hosts of a lab, their own host
// name. Two ends of one name are distinguished by their side.
func (s *Session) Names() Names {
	called := func(h Host, target string) string {
		if target == "" || target == ThisMachine || strings.HasPrefix(target, "lab:") {
			if f, ok := s.Facts(h); ok && f.Name != "" {
				return f.Name
			}
		}
		if target == "" {
			return string(h)
		}
		return EndName(target)
	}
	n := Names{called(Near, s.Near), called(Far, s.Far)}
	if n.Near == n.Far {
		n.Near, n.Far = n.Near+" (near)", n.Far+" (far)"
	}
	return n
}

// Of returns the name of end h.
func (n Names) Of(h Host) string {
	if h == Near {
		return n.Near
	}
	return n.Far
}

// Way names direction d: "to nas", "from nas", "both ways".
func (n Names) Way(d Direction) string {
	switch d {
	case To, From:
		return string(d) + " " + n.Far
	case Both:
		return "both ways"
	}
	return string(d)
}

// Arrow names direction d with both ends: "desk -> nas".
func (n Names) Arrow(d Direction) string {
	switch d {
	case From:
		return n.Far + " -> " + n.Near
	case Both:
		return n.Near + " <-> " + n.Far
	case To:
	}
	return n.Near + " -> " + n.Far
}

// EndName returns the display name of a target: its host, as the user wrote it. The text of a
// lab stays unchanged.
func EndName(target string) string {
	if strings.HasPrefix(target, "lab:") {
		return target
	}
	if rest, command := strings.CutPrefix(target, "exec:"); command {
		address, _, _ := strings.Cut(rest, " ")
		return address
	}
	if _, rest, isURL := strings.Cut(target, "://"); isURL {
		target = rest
	}
	return strings.TrimSuffix(target[strings.LastIndex(target, "@")+1:], ":5299")
}

// EndNames returns the display names of several ends: EndName if it is unique, otherwise the
// whole text of the target.
func EndNames(targets []string) []string {
	out := slices.Clone(targets)
	for i, t := range targets {
		name := EndName(t)
		if name != "" && !slices.ContainsFunc(targets, func(o string) bool { return o != t && EndName(o) == name }) {
			out[i] = name
		}
	}
	return out
}
