// Package diagnose names what limits a direction, with its evidence, from the facts that the
// two hosts report and the counters of a run.
//
// Every rule of the list examines the same evidence, one direction at a time, in the session's
// median run. The findings are ranked by the share of the gap between the measured rate and the
// ceiling that they explain; the order of the list breaks ties. A direction without a finding
// still gets an answer: nothing to tune, or limit not found, with what was ruled out.
package diagnose

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// Session returns the limits of each direction of s, the one to act on first, from the runs of
// its baseline and the facts and counters of both hosts. samples are those of the runs that
// Looked returns, by number of run, if the caller has them.
func Session(s *model.Session, samples map[int][]model.Sample) []model.Finding {
	var out []model.Finding
	looked := Looked(s)
	order := []model.Direction{model.To, model.From}
	slices.SortStableFunc(order, func(a, b model.Direction) int { // a direction in which nothing arrives comes first
		return cmp.Compare(alive(looked[a], a), alive(looked[b], b))
	})
	for _, d := range order {
		run, ok := looked[d]
		if !ok {
			continue
		}
		e, ok := Collect(s, run, d, samples[run.Number])
		if !ok {
			continue
		}
		found := Find(e)
		if s.Kind != model.KindTest && s.Kind != model.KindCheck { // other kinds do not ask for the limit
			if e.Window <= 0 { // without the sender's kernel only datagrams say anything
				found = slices.DeleteFunc(found, func(f model.Finding) bool { return !f.Loss })
			}
			found = slices.DeleteFunc(found, func(f model.Finding) bool { return f.Kind == model.FindingNotFound })
		}
		out = append(out, found...)
	}
	return out
}

// alive returns 0 for a run in which nothing arrived in direction d, else 1.
func alive(r model.Run, d model.Direction) int {
	if Dead(r, d) {
		return 0
	}
	return 1
}

// bothCounted reports whether both ends read their counters: without those the place of lost
// datagrams is unknown.
func bothCounted(r model.Run) bool {
	return !slices.ContainsFunc(r.Ends, func(e model.EndReport) bool { return len(e.Counters) == 0 })
}

// Find returns the findings of e: limits first, by what they explain, then additional
// observations. The first is the one to act on, or says that there is nothing to do or that the
// limit was not found.
func Find(e Evidence) []model.Finding {
	if e.Run == nil {
		return nil
	}
	if l, ok := LocateUDP(*e.Run, e.Direction); ok && e.Window <= 0 {
		return datagrams(e, l)
	}
	f := newFeatures(e)
	var limit, beside []model.Finding
	seen := map[string]bool{}
	for _, r := range Rules() {
		if r.look == nil {
			continue
		}
		b, ok := r.look(f)
		if !ok {
			continue
		}
		done := b.done(r.ID)
		key := done.Limit + string(done.Host)
		if seen[key] {
			continue
		}
		seen[key] = true
		if r.ID == "dead" || done.Rule == "B32" {
			return []model.Finding{done} // nothing else can be measured then
		}
		if done.Kind == model.FindingBeside {
			beside = append(beside, done)
			continue
		}
		limit = append(limit, done)
	}
	for _, list := range [][]model.Finding{limit, beside} {
		for i := range list {
			f.locate(&list[i])
		}
	}
	_, stage := f.kneeReached()
	stage = stage && slices.ContainsFunc(limit, func(l model.Finding) bool { return l.Rule == "B06" })
	behind := func(l model.Finding) int { // a larger window gains nothing where the path carries no more
		if stage && slices.Contains([]string{"B07", "B08", "B09"}, l.Rule) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(limit, func(a, b model.Finding) int {
		return cmp.Or(behind(a)-behind(b), cmp.Compare(b.Explains.Or(0), a.Explains.Or(0)))
	})
	small := func(l model.Finding) bool { return l.Explains.Or(1) < worthNaming }
	var first model.Finding
	switch share := f.full.Or(0); {
	case share >= nearlyFull || len(limit) == 0 && f.drains(): // nothing else limits it (diagnosis.md section 4.0, rule 2)
		first, limit = full(f), slices.DeleteFunc(limit, func(l model.Finding) bool { return share >= fullPath || l.Explains.Or(0) < worthNaming })
		f.locate(&first)
	case len(limit) == 0:
		first = notFound(f)
	default:
		first, limit = limit[0], slices.DeleteFunc(limit[1:], small)
	}
	beside = slices.DeleteFunc(append(contributing(limit), beside...), func(l model.Finding) bool {
		noise := slices.Contains([]string{"B16", "B23"}, l.Rule) && (small(l) || f.full.Or(0) >= nearlyFull || l.Rule == "B23" && !l.Explains.IsKnown())
		if noise { // a busy machine, with negligible effect on the path
			first.Proof = append(first.Proof, l.Proof...)
		}
		return noise
	})
	return append([]model.Finding{first}, beside...)
}

// contributing returns limits as additional findings.
func contributing(limits []model.Finding) []model.Finding {
	out := slices.Clone(limits)
	for i := range out {
		out[i].Kind = model.FindingBeside
	}
	return out
}

// full returns the finding that the path is fully used: there is nothing to tune.
func full(f features) model.Finding {
	c := f.Ceiling.Or(0)
	share := f.full.Or(0)
	if len(f.Repeats) > 1 && c > 0 { // the report shows the median, which of two runs is neither
		share = float64(f.typical()) / float64(c)
	}
	b, carries := f.found(f.Direction.Sender(), "link").kind(model.FindingFull), "this link"
	if least, ok := limits.Smallest(f.Path.Limits); ok && least.Name != b.Limit {
		b.Host, b.Limit, carries = "", least.Name, "it" // it names the host itself
	}
	if math.Round(1000*share) > 1000 { // this does not refute the ceiling, see report.OfCeiling
		b.because(f.Ceiling.Source(), "all of the %s that %s can carry, and some that had come before", c, carries)
	} else {
		b.because(f.Ceiling.Source(), "%.1f %% of the %s that %s can carry", 100*share, c, carries)
	}
	if share < nearlyFull {
		b.also("bbr fills it (%s), but for a fraction of a second in 10 s in which it lets the path drain to measure the round trip", f.TCP.BBR.Rate.Or(0))
	}
	b.Implied, b.Explains = f.Ceiling, fact.Unknown[float64]("there is no gap to speak of")
	return b.done("ceiling")
}

// typical returns the median goodput of the baseline's runs.
func (f features) typical() units.BitRate {
	all := lists.Each(f.Repeats, func(r units.BitRate) float64 { return float64(r) })
	return units.BitRate(stats.Median(all))
}

// notFound returns the finding of a direction to which no rule applies, with what was examined
// and is not the limit.
func notFound(f features) model.Finding {
	b := f.found("", "not found").kind(model.FindingNotFound)
	ruled := func(known bool, what string) {
		if known {
			b.RuledOut = append(b.RuledOut, what)
		}
	}
	ruled(f.rwnd.IsKnown() && f.sndbuf.IsKnown() && f.rwnd.Or(1) < limitedShare && f.sndbuf.Or(1) < limitedShare, "windows")
	ruled(f.resent.IsKnown() && f.resent.Or(1) < lossMatters, "loss")
	ruled(f.signs.IsKnown() && f.signs.Or(fewSigns) < fewSigns, "reordering")
	idle := func(e End) bool {
		l := f.load(e)
		return l.run.IsKnown() && max(l.run.Or(0), l.process.Or(0)) < idleThread && !f.starved(e) && !f.busy(e)
	}
	switch sender, receiver := idle(f.Sender), idle(f.Receiver); {
	case sender && receiver:
		ruled(true, "CPU of both ends")
	case sender:
		ruled(true, "CPU of the sender")
	case receiver:
		ruled(true, "CPU of the receiver")
	}
	ruled(f.idle.IsKnown() && f.idle.Or(1) < idleShare, "the sending application")
	ruled(f.Place.Kind == model.PlaceNoQueue, "a full link on the way")
	b.misses(f.Ceiling.IsKnown(), "the rate of the link ("+cmp.Or(f.Ceiling.Reason(), "unknown")+")", "ethtool at both hosts, or the contract")
	b.misses(f.TCP.Busy.IsKnown(), "what the sender waited for, which its system does not count", ByCheck)
	b.misses(!f.busy(f.Sender) && !f.busy(f.Receiver), "processors with time left: other programs kept those of an end busy", "stop what else runs there, and measure again")
	shared := "something"
	for _, e := range []End{f.Sender, f.Receiver} {
		if bus, ok := e.sharedBus(); ok {
			shared = "the " + bus.name + " of " + f.part(e)
		}
	}
	b.misses(f.Beside.Together.IsKnown(), "whether both directions share "+shared+" that limits them", ByCheck)
	b.misses(f.Receiver.Counters.read() && f.Sender.Counters.read(), "counters of both hosts", byCounters)
	if c, ok := f.Ceiling.Get(); ok {
		b.because("goodput over ceiling", "%.1f %% of %s were reached", 100*f.full.Or(0), c)
	} else {
		b.because("", "the rate of the link is unknown; --rate says it, such as --rate 1gbit")
	}
	return b.done("unknown")
}

// read reports whether any group of counters was read.
func (c Counters) read() bool { return len(c.groups) > 0 }

// datagrams returns where the datagrams of a UDP run were lost, or that none was.
func datagrams(e Evidence, l UDPLoss) []model.Finding {
	if bothCounted(*e.Run) {
		if out := l.Findings(); len(out) > 0 {
			for i := range out {
				out[i].Confidence = calibrated(out[i].Rule, true)
			}
			return out
		}
	}
	f := newFeatures(e)
	if l.Lost > 0 {
		b := f.found("", "not found").kind(model.FindingNotFound).because("the receiver", "%s, and not both hosts report their counters", plain.Count(l.Lost, "datagram was lost", "datagrams were lost"))
		return []model.Finding{b.misses(false, "counters of both hosts", byCounters).done("unknown")}
	}
	asked, _ := udp.Toward(e.Run.Flow, l.Direction)
	if out := f.Sender.Flow; out != nil && out.Bytes > 0 && out.Window > 0 {
		if sent := units.BitRate(float64(out.Bytes) * 8 / out.Window.Seconds()); sent < nearlyFull*asked.Rate {
			b := f.found("", "not found").kind(model.FindingNotFound).because("the sender", "every datagram arrived, and %s of the %s asked for were sent", sent, asked.Rate)
			return []model.Finding{b.done("unknown")}
		}
	}
	b := f.found("", "datagrams").kind(model.FindingFull).because("the receiver", "every datagram arrived that was sent")
	return []model.Finding{b.done("ceiling")}
}

// Sentence formats a finding as the second half of a sentence whose first half names the
// direction: "held back by the receive window of nas: …".
func Sentence(f model.Finding, name func(model.Host) string) string {
	if f.Loss {
		return f.Evidence
	}
	text := Brief(f, name)
	if f.Kind == model.FindingNotFound && len(f.RuledOut) > 0 {
		return text + "; ruled out: " + strings.Join(f.RuledOut, ", ") + " (" + f.Evidence + ")"
	}
	if f.Evidence == "" {
		return text
	}
	return text + ": " + f.Evidence
}

// Brief is Sentence without the evidence.
func Brief(f model.Finding, name func(model.Host) string) string {
	host := ""
	if f.Host != "" && f.Rule != "B10" && f.Rule != "B11" { // they happen on the path, whichever host has the remedy
		host = " of " + name(f.Host)
	}
	switch {
	case f.Loss:
		return "datagrams are lost"
	case f.Kind == model.FindingFull && (f.Limit == "datagrams" || f.Limit == "link"):
		return "nothing to tune"
	case f.Kind == model.FindingFull:
		return "nothing to tune, at the limit of the " + f.Limit
	case f.Kind == model.FindingNotFound:
		return "limit not found"
	case f.Kind == model.FindingOutside:
		return "the limit lies outside both hosts: " + f.Limit
	case f.Rule == "B14": // a limit of the test, not of the path
		return "too short to say what limits it"
	case f.Rule == "dead" || f.Rule == "M2":
		return "nothing arrives"
	case f.Kind == model.FindingBeside:
		return "also: " + f.Limit + host
	}
	return "held back by " + article(f.Limit) + f.Limit + host
}

// article returns the article for the name of a limit.
func article(limit string) string {
	for _, without := range []string{"packet loss", "reordering", "small packets", "broken frames", "socket memory", "flow control", "bbr", "interrupt moderation"} {
		if strings.HasPrefix(limit, without) {
			return ""
		}
	}
	if strings.HasPrefix(limit, "short queue") || strings.HasPrefix(limit, "old") || strings.HasPrefix(limit, "link that") {
		return "a "
	}
	return "the "
}
