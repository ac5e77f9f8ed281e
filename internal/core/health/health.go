// Package health grades each aspect of a checked path: one word and one number each, with the
// evidence.
//
// The words are those of Judge's lines, the thresholds one table. Package diagnose answers what
// limits a direction.
package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// State is the grade of one aspect.
type State string

// The states.
const (
	OK     State = "ok"
	Poor   State = "POOR" // it works, but worse than it should
	Bad    State = "BAD"  // it does not work
	Unseen State = "-"    // not measured, or nothing to compare it with
)

// Line is the result for one aspect.
type Line struct {
	Thing     string          `json:"thing"` // "speed"
	Direction model.Direction `json:"direction,omitempty"`
	State     State           `json:"state"`
	Number    string          `json:"number"`             // the most telling one, with its unit; "" for none
	Text      string          `json:"text"`               // its meaning, or why it was not measured
	Evidence  []string        `json:"evidence,omitempty"` // what the state is based on
	Again     bool            `json:"again,omitempty"`    // a host was disturbed: measured again, the aspect may get a grade
}

// Label names the aspect, with the direction in the names of the ends: "speed to nas".
func (l Line) Label(n model.Names) string {
	if l.Direction == "" {
		return l.Thing
	}
	return l.Thing + " " + n.Way(l.Direction)
}

// Thresholds other than grades; all are our proposals without a source, except those that name
// one.
const (
	fullSpeed = 0.90 // of the ceiling: at and above it the path is full (diagnosis.md section 1, step 4)
	// disturbedSpeed is the share below which a busy hypervisor does not excuse the rate.
	disturbedSpeed = 0.50
	crowd          = 0.80 // of all processors of a host, used by other programs
	manyHelp       = 1.30 // several streams over one from which one stream was limited by itself
	lanQueue       = 5 * time.Millisecond
	fastPath       = 500e6                  // bit/s: above it lanQueue holds, below it slowQueue
	wanQueue       = 100 * time.Millisecond // diagnosis.md, rule B30
	badQueue       = 10                     // times the time from which queueing is poor
	countsApart    = 0.10                   // relative difference between two ends' counts of the same bytes
	coreFull       = 0.95                   // rule B16
)

// Judge returns a line for each aspect of s, which has a Check.
func Judge(s *model.Session) []Line {
	j := judge{s: s}
	lines := []Line{j.reach()}
	for _, part := range []func(model.Direction) Line{j.mtu, j.loss, j.queue, j.jitter, j.speed} {
		for _, d := range []model.Direction{model.To, model.From} {
			lines = append(lines, part(d))
		}
	}
	lines = append(lines, j.disks()...)
	return append(lines, j.together(), j.link(), j.options(), j.cpu(), j.clock())
}

// judge evaluates one session.
type judge struct{ s *model.Session }

// name returns the display name of a host.
func (j judge) name(h model.Host) string {
	return j.s.Names().Of(h)
}

// single returns the run of one stream in direction d, complete or not.
func (j judge) single(d model.Direction) (model.Run, bool) {
	var last model.Run
	found := false
	for _, r := range j.s.Runs {
		if r.Setting != j.s.Plan.Baseline || r.Flow.Direction != d || r.LostContact {
			continue
		}
		if r.State == model.RunValid {
			return r, true
		}
		last, found = r, true
	}
	return last, found
}

// valid returns the single run of direction d if it counts.
func (j judge) valid(d model.Direction) (model.Run, bool) {
	r, ok := j.single(d)
	return r, ok && r.State == model.RunValid
}

// reach says whether both ends reach each other, and the round trip between them.
func (j judge) reach() Line {
	l := Line{Thing: "reach", State: OK}
	var dead, alive, small []string
	for _, d := range []model.Direction{model.To, model.From} {
		_, tried := j.single(d)
		if _, ok := j.valid(d); ok {
			alive = append(alive, string(d))
		} else if tried {
			dead = append(dead, j.name(d.Sender()))
			if j.smallSegments(d) > 0 {
				small = append(small, j.name(d.Sender()))
			}
		}
	}
	rtt := limits.LeastRTT(j.s)
	if v, ok := rtt.Get(); ok {
		l.Number = units.FormatDuration(v)
		l.Text = "round trip, at best"
		l.Evidence = append(l.Evidence, "round trip "+l.Number+" ("+rtt.Source()+")")
	}
	switch {
	case len(dead) > 0 && len(small) == len(dead):
		l.State, l.Text = Bad, "only small packets arrive from "+strings.Join(small, " and ")
	case len(dead) == 2 || len(dead) == 1 && len(alive) == 0:
		l.State, l.Text = Bad, "no data arrive"
	case len(dead) == 1:
		l.State, l.Text = Bad, "no data arrive from "+dead[0]
	case len(alive) == 0:
		l.State, l.Text = Unseen, "nothing was measured"
	case l.Number == "":
		l.Text = "data arrive both ways; no kernel reports the round trip"
	}
	return l
}

// speed compares one stream with what the path can carry.
func (j judge) speed(d model.Direction) Line {
	l := Line{Thing: "speed", Direction: d, State: Unseen}
	r, tried := j.single(d)
	v, measured := r.Value(d, model.Goodput)
	switch {
	case !tried:
		l.Text = "not measured"
		return l
	case r.State != model.RunValid:
		l.State, l.Number, l.Text = Bad, units.BitRate(v).String(), "nothing arrives"
		if v > 0 {
			l.Text = r.Reason
		}
		l.Evidence = append(l.Evidence, "the run of one stream: "+r.Reason)
		return l
	case !measured:
		l.Text = "the run has no rate"
		return l
	}
	rate := units.BitRate(v)
	l.Number = rate.String()
	l.Evidence = append(l.Evidence, fmt.Sprintf("%s over one stream for %s", rate, units.FormatDuration(r.Flow.Duration)))
	several, streams := j.several(d)
	if m, ok := several.Get(); ok {
		l.Evidence = append(l.Evidence, fmt.Sprintf("%s over %d streams", m, streams))
	}
	path := limits.OfPath(j.s, d)
	ceiling := path.Against(rate)
	c, known := ceiling.Get()
	if !known {
		why := "nothing to hold it against: " + ceiling.Reason()
		if !path.Rate.IsKnown() {
			why += " (--rate says it)"
		}
		l.State, l.Text = j.balance(d, v, why)
		if m := several.Or(0); float64(m) > manyHelp*v {
			l.State, l.Text = Poor, fmt.Sprintf("%d streams carry %s: one alone is held back", streams, m)
		}
		return l
	}
	l.Evidence = append(l.Evidence, fmt.Sprintf("ceiling %s: %s", c, path.Rate.Source()))
	share := v / float64(c)
	l.Text = fmt.Sprintf("%s of the %s that the links allow", percent(share), c)
	short := j.short(r, d)
	switch {
	case j.grade("speed").of(share) == OK:
		l.State = OK
	case short != "":
		l.Number, l.Text = "at least "+l.Number, short
		return l
	case j.disturbed(d) != "" && share >= disturbedSpeed:
		l.Text += ": " + j.disturbed(d) + ", so this says little of the path: check again when it has time"
		l.Again = true
		return l
	default:
		l.State = j.grade("speed").of(share)
	}
	if m := several.Or(0); l.State != OK && float64(m) > manyHelp*v {
		l.Text += fmt.Sprintf("; %d streams carry %s", streams, m)
	}
	return l
}

// short says that run r was too short to show what direction d carries, else "": that is a
// fault of the measurement, not of the path.
func (j judge) short(r model.Run, d model.Direction) string {
	rtt, known := limits.LeastRTT(j.s).Get()
	if !known {
		return ""
	}
	v, _ := r.Value(d, model.Goodput)
	rate := limits.OfPath(j.s, d).Against(units.BitRate(v)).Or(units.BitRate(v))
	mss := 1448
	if t := r.Sent(d); t != nil {
		mss = t.MSS.Or(mss)
	}
	least, short := limits.TooShort(r.Flow.Length(), rate, rtt, mss)
	if !short {
		return ""
	}
	text := fmt.Sprintf("the test was too short: %s of the %s that a round trip of %s takes", units.FormatDuration(r.Flow.Length()), units.FormatDuration(least.Round(100*time.Millisecond)), units.FormatDuration(rtt))
	if j.s.Check != nil && j.s.Check.Quick {
		text += "; check without --quick measures for longer"
	}
	return text
}

// balance compares the rate v of a direction with the other one, if nothing else is known about
// the path.
func (j judge) balance(d model.Direction, v float64, otherwise string) (State, string) {
	r, ok := j.valid(back(d))
	other, measured := r.Value(back(d), model.Goodput)
	g := j.grade("balance")
	if !ok || !measured || other <= 0 || g.of(v/other) == OK {
		return Unseen, otherwise
	}
	return g.of(v / other), fmt.Sprintf("%s of the other direction's %s; where the path is meant to be so, --rate to=RATE,from=RATE says it", percent(v/other), units.BitRate(other))
}

// waitedCounter is the source of findings that the measuring process could have run but had no
// processor, since other programs used it.
const waitedCounter = "thread_wait_ms"

// disturbed returns why a measurement of direction d says little about the path, "" if it was
// undisturbed: its first finding is that the hypervisor of an end ran other guests, or that
// other programs used its processors.
func (j judge) disturbed(d model.Direction) string {
	for _, f := range j.s.Findings {
		if f.Direction == d && !f.Loss {
			if f.Limit == "hypervisor" {
				return "the hypervisor of " + j.name(f.Host) + " ran others meanwhile"
			}
			if f.Limit == "CPU" && slices.ContainsFunc(f.Proof, func(p model.Proof) bool { return p.Source == waitedCounter }) {
				return "other programs had the processors of " + j.name(f.Host) + " meanwhile"
			}
			if f.Kind == model.FindingNotFound {
				return j.crowded(d)
			}
			break
		}
	}
	return ""
}

// crowded says that other programs used most of the processors of an end while direction d was
// measured, else "".
func (j judge) crowded(d model.Direction) string {
	r, _ := j.valid(d)
	for _, end := range r.Ends {
		f, _ := j.s.Facts(end.Host)
		if others, of, ok := Others(f, r, end, false); ok && Crowded(others, of) {
			return "other programs had the processors of " + j.name(end.Host) + " meanwhile"
		}
	}
	return ""
}

// several returns the rate of several streams in direction d, and their number.
func (j judge) several(d model.Direction) (fact.Of[units.BitRate], int) {
	for _, r := range j.s.Runs {
		v, ok := r.Value(d, model.Goodput)
		if ok && r.State == model.RunValid && r.Setting != j.s.Plan.Baseline && r.Flow.Streams > 1 && r.Flow.Direction == d {
			return fact.Known(units.BitRate(v), "measured"), r.Flow.Streams
		}
	}
	return fact.Unknown[units.BitRate]("not measured"), 0
}

// together compares both directions at once with each alone.
func (j judge) together() Line {
	l := Line{Thing: "both at once", State: Unseen, Text: "not measured"}
	var alone [2]float64
	windowed := false
	for i, d := range []model.Direction{model.To, model.From} {
		if r, ok := j.valid(d); ok {
			alone[i], _ = r.Value(d, model.Goodput)
			windowed = windowed || r.Windowed(d)
		}
	}
	for _, r := range j.s.Runs {
		to, ok1 := r.Value(model.To, model.Goodput)
		from, ok2 := r.Value(model.From, model.Goodput)
		if _, paced := udp.Of(r.Flow); paced || r.Flow.Direction != model.Both || r.State != model.RunValid || !ok1 || !ok2 {
			continue
		}
		l.State, l.Number = OK, units.BitRate(to+from).String()
		l.Text = fmt.Sprintf("%s and %s", units.BitRate(to), units.BitRate(from))
		l.Evidence = []string{fmt.Sprintf("alone: %s and %s", units.BitRate(alone[0]), units.BitRate(alone[1]))}
		if short := j.short(r, model.To); short != "" {
			l.State, l.Number, l.Text = Unseen, "at least "+l.Number, short
			continue
		}
		o := limits.AtOnce{To: units.BitRate(to), From: units.BitRate(from), ToAlone: units.BitRate(alone[0]), FromAlone: units.BitRate(alone[1]), Windowed: windowed, Pass: limits.Passed(j.s.Runs)}
		switch o.Sharing() {
		case limits.OneLimit:
			l.State = Poor
			l.Text += ": together " + o.Together() + " one alone, so they share something: a half-duplex link, a bus, a shaper, a processor"
		case limits.BehindData:
			l.State = Poor
			l.Text += ": acknowledgements of the faster direction wait behind the data of the slower one"
		case limits.Apart:
		}
	}
	return l
}

// percent formats a share.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
