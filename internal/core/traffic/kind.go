package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/hist"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// Kind is the paper half of an engine: all that is not its making of traffic. Only
// Name is needed; without a function the engine does what most do.
type Kind struct {
	// Name is the engine's name in plans, on the wire and in results.
	Name string
	// Demand is what a run takes of its host beyond streams and blocks; nil is
	// nothing. It is asked before the flow is checked.
	Demand func(f model.Flow) Demand
	// Title names the traffic for people, as in "belongs to UDP"; "" is the engine.
	Title string
	// Choose is the flag of test that chooses it; "" is --engine Name.
	Choose string
	// Initial are the parameters of who says nothing; "" is the engine's defaults.
	Initial model.Params
	// Options are the parameters as people give them.
	Options []Option
	// Command, where given, is the one command that makes this traffic: Why says why
	// neither test nor plans do.
	Command, Why string
	// Loads are the engines that make the load of an engine that makes none itself.
	Loads []string
	// Load, where given, is the flow that f loads the path with, in f of an engine
	// that has another make the load; WithLoad puts that one's parameters into f.
	Load     func(f model.Flow) model.Flow
	WithLoad func(f model.Flow, load model.Params) model.Flow
	// Measures is the end whose window counts in direction d; nil is the receiver.
	Measures func(f model.Flow, d model.Direction) model.Host
	// Judge says why a run whose ends reported does not count, "" where it does. nil
	// judges by the payload that arrived, which no other engine needs to have.
	Judge func(f model.Flow, ends []model.EndReport) string
	// Metrics are what runs of f have values for; nil is goodput, and whatever else
	// turns up.
	Metrics func(f model.Flow) Metrics
	// Lines are sentences of the report on the runs that count; nil is none.
	Lines func(f model.Flow, runs []model.Run) []string
	// Section, where given, is what the report shows of a session, nil where that has
	// nothing to show.
	Section func(t Told) *Section
	// Warnings are such sentences of what makes the runs mean less; nil is none.
	Warnings func(f model.Flow, runs []model.Run) []string
}

// Latencies merges what all runs measured under one name in one direction, so that a
// quantile is one of all their times together, never a mean of quantiles.
func Latencies(runs []model.Run) []model.Latency {
	type key struct {
		name string
		d    model.Direction
	}
	merged := map[key]*model.Latency{}
	var order []key
	for _, r := range runs {
		for _, end := range r.Ends {
			for _, l := range end.Latencies {
				k := key{l.Name, l.Direction}
				if strings.HasPrefix(l.Name, "idle") {
					k.d = "" // nothing flowed yet
				}
				m := merged[k]
				if m == nil {
					m = &model.Latency{Name: l.Name, Direction: k.d, Times: new(hist.Histogram)}
					merged[k] = m
					order = append(order, k)
				}
				m.Sent, m.Lost = m.Sent+l.Sent, m.Lost+l.Lost
				if l.Times != nil {
					_ = m.Times.Merge(l.Times) // fails above 2^53 values: the first ones tell enough
				}
			}
		}
	}
	out := lists.Each(order, func(k key) model.Latency { return *merged[k] })
	return out
}

// Metrics are what the runs of a flow have values for.
type Metrics struct {
	Measured  []model.Metric // where the systems tell them, in the order of reports
	Also      []model.Metric // under a condition that holds, beside them
	Objective model.Metric   // that decides where nobody names one; "" is goodput
}

// PerGbit are the metrics of processor time that all bulk has.
func PerGbit() []model.Metric { return []model.Metric{model.CPUPerGbitNear, model.CPUPerGbitFar} }

// Option is one parameter as people give it: a key of flow in a plan file, and a
// flag of the same name.
type Option struct {
	Name    string // such as "reply"
	Usage   string // of the flag
	Switch  bool   // on or off
	Chooses bool   // giving the flag chooses the kind
	Fixed   bool   // the same in all runs of a plan: no factor
	// Set parses a text that a person wrote into f. Its error may have a hint.
	Set func(f *model.Flow, text string) error
	// Level is what plans write for a value of a factor, such as 65536 for 64KiB, with
	// the errors of Set; nil where the option is Fixed.
	Level func(text string) (string, error)
}

// Param is o, a value at a place in parameters of type T that parse reads. JSON has to
// write the value as parse can read it.
func Param[T, V any](o Option, parse func(text string) (V, error), at func(p *T) *V) Option {
	o.Set = func(f *model.Flow, text string) error {
		p, err := Read[T](f.Params)
		if err == nil {
			*at(&p), err = parse(text)
		}
		if err == nil {
			f.Params = Write(p)
		}
		return err
	}
	if !o.Fixed {
		o.Level = func(text string) (string, error) {
			v, err := parse(text)
			if text, ok := any(v).(string); ok || err != nil {
				return text, err
			}
			return strings.Trim(string(Write(v)), `"`), nil
		}
	}
	return o
}

// Switch reads on or off, and other words for them.
func Switch(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fault.New(fault.Usage, fmt.Errorf("%.60q is neither on nor off", text), "write on or off")
}

// Bytes reads an amount of bytes that is not 0.
func Bytes(text string) (units.Bytes, error) {
	b, err := units.ParseBytes(text)
	if err == nil && b == 0 {
		return 0, fault.New(fault.Usage, errors.New("must be more than 0"), "write it like 1GiB")
	}
	return b, err
}

// Word reads one of some words of what.
func Word(what string, words ...string) func(text string) (string, error) {
	return func(text string) (string, error) {
		if !slices.Contains(words, text) {
			return "", fault.New(fault.Usage, fmt.Errorf("unknown %s %.60q", what, text), "write %s", strings.Join(words, " or "))
		}
		return text, nil
	}
}

// Demand is what one end of a run takes of its host, by the flow's own word.
type Demand struct {
	Message   units.Bytes   // the largest message, which each stream holds whole; 0 is Flow.Block
	Answer    units.Bytes   // beside it, an answer
	Datagrams bool          // the payload travels over UDP
	Rate      units.BitRate // of it, per direction; 0 is none asked for
	Pace      string        // what decides without a Rate; "" is as fast as possible
	Sockets   int           // beside those of the streams
	Stored    bool          // Flow.Bytes may be stored
	Paths     bool          // in files that the controller names
}

// Of returns what k takes for f.
func (k Kind) Of(f model.Flow) Demand {
	if k.Demand == nil {
		return Demand{}
	}
	return k.Demand(f)
}

// Kinds are the kinds of traffic that a program knows.
type Kinds []Kind

// ByName returns the kind of that name; what is not known has the name alone.
func (all Kinds) ByName(name string) (Kind, bool) {
	if i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return all[i], true
	}
	return Kind{Name: name}, false
}

// Called names the kind for people.
func (k Kind) Called() string { return cmp.Or(k.Title, "engine "+k.Name) }

// Chosen is the flag that chooses the kind.
func (k Kind) Chosen() string { return cmp.Or(k.Choose, "--engine "+k.Name) }

// Names are those of the kinds that test and plans know.
func (all Kinds) Names() []string {
	var out []string
	for _, k := range all {
		if k.Command == "" {
			out = append(out, k.Name)
		}
	}
	return out
}

// Loads reports whether flow is of a kind that another one can run beside.
func (all Kinds) Loads(flow model.Flow) bool {
	return slices.ContainsFunc(all, func(k Kind) bool { return k.Load != nil && slices.Contains(k.Loads, flow.Engine) })
}

// Options returns what people may say of f: of its own kind, and of the load that it
// contains.
func (all Kinds) Options(f model.Flow) []Option {
	k, _ := all.ByName(f.Engine)
	out := slices.Clone(k.Options)
	if k.Load == nil {
		return out
	}
	load, _ := all.ByName(k.Load(f).Engine)
	for _, o := range load.Options {
		set := o.Set
		o.Set = func(f *model.Flow, text string) error {
			inner := k.Load(*f)
			err := set(&inner, text)
			if err == nil {
				*f = k.WithLoad(*f, inner.Params)
			}
			return err
		}
		out = append(out, o)
	}
	return out
}

// Option returns what people may say of f under that name.
func (all Kinds) Option(f model.Flow, name string) (Option, bool) {
	list := all.Options(f)
	i := slices.IndexFunc(list, func(o Option) bool { return o.Name == name })
	if i < 0 {
		return Option{}, false
	}
	return list[i], true
}

// Owner is the first kind that has an option of that name.
func (all Kinds) Owner(name string) (Kind, Option, bool) {
	for _, k := range all {
		if i := slices.IndexFunc(k.Options, func(o Option) bool { return o.Name == name }); i >= 0 {
			return k, k.Options[i], true
		}
	}
	return Kind{}, Option{}, false
}

// Measures is the end whose window counts in direction d of f.
func (all Kinds) Measures(f model.Flow, d model.Direction) model.Host {
	if k, _ := all.ByName(f.Engine); k.Measures != nil {
		return k.Measures(f, d)
	}
	return d.Receiver()
}
