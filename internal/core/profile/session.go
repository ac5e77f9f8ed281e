package profile

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"linerate/internal/core/analysis"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
)

// ErrCommand reports a setting with a user's command: no system file can keep its effect, and
// keeping only the rest of the setting would be an unmeasured combination.
var ErrCommand = errors.New("runs a command, which cannot be made permanent")

// FromSession returns the named setting of session s as a profile. It returns settings of the
// test traffic, which have no host, separately. The error says that s has no such setting, or
// that the setting changes no host.
func FromSession(s model.Session, name string) (p Profile, flow []model.Assignment, err error) {
	setting, ok := s.Plan.Setting(name)
	if !ok {
		return p, nil, fmt.Errorf("session %s has no setting %q", s.ID, name)
	}
	if len(s.Plan.Ends) > 0 {
		return p, nil, fmt.Errorf("setting %q of session %s was measured with several far ends: prove it with the one that it is for, in a run of its own", name, s.ID)
	}
	hosts := map[model.Host]*Host{}
	for _, a := range setting.Assignments {
		if a.Host == "" {
			flow = append(flow, a)
			continue
		}
		if a.IsCommand() {
			if a.Value == model.Off { // off is the host unchanged
				continue
			}
			return p, nil, fmt.Errorf("setting %q of session %s %w: %q on the %s host", name, s.ID, ErrCommand, a.Command.Run, a.Host)
		}
		h := hosts[a.Host]
		if h == nil {
			h = newHost(s, a.Host)
			hosts[a.Host] = h
		}
		h.Settings = append(h.Settings, Setting{a.Knob, a.Value})
	}
	if len(hosts) == 0 {
		return p, flow, fmt.Errorf("setting %q of session %s changes no host", name, s.ID)
	}
	p.Title = brief(s.Title)
	p.Hosts = roles(s, hosts[model.Near], hosts[model.Far])
	p.Evidence = evidence(s, name)
	return p, flow, p.Validate()
}

func newHost(s model.Session, host model.Host) *Host {
	h := &Host{Before: map[string]string{}}
	for _, f := range s.Hosts {
		if f.Host == host {
			h.System, h.Kernel = brief(f.OS), brief(f.Kernel.Or(""))
			h.LinkRate, h.MTU = f.LinkRate.Or(0), f.MTU.Or(0)
		}
	}
	for _, c := range s.Changes {
		native, _, _ := strings.Cut(c.Native, " of ") // "mtu of eth0": the interface name is specific to that host
		if _, ok := h.Before[native]; c.Host == host && !ok && native != "" {
			h.Before[native] = strings.Join(strings.Fields(c.Old), " ")
		}
	}
	return h
}

// roles names the hosts by their part in the session; a is near, b is far, nil if nothing
// changes there.
func roles(s model.Session, a, b *Host) []Host {
	if a != nil && b != nil && a.System == b.System && sameSettings(a.Settings, b.Settings) {
		a.Role = Both
		for name, text := range a.Before { // values that differ are left out for both
			if b.Before[name] != text {
				delete(a.Before, name)
			}
		}
		return []Host{*a}
	}
	near, far := Near, Far
	if d := s.Plan.Directions; len(d) == 1 && d[0] != model.Both {
		near, far = Sender, Receiver
		if d[0] == model.From {
			near, far = Receiver, Sender
		}
	}
	var all []Host
	if a != nil {
		a.Role = near
		all = append(all, *a)
	}
	if b != nil {
		b.Role = far
		all = append(all, *b)
	}
	return all
}

func sameSettings(a, b []Setting) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(s Setting) bool { return !slices.Contains(b, s) })
}

func evidence(s model.Session, name string) *Evidence {
	e := &Evidence{Session: s.ID, Setting: brief(name), Baseline: brief(s.Plan.Baseline), Objective: s.Plan.Objective, Date: s.Ended.UTC()}
	if s.Ended.IsZero() {
		e.Date = s.Created.UTC()
	}
	for _, v := range s.Verdicts {
		if v.Setting != name || v.IsTwin || len(e.Verdicts) == MaxVerdicts || math.IsNaN(v.Estimate) || math.IsInf(v.Estimate, 0) {
			continue
		}
		e.Verdicts = append(e.Verdicts, FromVerdict(v))
	}
	if proof, err := fingerprint.Prove(&s, name); err == nil && len(proof.Print) > 0 {
		e.Print = proof.Print
	}
	return e
}

// FromVerdict returns the part of v that a profile keeps.
func FromVerdict(v model.Verdict) Verdict {
	out := Verdict{
		Direction: v.Direction, Metric: v.Metric, Outcome: v.Outcome, Blocks: v.Blocks, Estimate: v.Estimate,
		Low: v.Interval.Low, High: v.Interval.High, Confidence: v.Interval.Confidence,
	}
	if g := v.Guard; g != nil && (!g.Default || g.State != model.GuardUnmeasured) {
		out.Guard = g.State
		if g.State == model.GuardOpen && g.Tolerable {
			out.Guard = model.GuardTolerable
		}
	}
	return out
}

// Candidates returns the names of the settings of s that change a host and that the objective
// calls better, and nowhere worse; refused are those that a guard blocks.
func Candidates(s model.Session) (names, refused []string) {
	for _, setting := range s.Plan.Settings {
		changes := slices.ContainsFunc(setting.Assignments, func(a model.Assignment) bool { return a.Host != "" })
		if !changes || setting.Name == s.Plan.Twin {
			continue
		}
		switch keep := analysis.MayKeep(s.Plan.Decides(), s.Verdicts, setting.Name); {
		case keep.May():
			names = append(names, setting.Name)
		case keep.Better && !keep.Worse:
			refused = append(refused, setting.Name)
		}
	}
	return names, refused
}

// Chosen returns the default setting of s to keep: the only one that may be kept; among levels
// of one setting the smallest that is good enough in every direction; among combinations the
// result of analysis.Choice. It returns "" if the session leaves the choice open. among lists
// all that may be kept.
func Chosen(s model.Session) (name string, among []string) {
	names, _ := Candidates(s)
	if len(names) == 1 {
		return names[0], names
	}
	if len(s.Plan.Factors) > 0 {
		name, _ = analysis.Choice(s)
	} else {
		for i, p := range s.Plateaus {
			if !p.Decided || p.Leave || i > 0 && p.Level != name {
				return "", names
			}
			name = p.Level
		}
	}
	if !slices.Contains(names, name) {
		return "", names
	}
	return name, names
}

// brief shortens s to one line for a profile.
func brief(s string) string { return plain.Brief(s, MaxText) }

// Proof returns the evidence that a host stores beside the settings of p, nil if p has none.
// The details of the measurement are only in the session.
func (p Profile) Proof() *fingerprint.Proof {
	if p.Evidence == nil || p.Evidence.Session == "" {
		return nil
	}
	proof := fingerprint.Profiled(p.Evidence.Session, p.Evidence.Setting, p.Evidence.Date, p.Evidence.Print)
	for _, v := range p.Evidence.Verdicts {
		if v.Direction == model.To || v.Direction == model.From {
			proof.Directions = []model.Direction{v.Direction}
		}
	}
	for _, h := range p.Hosts {
		for _, s := range h.Settings {
			proof.Kept = append(proof.Kept, model.Assignment{Knob: s.Knob, Value: s.Value})
		}
	}
	return &proof
}
