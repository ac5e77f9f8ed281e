package session

import (
	"slices"
	"strings"
	"time"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// This file turns values of package model into messages and back. Encoding
// cleans and shortens what comes from kernels and programs, so that it passes
// the checks of decoding; decoding trusts nothing and leaves the first fault in
// its check.

var ( // never written: the words of the protocol
	ends = map[model.Host]sessionpb.End{
		"": sessionpb.End_END_UNSPECIFIED, model.Near: sessionpb.End_END_NEAR, model.Far: sessionpb.End_END_FAR,
	}
	directions = map[model.Direction]sessionpb.Direction{
		"": sessionpb.Direction_DIRECTION_UNSPECIFIED, model.To: sessionpb.Direction_DIRECTION_TO,
		model.From: sessionpb.Direction_DIRECTION_FROM, model.Both: sessionpb.Direction_DIRECTION_BOTH,
	}
	roles = map[model.Role]sessionpb.Role{
		model.Sender: sessionpb.Role_ROLE_SENDER, model.Receiver: sessionpb.Role_ROLE_RECEIVER,
	}
	changeStates = map[model.ChangeState]sessionpb.ChangeState{
		model.ChangeApplied: sessionpb.ChangeState_CHANGE_STATE_APPLIED,
		model.ChangeUndone:  sessionpb.ChangeState_CHANGE_STATE_UNDONE,
		model.ChangeForeign: sessionpb.ChangeState_CHANGE_STATE_FOREIGN,
		model.ChangeFailed:  sessionpb.ChangeState_CHANGE_STATE_FAILED,
	}
)

// word finds the model's word for one of the protocol, among allowed.
func word[M ~string, P comparable](c *check, field string, words map[M]P, p P, allowed ...M) M {
	for m, q := range words {
		if p == q && (len(allowed) == 0 || slices.Contains(allowed, m)) {
			return m
		}
	}
	c.fail("%s has the unknown or unfit value %v", field, p)
	return ""
}

func encodeEnd(h model.Host) sessionpb.End { return ends[h] }

func decodeEnd(c *check, p sessionpb.End) model.Host {
	return word(c, "end", ends, p, model.Near, model.Far)
}

func encodeFact[T any](f fact.Of[T], set func(p *sessionpb.Fact, v T)) *sessionpb.Fact {
	v, known := f.Get()
	if !known {
		return &sessionpb.Fact{Source: clean(f.Reason(), MaxText)}
	}
	p := &sessionpb.Fact{Source: clean(f.Source(), MaxText)}
	set(p, v)
	return p
}

func encodeText(f fact.Of[string]) *sessionpb.Fact {
	return encodeFact(f, func(p *sessionpb.Fact, v string) { p.Value = &sessionpb.Fact_Text{Text: clean(v, MaxValue)} })
}

func encodeNumber[T ~int | ~int64](f fact.Of[T]) *sessionpb.Fact {
	return encodeFact(f, func(p *sessionpb.Fact, v T) { p.Value = &sessionpb.Fact_Number{Number: int64(v)} })
}

func encodeReal[T ~float64](f fact.Of[T]) *sessionpb.Fact {
	return encodeFact(f, func(p *sessionpb.Fact, v T) { p.Value = &sessionpb.Fact_Real{Real: float64(v)} })
}

func encodeTruth(f fact.Of[bool]) *sessionpb.Fact {
	return encodeFact(f, func(p *sessionpb.Fact, v bool) { p.Value = &sessionpb.Fact_Truth{Truth: v} })
}

// decodeFact reads a fact whose value must be of the kind that get accepts.
func decodeFact[T any](c *check, field string, p *sessionpb.Fact, get func() (T, bool)) fact.Of[T] {
	source := c.text(field, p.GetSource(), MaxText)
	if p.GetValue() == nil {
		return fact.Unknown[T](source)
	}
	v, ok := get()
	if !ok {
		c.fail("%s has a value of another kind", field)
		return fact.Of[T]{}
	}
	return fact.Known(v, source)
}

func decodeText(c *check, field string, p *sessionpb.Fact) fact.Of[string] {
	return decodeFact(c, field, p, func() (string, bool) {
		v, ok := p.GetValue().(*sessionpb.Fact_Text)
		return c.text(field, p.GetText(), MaxValue), ok && v != nil
	})
}

// decodeNumber reads a count or an amount, which is never negative.
func decodeNumber[T ~int | ~int64](c *check, field string, p *sessionpb.Fact) fact.Of[T] {
	return decodeFact(c, field, p, func() (T, bool) {
		v, ok := p.GetValue().(*sessionpb.Fact_Number)
		return T(c.atMost(field, p.GetNumber(), maxBytes)), ok && v != nil
	})
}

func decodeReal[T ~float64](c *check, field string, p *sessionpb.Fact) fact.Of[T] {
	return decodeFact(c, field, p, func() (T, bool) {
		v, ok := p.GetValue().(*sessionpb.Fact_Real)
		return T(c.finite(field, p.GetReal())), ok && v != nil
	})
}

func decodeTruth(c *check, field string, p *sessionpb.Fact) fact.Of[bool] {
	return decodeFact(c, field, p, func() (bool, bool) {
		v, ok := p.GetValue().(*sessionpb.Fact_Truth)
		return p.GetTruth(), ok && v != nil
	})
}

func encodeFacts(f model.HostFacts) *sessionpb.HostFacts {
	return &sessionpb.HostFacts{
		Name: clean(f.Name, MaxAddress), Os: clean(f.OS, MaxName), Arch: clean(f.Arch, MaxName),
		Kernel: encodeText(f.Kernel), Cpus: uint32(f.CPUs), Version: clean(f.Version, MaxName),
		Address: clean(f.Address, MaxAddress), Interface: encodeText(f.Interface), Mtu: encodeNumber(f.MTU),
		LinkRate: encodeReal(f.LinkRate), Congestion: encodeText(f.Congestion), Qdisc: encodeText(f.Qdisc),
		Knobs: encodeKnobs(f.Knobs), Machine: encodeMachine(f.Machine), Route: encodeRoute(f.Route), Nics: encodeNICs(f.NICs),
		Path: encodePath(f.Path),
	}
}

func decodeFacts(c *check, p *sessionpb.HostFacts, h model.Host) model.HostFacts {
	return model.HostFacts{
		Host: h, Name: c.text("host name", p.GetName(), MaxAddress),
		OS: c.text("os", p.GetOs(), MaxName), Arch: c.text("arch", p.GetArch(), MaxName),
		Kernel: decodeText(c, "kernel", p.GetKernel()), CPUs: int(c.atMost("cpus", int64(p.GetCpus()), maxCPUs)),
		Version:   c.text("version", p.GetVersion(), MaxName),
		Address:   c.text("address", p.GetAddress(), MaxAddress),
		Interface: decodeText(c, "interface", p.GetInterface()), MTU: decodeNumber[int](c, "mtu", p.GetMtu()),
		LinkRate:   decodeReal[units.BitRate](c, "link rate", p.GetLinkRate()),
		Congestion: decodeText(c, "congestion", p.GetCongestion()), Qdisc: decodeText(c, "qdisc", p.GetQdisc()),
		Knobs:   decodeKnobs(c, p.GetKnobs()),
		Machine: decodeMachine(c, p.GetMachine()), Route: decodeRoute(c, p.GetRoute()), NICs: decodeNICs(c, p.GetNics()),
		Path: decodePath(c, p.GetPath()),
	}
}

func encodeKnobs(m map[model.KnobID]fact.Of[string]) []*sessionpb.Knob {
	var out []*sessionpb.Knob
	for id, v := range m {
		out = append(out, &sessionpb.Knob{Id: string(id), Value: encodeText(v)})
	}
	return out
}

func decodeKnobs(c *check, list []*sessionpb.Knob) map[model.KnobID]fact.Of[string] {
	c.count("knobs", len(list), MaxKnobs)
	if c.err != nil || len(list) == 0 {
		return nil
	}
	out := make(map[model.KnobID]fact.Of[string], len(list))
	for _, k := range list {
		id := model.KnobID(c.name("knob", k.GetId()))
		_, twice := out[id]
		c.that(!twice, "knob %s occurs twice", id)
		out[id] = decodeText(c, "value of knob", k.GetValue())
	}
	return out
}

func encodeAssignments(as []model.Assignment) []*sessionpb.Assignment {
	var out []*sessionpb.Assignment
	for _, a := range as {
		p := &sessionpb.Assignment{End: encodeEnd(a.Host), Knob: string(a.Knob), Value: a.Value}
		if a.IsCommand() {
			p.Command = &sessionpb.Command{Run: a.Command.Run, Undo: a.Command.Undo, LimitNs: int64(a.Command.Limit)}
		}
		out = append(out, p)
	}
	return out
}

func decodeAssignments(c *check, list []*sessionpb.Assignment, h model.Host) []model.Assignment {
	c.count("assignments", len(list), MaxAssignments)
	c.that(len(list) > 0, "no assignments")
	if c.err != nil {
		return nil
	}
	seen := map[model.KnobID]bool{}
	var out []model.Assignment
	for _, p := range list {
		a := model.Assignment{
			Host: decodeEnd(c, p.GetEnd()), Knob: model.KnobID(c.name("knob", p.GetKnob())),
			Value: c.text("value of knob", p.GetValue(), MaxValue), Command: decodeCommand(c, p),
		}
		c.that(a.Host == h, "an assignment is for the %s host, this is the %s one", a.Host, h)
		c.that(!seen[a.Knob], "knob %s is assigned twice", a.Knob)
		seen[a.Knob] = true
		out = append(out, a)
	}
	return out
}

// decodeCommand reads what an assignment runs, if it is a command. Its texts are
// taken as they are or not at all: cleaned, they would be other commands.
func decodeCommand(c *check, p *sessionpb.Assignment) model.Command {
	q := p.GetCommand()
	named := strings.HasPrefix(p.GetKnob(), model.CommandPrefix)
	c.that(named == (q != nil), "a command is called %sNAME, and nothing else is", model.CommandPrefix)
	if q == nil {
		return model.Command{}
	}
	c.that(p.GetValue() == model.On || p.GetValue() == model.Off, "a command is %s or %s, not %q", model.On, model.Off, p.GetValue())
	for what, text := range map[string]string{"command": q.GetRun(), "undo command": q.GetUndo()} {
		c.that(c.text(what, text, MaxValue) == text && strings.TrimSpace(text) != "", "the %s is empty, or has characters that are not shown", what)
	}
	return model.Command{Run: q.GetRun(), Undo: q.GetUndo(), Limit: c.duration("limit of a command", q.GetLimitNs(), time.Millisecond, model.MaxCommandTime)}
}

func encodeChanges(list []model.Change) []*sessionpb.Change {
	list = list[:min(len(list), MaxChanges)]
	var out []*sessionpb.Change
	for _, c := range list {
		out = append(out, &sessionpb.Change{
			End: encodeEnd(c.Host), Knob: clean(string(c.Knob), MaxName), Native: clean(c.Native, MaxValue),
			Old: clean(c.Old, MaxValue), New: clean(c.New, MaxValue),
			State: changeStates[c.State], Detail: clean(c.Detail, MaxText),
		})
	}
	return out
}

func decodeChanges(c *check, list []*sessionpb.Change, h model.Host) []model.Change {
	c.count("changes", len(list), MaxChanges)
	if c.err != nil {
		return nil
	}
	var out []model.Change
	for _, p := range list {
		out = append(out, model.Change{
			Host: h, Knob: model.KnobID(c.name("knob", p.GetKnob())),
			Native: c.text("native name", p.GetNative(), MaxValue),
			Old:    c.text("old value", p.GetOld(), MaxValue), New: c.text("new value", p.GetNew(), MaxValue),
			State:  word(c, "state of a change", changeStates, p.GetState()),
			Detail: c.text("detail", p.GetDetail(), MaxText),
		})
	}
	return out
}

func encodeFlow(f model.Flow) *sessionpb.Flow {
	return &sessionpb.Flow{
		Engine: f.Engine, Direction: directions[f.Direction], Streams: uint32(f.Streams),
		DurationNs: int64(f.Duration), Bytes: int64(f.Bytes), OmitNs: int64(f.Omit), IntervalNs: int64(f.Interval),
		Block: int64(f.Block), Window: int64(f.Window), Mss: uint32(f.MSS), Nagle: f.Nagle, Congestion: f.Congestion,
		LeadNs: int64(f.Lead), Points: uint32(f.Points), Params: string(f.Params),
	}
}

func decodeFlow(c *check, p *sessionpb.Flow) model.Flow {
	f := model.Flow{
		Engine: p.GetEngine(), Direction: word(c, "direction", directions, p.GetDirection(), model.To, model.From, model.Both),
		Streams: int(p.GetStreams()), Duration: time.Duration(p.GetDurationNs()), Bytes: units.Bytes(p.GetBytes()),
		Omit: time.Duration(p.GetOmitNs()), Interval: time.Duration(p.GetIntervalNs()),
		Block: units.Bytes(p.GetBlock()), Window: units.Bytes(p.GetWindow()), MSS: int(p.GetMss()),
		Nagle: p.GetNagle(), Congestion: p.GetCongestion(),
		Lead: time.Duration(p.GetLeadNs()), Points: int(p.GetPoints()), Params: model.Params(p.GetParams()),
	}
	c.flow(f)
	return f
}
