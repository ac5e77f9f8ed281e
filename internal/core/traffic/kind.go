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

// Kind describes an engine: everything except the sending of traffic. Only Name is required;
// for a nil function the engine uses the common default.
type Kind struct {
	// Name is the engine's name in plans, on the wire and in results.
	Name string
	// Demand is what a run needs from its host beyond streams and blocks; nil is nothing. It is
	// called before the flow is checked.
	Demand func(f model.Flow) Demand
	// Title is the display name of the traffic, as in "belongs to UDP"; "" is the engine.
	Title string
	// Choose is the flag of test that selects it; "" is --engine Name.
	Choose string
	// Initial are the default parameters for users; "" is the engine's defaults.
	Initial model.Params
	// Options are the parameters that users can set.
	Options []Option
	// Command, unless "", is the only command that makes this traffic: Why says why test and
	// plans cannot.
	Command, Why string
	// Loads are the engines that can make the load for an engine without its own.
	Loads []string
	// Load, unless nil, returns the flow that loads the path in f, for an engine that has
	// another one make the load; WithLoad sets the parameters of that engine in f.
	Load     func(f model.Flow) model.Flow
	WithLoad func(f model.Flow, load model.Params) model.Flow
	// Measures is the end whose window counts in direction d; nil is the receiver.
	Measures func(f model.Flow, d model.Direction) model.Host
	// Judge returns why a run with reports from its ends does not count, "" if it does. nil
	// requires that payload arrived.
	Judge func(f model.Flow, ends []model.EndReport) string
	// Metrics returns the metrics that runs of f have values for; nil is goodput, and whatever
	// else the runs report.
	Metrics func(f model.Flow) Metrics
	// Lines returns sentences of the report on the runs that count; nil if none.
	Lines func(f model.Flow, runs []model.Run) []string
	// Section, unless nil, returns the report's section on a session, nil if there is nothing
	// to show.
	Section func(t Measured) *Section
	// Warnings returns sentences on what limits the value of the runs; nil if none.
	Warnings func(f model.Flow, runs []model.Run) []string
}

// Latencies merges the measurements of all runs with one name and direction, so that a quantile
// is taken over all their times together, never a mean of quantiles.
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
					k.d = "" // there was no load yet
				}
				m := merged[k]
				if m == nil {
					m = &model.Latency{Name: l.Name, Direction: k.d, Times: new(hist.Histogram)}
					merged[k] = m
					order = append(order, k)
				}
				m.Sent, m.Lost = m.Sent+l.Sent, m.Lost+l.Lost
				if l.Times != nil {
					_ = m.Times.Merge(l.Times) // fails above 2^53 values: the first ones suffice
				}
			}
		}
	}
	out := lists.Each(order, func(k key) model.Latency { return *merged[k] })
	return out
}

// Metrics lists the metrics that the runs of a flow have values for.
type Metrics struct {
	Measured  []model.Metric // if the systems report them, in the order of reports
	Also      []model.Metric // others, which need a further condition
	Objective model.Metric   // the default objective; "" is goodput
}

// PerGbit returns the metrics of processor time that all bulk traffic has.
func PerGbit() []model.Metric { return []model.Metric{model.CPUPerGbitNear, model.CPUPerGbitFar} }

// Option is one parameter that users can set: by a key of flow in a plan file, or a flag of the
// same name.
type Option struct {
	Name    string // such as "reply"
	Usage   string // of the flag
	Switch  bool   // on or off
	Chooses bool   // the flag also selects the kind
	Fixed   bool   // the same in all runs of a plan: not a factor
	// Set parses a user's text into f. Its error may have a hint.
	Set func(f *model.Flow, text string) error
	// Level returns a value of a factor as plans store it, such as 65536 for 64KiB, with the
	// errors of Set; nil if the option is Fixed.
	Level func(text string) (string, error)
}

// Param completes o for a value at a place in parameters of type T that parse parses. The JSON
// form of the value has to be valid input of parse.
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

// Switch parses on or off, or a synonym.
func Switch(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fault.New(fault.Usage, fmt.Errorf("%.60q is neither on nor off", text), "write on or off")
}

// Bytes parses an amount of bytes that is not 0.
func Bytes(text string) (units.Bytes, error) {
	b, err := units.ParseBytes(text)
	if err == nil && b == 0 {
		return 0, fault.New(fault.Usage, errors.New("must be more than 0"), "write it like 1GiB")
	}
	return b, err
}

// Word returns a parser of one of words; what names them in its error.
func Word(what string, words ...string) func(text string) (string, error) {
	return func(text string) (string, error) {
		if !slices.Contains(words, text) {
			return "", fault.New(fault.Usage, fmt.Errorf("unknown %s %.60q", what, text), "write %s", strings.Join(words, " or "))
		}
		return text, nil
	}
}

// Demand is what one end of a run needs from its host, by the flow's parameters.
type Demand struct {
	Message   units.Bytes   // largest message, which each stream holds whole; 0 is Flow.Block
	Answer    units.Bytes   // size of an additional answer
	Datagrams bool          // the payload travels over UDP
	Rate      units.BitRate // of the payload, per direction; 0 if not given
	Pace      string        // what decides it without a Rate; "" is as fast as possible
	Sockets   int           // in addition to those of the streams
	Stored    bool          // Flow.Bytes may be stored
	Paths     bool          // in files named by the controller
}

// Of returns the demand of f.
func (k Kind) Of(f model.Flow) Demand {
	if k.Demand == nil {
		return Demand{}
	}
	return k.Demand(f)
}

// Kinds are the kinds of traffic that a program knows.
type Kinds []Kind

// ByName returns the kind with a name; for an unknown one the Kind has only that name.
func (all Kinds) ByName(name string) (Kind, bool) {
	if i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return all[i], true
	}
	return Kind{Name: name}, false
}

// Called returns the display name of the kind.
func (k Kind) Called() string { return cmp.Or(k.Title, "engine "+k.Name) }

// Chosen returns the flag that selects the kind.
func (k Kind) Chosen() string { return cmp.Or(k.Choose, "--engine "+k.Name) }

// Names returns the names of the kinds that test and plans accept.
func (all Kinds) Names() []string {
	var out []string
	for _, k := range all {
		if k.Command == "" {
			out = append(out, k.Name)
		}
	}
	return out
}

// Loads reports whether another kind can use flow as its load.
func (all Kinds) Loads(flow model.Flow) bool {
	return slices.ContainsFunc(all, func(k Kind) bool { return k.Load != nil && slices.Contains(k.Loads, flow.Engine) })
}

// Options returns the options for f: of its own kind, and of the load that it contains.
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

// Option returns the option for f with a name.
func (all Kinds) Option(f model.Flow, name string) (Option, bool) {
	list := all.Options(f)
	i := slices.IndexFunc(list, func(o Option) bool { return o.Name == name })
	if i < 0 {
		return Option{}, false
	}
	return list[i], true
}

// Owner returns the first kind with an option of that name.
func (all Kinds) Owner(name string) (Kind, Option, bool) {
	for _, k := range all {
		if i := slices.IndexFunc(k.Options, func(o Option) bool { return o.Name == name }); i >= 0 {
			return k, k.Options[i], true
		}
	}
	return Kind{}, Option{}, false
}

// Measures returns the end whose window counts in direction d of f.
func (all Kinds) Measures(f model.Flow, d model.Direction) model.Host {
	if k, _ := all.ByName(f.Engine); k.Measures != nil {
		return k.Measures(f, d)
	}
	return d.Receiver()
}
