package diagnose

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// recorded is a stored, real run of linerate test in a lab, without the parts that no rule
// reads. bench/record makes those that lab keys cannot describe.
type recorded struct {
	Planted string         `json:"planted"` // what was done to the lab beside its settings
	Session model.Session  `json:"session"`
	Samples []model.Sample `json:"samples"`
}

// recording reads the run of that name from testdata afresh.
func recording(t *testing.T, name string) (r recorded) {
	t.Helper()
	must.Dof(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join("testdata", name+".json")))(t), &r), "%s", name)
	return r
}

func (r recorded) findings() []model.Finding {
	samples := map[int][]model.Sample{}
	for _, run := range Looked(&r.Session) {
		samples[run.Number] = r.Samples
	}
	return Session(&r.Session, samples)
}

// diagnosed is a recorded run with its findings.
type diagnosed struct {
	recorded
	found []model.Finding
}

// allDiagnosed returns all recorded runs by name.
func allDiagnosed(t *testing.T) map[string]diagnosed {
	t.Helper()
	all := map[string]diagnosed{}
	for name := range recordings() {
		r := recording(t, name)
		all[name] = diagnosed{r, r.findings()}
	}
	return all
}

// by returns the finding of that rule, not one of another rule with the same name.
func (r diagnosed) by(rule Rule) (model.Finding, bool) {
	for _, f := range r.found {
		if f.Rule != rule.ID {
			continue
		}
		if rule.look == nil {
			return f, true
		}
		e, ok := Collect(&r.Session, Looked(&r.Session)[f.Direction], f.Direction, r.Samples)
		if !ok {
			continue
		}
		if b, ok := rule.look(newFeatures(e)); ok && b.Limit == f.Limit && b.Host == f.Host {
			return f, true
		}
	}
	return model.Finding{}, false
}

// recordings maps each run in testdata to the rules and hosts of its findings in order: the
// planted cause, and nothing else.
func recordings() map[string]string {
	return map[string]string{
		"clean-fast": "to ceiling near", "clean-slow": "to ceiling near", "asymmetric": "to ceiling near, from ceiling far",
		"receive-window": "to B07 far", "send-buffer": "to B08 near", "scaling-off": "to B09 far", "loss": "to B10 near", "reordering": "to B11 near",
		"slow-stage": "to B06 -", "small-queue": "to B06 -", "bloated-queue": "to ceiling near, to B30 -", "small-mtu": "to ceiling near, to B29 near",
		"steady-policer": "to ceiling near, from B06 -", "window-and-bloat": "to ceiling near, to B30 -, from B07 near", "waiting-sender": "to B16 far, from B16 far",
		"black-hole":     "to M2 -, from ceiling far",
		"standing-queue": "to ceiling near, from B06 -", "slow-start": "to B14 -, from B14 -", "no-sack": "to B10 near, from B10 far",
		"quota": "to B16 far, from B16 far", "plain-loss": "to ceiling near, from B10 far", "burst-loss": "to B06 -, from B06 far",
		"slow-reader": "to B21 near, from B21 near", "slow-writer": "to ceiling near, from B21 far", "two-way-bus": "to B18 -, from B18 -",
		"narrow-back": "to R01 -, from ceiling far", "busy-back": "to R01 -, from ceiling far", "left-early": "to B14b -",
		"mtu-mismatch": "to ceiling near, to M1 far, from ceiling far, from M1 far", "tunnel-mtu": "to ceiling near, to M8 -, from ceiling far, from M8 -",
		"stolen-time": "to ceiling near", "slow-start-burst": "to B06 -, from ceiling far",
		"window-and-shaper": "to B07 far, from B06 far", "timers": "to ceiling near, from B10 far",
		"dead": "to dead -", "link-down": "to B25 far", "ecn-removed": "to ceiling near, to B35 -", "own-queue": "to B17 near", "tunnel": "to unknown -, to B41 near",
		"loss-under-bbr": "to B10 near", "single-losses": "to B10 near",
		"tracking": "to ceiling near, to B26 far", "own-limit": "to B16 far, from B16 far, from B19 far",
		// Two machines in QEMU: their cards are emulated, their processors slow, and that is found, too.
		"emulated":        "to B33 far, to B06 -, to B31 near",
		"duplex-mismatch": "to B02 far",
		"half-duplex":     "to unknown -, to B03 -",
		"slow-link":       "to B06 near, to B31 near, to B01 near",
		"wrong-speed":     "to B32 -",
		"socket-memory":   "to B12 far",
		"backlog":         "to B37 far",
	}
}

// TestHalfDuplexThatIsNone: an emulated pcnet reports a shared wire, and carries more than a
// shared wire can.
func TestHalfDuplexThatIsNone(t *testing.T) {
	r := recording(t, "half-duplex")
	shared := limits.OfPath(&r.Session, model.To).Rate.Or(0)
	more := 0
	for i := range r.Session.Runs {
		for k, v := range r.Session.Runs[i].Values {
			if v.Metric == model.Goodput {
				r.Session.Runs[i].Values[k].Value, more = 1.02*float64(shared), more+1
			}
		}
	}
	found := r.findings()
	must.True(t, more != 0 && len(found) != 0 && found[0].Rule == "ceiling" &&
		!slices.ContainsFunc(found, func(f model.Finding) bool { return f.Rule == "B03" }), "%d runs: %+v", more, found)
}

// TestRecorded: the findings of each real run name the planted cause.
func TestRecorded(t *testing.T) {
	for name, want := range recordings() {
		var got []string
		for _, f := range recording(t, name).findings() {
			host := string(f.Host)
			if host == "" {
				host = "-"
			}
			got = append(got, fmt.Sprintf("%s %s %s", f.Direction, f.Rule, host))
		}
		must.Equal(t, strings.Join(got, ", "), want, "%s", name)
	}
}

const document = "../../../docs/diagnosis.md"

// sure describes how often a rule was right in labs with a known limit.
func sure(rule string) string {
	var out []string
	for _, whole := range []bool{true, false} {
		t := judged()[key(rule, whole)]
		if t.said == 0 {
			continue
		}
		text := fmt.Sprintf("%.0f %%", 100*calibrated(rule, whole))
		if !whole {
			text += " where a part of the evidence is missing"
		}
		out = append(out, text+fmt.Sprintf(" (%d of %d were right)", t.right, t.said))
	}
	if len(out) == 0 {
		return "not known: no lab tried it yet."
	}
	return strings.Join(out, "; ") + "."
}

// page is docs/diagnosis.md.
func page(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# What limits a path, and what to do

` + "`linerate test`" + ` ends with one sentence for each direction, and ` + "`linerate check`" + ` with one line: the first finding. Findings are ranked by the share of the gap between what was measured and what the link can carry that they explain; where the path carries 90 % of that, nothing else is said to limit it. What is true and limits nothing stands beside, after the word *also*. A finding says how sure it is, and what evidence is missing: ` + "`linerate check --why`" + `, or ` + "`--json`" + `. How sure is counted: the claims of each rule in labs of seeds below 1000 that were right, and five more as the directness of its evidence lets expect (` + "`internal/core/diagnose/judged.go`" + `; ` + "`bin/judge-labs -count`" + ` counts them anew). A rule of which several kinds are listed has one count for all of them.

What a rule means, how linerate knows and what to do is written here; the order of the rules in ` + "`internal/core/diagnose`" + `, how sure they are and the quoted runs are put in by ` + "`go test ./internal/core/diagnose -update`" + `. The quoted sentences are those of real runs in a lab, or in two machines in QEMU that a cable joins (10.0.0.2 is nas). Behind a command stand the name of the run and what was planted; ` + "`go run ./bench/record NAME`" + ` makes those anew that ` + "`-list`" + ` names. The rules, their formulas and their sources are in [reference/diagnosis.md](reference/diagnosis.md), the counters in [counters.md](counters.md).
`)
	all := allDiagnosed(t)
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int { // labs first: every reader can make one
		return cmp.Or(cmp.Compare(all[a].machines(), all[b].machines()), cmp.Compare(a, b))
	})
	host := func(h model.Host) string { return map[model.Host]string{model.Near: "desk", model.Far: "nas"}[h] }
	for _, r := range Rules() {
		fmt.Fprintf(&b, "\n## %s: %s\n%s", r.ID, r.Name, said(t, r))
		if r.ID != "unknown" {
			fmt.Fprintf(&b, "\n*How sure:* %s\n", sure(r.ID))
		}
		shown := false
		for _, name := range names {
			rec := all[name]
			f, ok := rec.by(r)
			if !ok || shown {
				continue
			}
			shown = true
			code := ""
			if slices.ContainsFunc(rec.Session.Runs, func(r model.Run) bool { return r.State == model.RunInvalid }) {
				code = "   # exit 5"
			}
			language, command := "text", quoted(rec.Session.Command) // of two real machines, which no test has
			switch note := rec.Planted; {
			case note != "":
				code = "   # " + name + ": " + note
			case strings.Contains(command, "lab:") && !strings.HasPrefix(command, "linerate check "): // whose exit code depends on the machine's load, too
				language = "console"
			}
			fmt.Fprintf(&b, "\n```%s\n$ %s%s\n  %s nas: %s\n```\n", language, command, code, f.Direction, Sentence(f, host))
		}
		if !shown {
			fmt.Fprintf(&b, "\n*No run is shown:* %s\n", unshown()[r.ID+" "+r.Name])
		}
	}
	return b.String()
}

// said returns the hand-written paragraphs on a rule in the document: what it means, how
// linerate knows and what to do.
func said(t *testing.T, r Rule) string {
	t.Helper()
	text := string(must.Get(os.ReadFile(document))(t))
	_, text, found := strings.Cut(text, "\n## "+r.ID+": "+r.Name+"\n")
	for _, end := range []string{"\n*How sure:*", "\n```", "\n*No run is shown:*", "\n## "} {
		text, _, _ = strings.Cut(text, end)
	}
	means, rest, knows := strings.Cut(text, "\n\n*How linerate knows:* ")
	knows = knows && strings.Contains(rest, "\n\n*What to do:* ")
	must.True(t, found && knows && len(means) > 5, "docs/diagnosis.md does not say of %s: %s what it means, how linerate knows and what to do", r.ID, r.Name)
	return text
}

// machines returns 1 for a recording of two machines, else 0.
func (r recorded) machines() int {
	return strings.Count(strings.Join(r.Session.Command, " "), "linerate://KEY@")
}

// quoted returns a command as a shell reads it.
func quoted(words []string) string {
	out := slices.Clone(words)
	for i, w := range out {
		if strings.Contains(w, " ") {
			out[i] = "'" + w + "'"
		}
	}
	return strings.Join(out, " ")
}

// TestUnshown: each rule has either a real run or a reason why it has none.
func TestUnshown(t *testing.T) {
	shown := map[string]bool{}
	all := allDiagnosed(t)
	for _, r := range Rules() {
		for _, run := range all {
			if _, ok := run.by(r); ok {
				shown[r.ID+" "+r.Name] = true
			}
		}
		if key := r.ID + " " + r.Name; shown[key] == (unshown()[key] != "") {
			t.Errorf("%s: a run %v, and the reason %q", key, shown[key], unshown()[key])
		}
	}
	for key := range unshown() {
		must.True(t, slices.ContainsFunc(Rules(), func(r Rule) bool { return r.ID+" "+r.Name == key }), "%s is no rule", key)
	}
}

// TestDocument compares docs/diagnosis.md with the list of rules.
func TestDocument(t *testing.T) {
	text := page(t)
	must.Golden(t, document, text)
	for n := 1; n <= 43; n++ {
		id := fmt.Sprintf("B%02d", n)
		must.True(t, strings.Contains(text, "\n## "+id+": "), "%s is not in the list", id)
	}
}
