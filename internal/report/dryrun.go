package report

import (
	"slices"
	"time"

	"linerate/internal/core/analysis"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// dryBlocks is how many blocks of the order a dry run shows.
const dryBlocks = 5

// DryRun is the document of an experiment that is planned but not run, linerate/dryrun/v1.
type DryRun struct {
	Near        string                 `json:"near"`
	Far         string                 `json:"far"`
	Seed        uint64                 `json:"seed"`
	Mode        model.Mode             `json:"mode"`
	Settings    []DrySetting           `json:"settings"` // the baseline among them
	Factors     []string               `json:"factors"`  // sentences on the combined factors; none if only one thing varies
	Baseline    string                 `json:"baseline"`
	Blocks      int                    `json:"blocks"`       // fixed, or at most
	Runs        int                    `json:"runs"`         // in all blocks
	First       [][]string             `json:"first_blocks"` // settings in their order
	Time        fact.Of[time.Duration] `json:"time_ns"`      // of all runs, without the time to set knobs
	Bytes       fact.Of[units.Bytes]   `json:"bytes"`        // payload of all runs at the ceiling, warm-up included
	Noise       fact.Of[float64]       `json:"noise"`        // standard deviation of a block difference, log ratio
	Assumed     bool                   `json:"noise_assumed"`
	LeastChange fact.Of[units.Percent] `json:"least_change"` // a smaller change will not be detected
	Changes     []DryChange            `json:"changes"`      // to be made to the hosts, each once
	Held        *DryHeld               `json:"held,omitempty"`
	Outlook     []string               `json:"outlook"` // sentences

	timed bool // the length of a run is known beforehand
}

// DrySetting is one setting in the user's notation.
type DrySetting struct {
	Name   string   `json:"name"`
	Values []string `json:"values"` // "far.tcp.recv_buffer_max=65536"
}

// DryChange is one setting of a host to be changed, or one command to be run there.
type DryChange struct {
	Host   model.Host `json:"host"`
	What   string     `json:"what"`             // the knob, or the command
	Values []string   `json:"values,omitempty"` // of a knob
	Undo   string     `json:"undo,omitempty"`   // of a command
	Risk   string     `json:"risk"`             // what a bad value can do
}

// NewDryRun returns what a session would do, without starting it, given the noise of an earlier
// one; if that is unknown, a usual noise is assumed.
func NewDryRun(s model.Session, noise fact.Of[float64], knobs *knob.Index, kinds traffic.Kinds) DryRun {
	p := s.Plan
	d := DryRun{
		Near: s.Near, Far: s.Far, Seed: p.Seed, Mode: p.Mode, Baseline: p.Baseline, Blocks: len(p.Order),
		First: p.Order[:min(dryBlocks, len(p.Order))], Settings: []DrySetting{}, Factors: []string{}, Changes: []DryChange{},
	}
	b := newBuilder(&s)
	b.catalogue = knobs
	for _, f := range p.Factors {
		d.Factors = append(d.Factors, b.gridFactor(f).Text)
	}
	if d.Assumed = !noise.IsKnown(); d.Assumed {
		noise = fact.Known(stats.AssumedNoise, "assumed, as many paths have it: "+noise.Reason())
	}
	o := analysis.PlanLine(p, noise)
	d.Held = heldOver(p)
	d.Runs, d.Time, d.Noise, d.LeastChange, d.Outlook = o.Runs, o.MostTime, o.Noise, o.LeastChange, Outlook(p, o)
	for _, x := range p.Settings {
		of := DrySetting{Name: x.Name, Values: []string{}}
		if len(p.Ends) > 0 && x.FarEnd() == "" {
			of.Values = append(of.Values, model.FarEnd+"="+s.Far)
		}
		for _, a := range x.Assignments {
			of.Values = append(of.Values, a.Host.Of(a.Knob)+"="+a.Value)
			d.change(s, a, knobs)
		}
		d.Settings = append(d.Settings, of)
	}
	for _, a := range p.Hooks {
		d.change(s, a, knobs)
	}
	d.Bytes = payload(s, kinds)
	n, sized := d.Bytes.Get()
	if rate, ok := b.ceiling().Get(); ok && sized && !d.Time.IsKnown() {
		sending := time.Duration(8 * float64(n) / float64(rate) * float64(time.Second))
		d.Time = fact.Known(sending+time.Duration(d.Runs)*(p.RunLength()+plan.Beside), "all bytes at the ceiling of the path; runs that are slower take longer")
	}
	d.timed = p.Timed()
	return d
}

// Untimed estimates the length of runs that end with their bytes; "" for others.
func (d DryRun) Untimed() string {
	t, known := d.Time.Get()
	switch {
	case !known:
		return "time: " + d.Time.Reason()
	case !d.timed:
		return units.FormatDuration(t.Round(time.Second)) + " where every run fills the path, and longer where one does not"
	}
	return ""
}

// change adds the effect of one assignment on a host: nothing if the host already has the
// value.
func (d *DryRun) change(s model.Session, a model.Assignment, knobs *knob.Index) {
	facts, _ := s.Facts(a.Host)
	now, known := facts.Knobs[a.Knob].Get()
	if a.Host == "" || a.IsCommand() && a.Value == model.Off || known && now == a.Value {
		return
	}
	c := DryChange{Host: a.Host, What: string(a.Knob), Risk: "unknown"}
	if a.IsCommand() {
		c.What, c.Undo, c.Risk = a.Command.Run, a.Command.Undo, "whatever the command does"
	} else if k, ok := knobs.ByID(a.Knob); ok {
		c.Risk = k.Risk.Words()
	}
	i := slices.IndexFunc(d.Changes, func(o DryChange) bool { return o.Host == c.Host && o.What == c.What })
	if i < 0 {
		i, d.Changes = len(d.Changes), append(d.Changes, c)
	}
	if !a.IsCommand() && !slices.Contains(d.Changes[i].Values, a.Value) {
		d.Changes[i].Values = append(d.Changes[i].Values, a.Value)
	}
}

// payload returns the data that all runs of a session send if each is as fast as its path
// allows.
func payload(s model.Session, kinds traffic.Kinds) fact.Of[units.Bytes] {
	sum, source := 0.0, "the bytes of each run"
	for _, block := range s.Plan.Order {
		for _, name := range block {
			setting, _ := s.Plan.Setting(name)
			flow, err := knob.WithSetting(s.Plan.Flow, setting, kinds...)
			if err != nil {
				return fact.Unknown[units.Bytes](err.Error())
			}
			for _, way := range s.Plan.Directions {
				for _, d := range way.Parts() {
					if flow.Bytes > 0 {
						sum += float64(flow.Bytes)
						continue
					}
					at := s.At(name)
					c := limits.OfPath(&at, d)
					rate, known := c.Rate.Get()
					if u, ok := udp.Of(flow); ok && u.Rate > 0 && (!known || u.Rate < rate) {
						rate, known = u.Rate, true
					}
					if !known {
						return fact.Unknown[units.Bytes]("the ceiling is unknown: " + c.Rate.Reason())
					}
					sum, source = sum+float64(rate)/8*(flow.Omit+flow.Duration).Seconds(), "all runs at the ceiling of the path"
				}
			}
		}
	}
	return fact.Known(units.Bytes(sum), source)
}
