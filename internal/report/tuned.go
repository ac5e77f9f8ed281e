package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"linerate/internal/core/candidate"
	"linerate/internal/core/lists"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/plan"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
)

// Tuned is the result of a search for settings.
type Tuned struct {
	Headline string      `json:"headline"`           // "1 of 4 ideas helped: far.tcp.recv_buffer_max 64 KiB -> 4 MiB"
	Measured []Measured  `json:"measured,omitempty"` // the confirmation's values, before and after, for each direction
	Gains    []string    `json:"gains,omitempty"`    // results of the confirmation, a sentence for each direction
	Queues   []string    `json:"queues,omitempty"`   // the path's latency when the winner uses it fully, a sentence for each direction
	Short    []string    `json:"short,omitempty"`    // the rest of the path's ceiling, and its limit, a sentence for each direction
	Front    []string    `json:"front,omitempty"`    // if rate and latency conflict: the choice, a line for each setting
	Rest     []string    `json:"rest,omitempty"`     // the other ideas, a line for each result
	Plan     []string    `json:"plan,omitempty"`     // for a dry run: what would be tried
	Ideas    []TunedIdea `json:"ideas"`              // all, those that helped first
	Cost     string      `json:"cost"`               // runs and time
	Proven   bool        `json:"proven"`             // the confirmation found the winner better, and no harm
	Open     []string    `json:"open,omitempty"`     // undecided guards: the user decides
	Against  []string    `json:"against,omitempty"`  // if the winner proved better and is not proven: what speaks against it
	Session  string      `json:"session"`            // of the search
	Proof    string      `json:"proof,omitempty"`    // session of the confirmation
	Reason   string      `json:"reason,omitempty"`   // why the search ended
	Warnings []string    `json:"warnings,omitempty"`
	Next     Step        `json:"-"` // the follow-up command, whatever is kept
}

// TunedIdea is the result of one setting.
type TunedIdea struct {
	Setting string     `json:"setting"`
	State   tune.State `json:"state"`
	Text    string     `json:"text"` // "far.tcp.sack on: no effect (0.3 % lower, 5 blocks)"
}

// states returns the states of ideas in the order of display.
func states() []tune.State {
	return []tune.State{
		tune.Helped, tune.Racing, tune.Trimmed, tune.NoEffect, tune.Undecided, tune.Harmful, tune.Guarded, tune.Broke, tune.Waiting,
	}
}

// BuildTuned returns the report of a search. proof is the session that confirms it, nil if
// there is none.
func BuildTuned(s model.Session, rec tune.Record, proof *model.Session) Tuned {
	t := Tuned{Session: s.ID, Reason: rec.Reason, Proof: rec.Confirmation, Ideas: []TunedIdea{}}
	b := newBuilder(&s)
	info := metric.Describe(rec.Options.Objective)
	rec.Ideas = begun(s, rec.Ideas)
	for _, state := range states() {
		for _, f := range rec.Ideas {
			if f.State == state && len(f.Setting.Assignments) > 0 {
				t.Ideas = append(t.Ideas, TunedIdea{Setting: f.Setting.Name, State: f.State, Text: Fate(f, info)})
			}
		}
	}
	t.Rest = rest(rec, info)
	if dry := rec.Reason == "" && len(rec.Inputs) <= 1; !dry && rec.Options.Objective == model.Goodput {
		t.Short = b.short(rec)
	}
	t.Warnings = s.Warnings
	if proof != nil {
		t.prove(*proof, rec.Winner.Name)
	} else if rec.Reason == "" && len(rec.Inputs) == 1 && s.State == model.SessionDone {
		t.Plan, t.Rest = b.dryPlan(rec), nil
	}
	if dry := rec.Reason == "" && len(rec.Inputs) <= 1; !dry && rec.Options.Objective == model.Goodput {
		for _, d := range s.Plan.Directions {
			t.Front = append(t.Front, b.front(rec, d, len(t.Queues) > 0)...)
		}
	}
	if proof != nil && rec.AtCeiling() { // the runs of the proof differ, and only they count
		t.Reason = ""
	}
	t.Next = afterSearch(s, rec)
	t.Headline = t.headline(s, rec, proof)
	t.Cost = fmt.Sprintf("%s of the search", plain.Count(len(s.Runs), "run"))
	spent := plan.Time(s.Runs) // a search that goes on later does not count the time between
	if proof != nil {
		t.Cost += fmt.Sprintf(", %d of the confirmation", len(proof.Runs))
		spent += plan.Time(proof.Runs)
	}
	if spent > 0 {
		t.Cost += ", " + units.FormatDuration(spent.Round(1e9)) + " in all"
	}
	return t
}

// begun returns the ideas of a search that was cut short; one that waits although runs have it is
// in play.
func begun(s model.Session, ideas []tune.Fate) []tune.Fate {
	out := slices.Clone(ideas)
	for i, f := range out {
		n := lists.Count(s.Runs, func(r model.Run) bool {
			return slices.Contains(strings.Split(r.Setting, " + "), f.Setting.Name)
		})
		if f.State == tune.Waiting && n > 0 && f.Blocks == 0 && s.State != model.SessionDone {
			out[i].State, out[i].Detail = tune.Racing, plain.Count(n, "run")
		}
	}
	return out
}

// afterSearch returns the follow-up command of a search: to continue one that was cut short, to
// lift its budget if that was spent, or its limits if they left nothing to try, to look at more
// than a stream of TCP if nothing helped, or else to show it again.
func afterSearch(s model.Session, rec tune.Record) Step {
	b := newBuilder(&s)
	unlimited, ok := b.repeated("tune", "--budget", "--data", "--seed")
	free, _ := b.repeated("tune", "--only", "--never")
	switch {
	case s.State == model.SessionInterrupted, s.State == model.SessionStopped:
		return b.resume("tune", "go on")
	case ok && rec.Reason == tune.BudgetSpent && rec.Confirmation == "":
		return Step{"without a budget", strings.Join(unlimited, " ")}
	case ok && rec.Reason == tune.NoneAllowed && len(free) < len(s.Command):
		return Step{"try all settings", strings.Join(free, " ")}
	case s.State == model.SessionDone && rec.Reason == tune.NothingLeft && rec.Confirmation == "" && rec.Options.Objective == model.Goodput:
		return Step{"look at datagrams, packet sizes and each hop, too", b.command("check", model.Setting{})}
	}
	return b.again()
}

// headline returns the first sentence.
func (t *Tuned) headline(s model.Session, rec tune.Record, proof *model.Session) string {
	tried, helped := 0, []string{}
	for _, f := range rec.Ideas {
		if f.State != tune.Waiting && len(f.Setting.Assignments) == 1 {
			tried++
		}
	}
	for _, a := range rec.Winner.Assignments {
		i := slices.IndexFunc(rec.Ideas, func(f tune.Fate) bool { return f.State == tune.Helped && slices.Contains(f.Setting.Assignments, a) })
		if i >= 0 {
			helped = append(helped, change(rec.Ideas[i].Candidate, a, s.Hosts))
		}
	}
	switch {
	case len(rec.Ideas) == 0 && rec.Reason == "":
		return "nothing was tried"
	case len(rec.Ideas) == 0:
		return measuredOnly(s, rec)
	case !slices.ContainsFunc(rec.Ideas, func(f tune.Fate) bool { return f.Refused == "" }):
		return fmt.Sprintf("%s could help, and none may be tried", plain.Count(len(rec.Ideas), "value"))
	case len(helped) == 0 && (s.State == model.SessionInterrupted || s.State == model.SessionStopped):
		return "the search was cut short, and nothing has helped so far"
	case tried == 0:
		return plain.Count(len(rec.Ideas), "value") + " to try"
	case len(helped) == 0 && tried == 1:
		return "the only idea that was tried did not help"
	case len(helped) == 0:
		return fmt.Sprintf("none of %s helped", plain.Count(tried, "idea"))
	case proof != nil && !t.Proven && proof.State == model.SessionInterrupted:
		return fmt.Sprintf("%s seemed to help, and its proof in fresh blocks was cut short: linerate run --resume %s goes on", strings.Join(helped, ", "), proof.ID)
	case proof != nil && !t.Proven && undecided(*proof):
		return fmt.Sprintf("%s seemed to help, and fresh blocks did not decide whether it does", strings.Join(helped, ", "))
	case proof != nil && !t.Proven && len(t.Against) > 0:
		return fmt.Sprintf("%s proved better in fresh blocks, but %s", strings.Join(helped, ", "), strings.Join(t.Against, ", and "))
	case proof != nil && !t.Proven:
		return fmt.Sprintf("%s seemed to help and did not prove better in fresh blocks", strings.Join(helped, ", "))
	default:
		return fmt.Sprintf("%d of %s helped: %s", len(helped), plain.Count(max(tried, len(helped)), "idea"), strings.Join(helped, ", "))
	}
}

// measuredOnly returns the first sentence of a search without an idea: what was measured, and
// the result of the last look.
func measuredOnly(s model.Session, rec tune.Record) string {
	look := rec.Look()
	if look == nil {
		return "nothing was tried: " + rec.Reason
	}
	var out []string
	b := newBuilder(&s)
	for _, d := range []model.Direction{model.To, model.From} {
		if _, tuned := look.Reached[d]; !tuned {
			continue
		}
		text := b.names.Way(d) + ": "
		if v, ok := look.Values[d]; ok {
			text += metric.Amount(rec.Options.Objective, v)
			if share, known := look.Reached[d].Get(); known && share < rec.Options.Enough {
				text += fmt.Sprintf(", %.0f %% of what the path can carry", 100*share)
			}
			text += ", "
		}
		out = append(out, text+cmp.Or(look.Limits[d], "limit not identified"))
	}
	return "measured " + strings.Join(out, "; ")
}

// change describes the change of a candidate: "far.tcp.recv_buffer_max 64KiB -> 4MiB". It
// starts from the hosts' original value; the candidate may have replaced another try.
func change(c candidate.Candidate, a model.Assignment, hosts []model.HostFacts) string {
	was := c.Now
	for _, h := range hosts {
		if v, reported := h.Knobs[a.Knob]; reported && h.Host == a.Host {
			was = v
		}
	}
	now := c
	now.Setting.Assignments = []model.Assignment{{Knob: a.Knob, Value: was.Or("unknown")}}
	c.Setting.Assignments = []model.Assignment{a}
	return fmt.Sprintf("%s %s -> %s", a.Host.Of(a.Knob), now.Text(), c.Text())
}

// Fate describes the result of one idea: "far.tcp.sack=1: no effect (0.3 % lower, 5 blocks)".
func Fate(f tune.Fate, info metric.Info) string { return f.Setting.Name + ": " + became(f, info) }

// became is Fate without the setting: "no effect (0.3 % lower, 5 blocks)".
func became(f tune.Fate, info metric.Info) string {
	var more []string
	if g := float64(f.Gain); f.Blocks > 0 && !math.IsNaN(g) && f.State != tune.Broke {
		more = append(more, info.ChangeText(g, g-0.05, g+0.05), plain.Count(f.Blocks, "block"))
	}
	state := string(f.State)
	switch {
	case f.State == tune.Racing, f.State == tune.Waiting && f.Blocks > 0:
		state = "begun"
	case f.State == tune.NoEffect && math.Abs(float64(f.Gain)) > unmoved: // its runs vary that much
		state = "not shown to help"
	}
	switch why := cmp.Or(f.Detail, f.Refused); {
	case f.State == tune.Guarded && why != "":
		more = append(more, metric.Name(model.Metric(why)))
	case f.State == tune.Waiting && f.Ask != "":
		more = append(more, f.Ask+": --allow risky tries it")
	case why != "":
		more = append(more, why)
	}
	if len(more) == 0 {
		return state
	}
	return state + " (" + strings.Join(more, ", ") + ")"
}
