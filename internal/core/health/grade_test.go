package health

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// TestGrades: docs/find-the-limit.md has the default grades, and a session holds those that were set.
func TestGrades(t *testing.T) {
	manual := string(must.Get(os.ReadFile("../../../docs/find-the-limit.md"))(t))
	for _, g := range Grades() {
		poor, bad := g.value(g.Poor), g.value(g.Bad)
		must.Contain(t, manual, fmt.Sprintf("| `%s` | %s | %s | %s | %s |", g.Name, g.What, poor, bad, g.From))
	}
	s := session()
	set(&s.Runs[3], model.To, model.LossRatio, 0.004)
	s.Check.Grades = "loss=0.5%,2%;queueing=1s,2s"
	for _, l := range Judge(s) {
		must.True(t, l.Thing != "loss" || l.Direction != model.To || l.State == OK, "0.4 %% where 0.5 %% is POOR: %+v", l)
	}
	for text, want := range map[string]string{
		"los=1%,2%":       "there are loss, resent, overflow",
		"loss=1%":         "write two values",
		"loss=2%,1%":      "BAD is the worse",
		"speed=10%,90%":   "BAD is the worse",
		"queueing=1%,2%":  "queueing=30 ms,200 ms",
		"loss=fast,loose": "write two values",
	} {
		must.Say(t, must.Err(ParseGrades(text)), want, "%s", text)
	}
}

// TestFullPath: what a flow that fills the path sends again is graded step by step, and shows
// nothing of the path below the first one; a grade
// of resent that the person sets holds there too.
func TestFullPath(t *testing.T) {
	for _, c := range []struct {
		share  float64
		grades string
		want   State
	}{{0.049, "", Unseen}, {0.05, "", Poor}, {0.119, "", Poor}, {0.12, "", Bad}, {0.049, "resent=1%,2%", Bad}, {0.049, "overflow=1%,9%", Poor}} {
		s := session()
		s.Check.Grades = c.grades
		s.Runs = s.Runs[:2]
		set(&s.Runs[0], model.To, model.RetransmitRatio, c.share)
		for _, l := range Judge(s) {
			if l.Thing == "loss" && l.Direction == model.To {
				must.Equal(t, l.State, c.want, "%g with %q: %+v", c.share, c.grades, l)
			}
		}
	}
}

// TestBalance: where the rate of the path is unknown, a direction that reaches a seventh
// of the other one is not passed over.
func TestBalance(t *testing.T) {
	for rate, want := range map[float64]State{900e6: Unseen, 134e6: Poor, 50e6: Bad} {
		s := session()
		s.WireRate = fact.Unknown[units.BitRate]("virtual")
		s.Runs = s.Runs[:2]
		set(&s.Runs[0], model.To, model.Goodput, rate)
		for _, l := range Judge(s) {
			must.True(t, l.Thing != "speed" || l.Direction != model.To || l.State == want && strings.Contains(l.Text, "--rate"), "%g: %+v", rate, l)
		}
	}
}
