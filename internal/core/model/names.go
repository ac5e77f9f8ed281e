package model

import (
	"slices"
	"strings"
)

// Names are what people call the two ends of a session.
type Names struct{ Near, Far string }

// ThisMachine is the text of an end that is the controller's own host.
const ThisMachine = "this machine"

// Names returns what people call the ends of s: an end that a person named as they wrote
// it, without user, scheme and secret; this machine, and the hosts of a lab, as they call
// themselves. Two ends of one name are told apart by their side.
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

// EndName is what the text of an end is called: its host, as the person wrote it. The text
// of a lab stays as it is.
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

// EndNames is what several ends beside each other are called: by EndName where no other one
// has the same name, and by their whole text where one does.
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
