// Package profile holds settings that were tested on one pair of hosts, in a form for use
// elsewhere: with the evidence for them.
//
// A profile is text for people and programs; package ui/config reads it, [Text] writes it, and
// docs/permanent.md describes it.
package profile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"linerate/internal/core/analysis"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// Version is the format that this package writes. It also reads version 1, which has the same
// content: users have profiles of both.
const Version = 2

// Limits of a profile, far above any use.
const (
	MaxText     = 400     // characters of a title or another line of text
	MaxValue    = 2 << 10 // bytes of a value or a native text
	MaxSettings = 200     // of one host
	MaxVerdicts = 64
)

// Role says which host of a pair the settings are for.
type Role string

// The roles. Sender and Receiver apply if one direction was measured. If both were, the ends
// keep their names, and settings that are equal at both ends are for either.
const (
	Both     Role = "both" // either end
	Near     Role = "near"
	Far      Role = "far"
	Sender   Role = "sender"
	Receiver Role = "receiver"
)

// Roles returns all roles.
func Roles() []Role { return []Role{Both, Near, Far, Sender, Receiver} }

// Profile is the content of a profile file.
type Profile struct {
	Title    string    `json:"title"`
	Hosts    []Host    `json:"hosts"`    // one for each role, at least one
	Evidence *Evidence `json:"evidence"` // nil: not measured
}

// Host has the settings of one role, and the host where they were tested.
type Host struct {
	Role     Role          `json:"role"`
	System   string        `json:"system,omitempty"`    // GOOS of that host; "" if unknown
	Kernel   string        `json:"kernel,omitempty"`    // of that host; "" if unknown
	LinkRate units.BitRate `json:"link_rate,omitempty"` // of that host's link; 0 if unknown
	MTU      int           `json:"mtu,omitempty"`       // of that host's link in bytes; 0 if unknown
	Settings []Setting     `json:"knobs"`               // in the order of the file, each knob once
	// Before holds native texts from that host before the trial, by native name. If several
	// knobs share one native setting, it has the values of the others: "net.ipv4.tcp_rmem" is
	// "4096 131072 33554432".
	Before map[string]string `json:"before,omitempty"`
}

// Setting is one knob with its value.
type Setting struct {
	Knob  model.KnobID `json:"knob"`
	Value string       `json:"value"` // canonical, see model.Assignment
}

// Evidence is the proof that the settings are good, or not.
type Evidence struct {
	Session  string `json:"session"`  // ID
	Setting  string `json:"setting"`  // its name in the session
	Baseline string `json:"baseline"` // name of the setting that it was compared with
	// Objective is the metric that decides; "" is goodput.
	Objective model.Metric `json:"objective,omitempty"`
	Date      time.Time    `json:"date,omitzero"`
	Verdicts  []Verdict    `json:"verdicts,omitempty"`
	// Print holds the conditions; empty if they were not recorded.
	Print fingerprint.Print `json:"fingerprint,omitempty"`
}

// MayKeep says whether the evidence allows keeping the settings.
func (e Evidence) MayKeep() analysis.Keep {
	var all []model.Verdict
	for _, v := range e.Verdicts {
		m := model.Verdict{
			Direction: v.Direction, Metric: v.Metric, Outcome: v.Outcome, Blocks: v.Blocks, Estimate: v.Estimate,
			Interval: model.Interval{Low: v.Low, High: v.High, Confidence: v.Confidence},
		}
		if v.Guard != "" {
			m.Guard = &model.GuardCheck{State: v.Guard}
		}
		if v.Guard == model.GuardTolerable {
			m.Guard = &model.GuardCheck{State: model.GuardOpen, Tolerable: true}
		}
		all = append(all, m)
	}
	return analysis.MayKeep(cmp.Or(e.Objective, model.Goodput), all, "")
}

// Empty reports whether e has no content.
func (e Evidence) Empty() bool {
	return e.Session+e.Setting+e.Baseline+string(e.Objective) == "" && e.Date.IsZero() && len(e.Verdicts) == 0 && len(e.Print) == 0
}

// Verdict is a model.Verdict without the parts specific to its session. Estimate and interval
// are log ratios, positive is good; differences for metrics that can be 0. Unbounded ends are
// infinite.
type Verdict struct {
	Direction  model.Direction `json:"direction,omitempty"`
	Metric     model.Metric    `json:"metric"`
	Outcome    model.Outcome   `json:"outcome"`
	Blocks     int             `json:"blocks"`
	Estimate   float64         `json:"estimate"`
	Low        model.Bound     `json:"low"`
	High       model.Bound     `json:"high"`
	Confidence float64         `json:"confidence"` // 0…1
	// Guard is the state of the guard on this metric; "" if it has none.
	Guard model.GuardState `json:"guard,omitempty"`
}

// ErrInvalid reports a profile that breaks the rules of its format.
var ErrInvalid = errors.New("not a valid profile")

// Validate reports every fault of p, joined; each wraps ErrInvalid. It does not check whether
// the catalogue has the knobs and accepts the values.
func (p Profile) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(format+": %w", append(args, ErrInvalid)...))
	}
	line := func(what, s string) {
		if utf8.RuneCountInString(s) > MaxText || !plain.Printable(s) {
			fault("%s is longer than %d characters or not plain text", what, MaxText)
		}
	}
	line("title", p.Title)
	if len(p.Hosts) == 0 {
		fault("no host")
	}
	seen := map[Role]bool{}
	for _, h := range p.Hosts {
		if !slices.Contains(Roles(), h.Role) || seen[h.Role] {
			fault("role %q is unknown or there twice", h.Role)
		}
		seen[h.Role] = true
		h.validate(fault, line)
	}
	if (seen[Near] || seen[Far]) && (seen[Sender] || seen[Receiver]) {
		fault("near and far do not mix with sender and receiver")
	}
	if p.Evidence != nil {
		p.Evidence.validate(fault, line)
	}
	return errors.Join(faults...)
}

func (h Host) validate(fault func(string, ...any), line func(what, s string)) {
	line("system", h.System)
	line("kernel", h.Kernel)
	if h.LinkRate < 0 || h.MTU < 0 {
		fault("a rate or MTU below zero")
	}
	if len(h.Settings) == 0 || len(h.Settings) > MaxSettings || len(h.Before) > MaxSettings {
		fault("%d settings of the %s: want 1 to %d", len(h.Settings), h.Role, MaxSettings)
	}
	seen := map[model.KnobID]bool{}
	for _, s := range h.Settings {
		if seen[s.Knob] {
			fault("%s of the %s is there twice", s.Knob, h.Role)
		}
		seen[s.Knob] = true
		if s.Knob == "" || strings.Trim(string(s.Knob), "abcdefghijklmnopqrstuvwxyz0123456789._") != "" {
			fault("knob %q", s.Knob)
		}
		if s.Value == "" || len(s.Value) > MaxValue || !plain.Printable(s.Value) {
			fault("value of %s is empty, too long or not plain text", s.Knob)
		}
	}
	for name, text := range h.Before {
		if name == "" || len(name) > MaxText || len(text) > MaxValue || !plain.Printable(name) || !plain.Printable(text) {
			fault("native text of %q is too long or not plain text", name)
		}
	}
}

func (e Evidence) validate(fault func(string, ...any), line func(what, s string)) {
	line("session", e.Session)
	line("setting", e.Setting)
	line("baseline", e.Baseline)
	line("objective", string(e.Objective))
	if err := e.Print.Validate(); err != nil {
		fault("%w", err)
	}
	if len(e.Verdicts) > MaxVerdicts {
		fault("%d verdicts: at most %d", len(e.Verdicts), MaxVerdicts)
	}
	for _, v := range e.Verdicts {
		switch v.Outcome {
		case model.Better, model.Worse, model.Equivalent, model.Undecided:
		default:
			fault("outcome %q", v.Outcome)
		}
		switch v.Guard {
		case "", model.GuardHolds, model.GuardViolated, model.GuardOpen, model.GuardTolerable, model.GuardUnmeasured:
		default:
			fault("guard %q", v.Guard)
		}
		line("direction", string(v.Direction))
		line("metric", string(v.Metric))
		if !(v.Confidence >= 0 && v.Confidence <= 1) || v.Blocks < 0 || math.IsNaN(v.Estimate) || math.IsInf(v.Estimate, 0) ||
			math.IsNaN(float64(v.Low)) || math.IsNaN(float64(v.High)) || v.Low > v.High {
			fault("verdict on %s has a confidence, a number of blocks or an interval that cannot be", v.Metric)
		}
	}
}

// Host returns the settings of one role: those for either end, then those of the role itself.
// It reports false if p has neither.
func (p Profile) Host(role Role) (Host, bool) {
	var out Host
	found := false
	for _, want := range []Role{Both, role} {
		for _, h := range p.Hosts {
			if h.Role != want || found && want == Both {
				continue
			}
			if !found {
				out, found = h, true
				continue
			}
			out = out.join(h)
		}
		if role == Both {
			break
		}
	}
	return out, found
}

// join returns h with the settings of more added: a knob in both takes the value from more.
func (h Host) join(more Host) Host {
	settings := slices.Clone(h.Settings)
	for _, s := range more.Settings {
		if i := slices.IndexFunc(settings, func(o Setting) bool { return o.Knob == s.Knob }); i >= 0 {
			settings[i] = s
			continue
		}
		settings = append(settings, s)
	}
	before := map[string]string{}
	maps.Copy(before, h.Before)
	maps.Copy(before, more.Before)
	more.Settings, more.Before = settings, before
	return more
}

// RoleNames returns the roles of p other than Both.
func (p Profile) RoleNames() []Role {
	var all []Role
	for _, h := range p.Hosts {
		if h.Role != Both {
			all = append(all, h.Role)
		}
	}
	return all
}

// String formats the verdict on one line: "goodput to: better, 12 % higher (+10 % to +14 % at
// 95 %), 12 blocks". The change is that of the metric itself: a better round trip is lower.
func (v Verdict) String() string {
	i := metric.Describe(v.Metric)
	s := fmt.Sprintf("%s: %s, %s (%s at %s), %d blocks", strings.TrimSpace(i.Name+" "+string(v.Direction)), v.Outcome,
		i.ChangeText(v.Estimate, float64(v.Low), float64(v.High)), i.RangeText(v.Estimate, float64(v.Low), float64(v.High)), units.Percent(100*v.Confidence), v.Blocks)
	switch v.Guard {
	case model.GuardHolds:
		s += ", guard holds"
	case model.GuardViolated:
		s += ", guard violated"
	case model.GuardOpen:
		s += ", guard not decided"
	case model.GuardTolerable:
		s += ", guard not decided, harm of three margins ruled out"
	case model.GuardUnmeasured:
		s += ", guard not measured"
	}
	return s
}

// Lines formats the evidence, what decided and what was guarded, one fact per line; e may be nil.
func (e *Evidence) Lines() []string {
	if e == nil {
		return []string{"evidence: none, not measured"}
	}
	s := "evidence: session " + e.Session
	if e.Setting != "" {
		s += fmt.Sprintf(", setting %q", e.Setting)
	}
	if e.Baseline != "" {
		s += fmt.Sprintf(" against %q", e.Baseline)
	}
	if !e.Date.IsZero() {
		s += ", " + e.Date.Format(time.DateOnly)
	}
	lines := []string{s}
	for _, v := range e.Verdicts {
		if v.Metric == cmp.Or(e.Objective, model.Goodput) || v.Guard != "" || v.Outcome != model.Undecided { // the rest was watched, and nothing was to be decided
			lines = append(lines, v.String())
		}
	}
	if len(e.Verdicts) == 0 {
		lines = append(lines, "no verdict")
	}
	return lines
}

// Title says for which end the settings are, and where they were tested.
func (h Host) Title() string {
	s := map[Role]string{
		Both: "either end", Near: "near end", Far: "far end", Sender: "sender", Receiver: "receiver",
	}[h.Role]
	var where []string
	for _, text := range []string{h.System, h.Kernel} {
		if text != "" {
			where = append(where, text)
		}
	}
	if h.LinkRate > 0 {
		where = append(where, h.LinkRate.String())
	}
	if h.MTU > 0 {
		where = append(where, fmt.Sprintf("MTU %d", h.MTU))
	}
	if len(where) > 0 {
		s += ", tried on " + strings.Join(where, ", ")
	}
	return s
}

// Comments returns the comments for a file that say where the settings of a host come from.
func (p Profile) Comments(h Host) []string {
	var all []string
	if p.Title != "" {
		all = append(all, "title: "+p.Title)
	}
	all = append(all, h.Title())
	return append(all, p.Evidence.Lines()...)
}
