package mistuned_test

import (
	"math"
	"testing"

	"linerate/internal/lab"
	"linerate/internal/lab/mistuned"
	"linerate/internal/must"
)

// Every case is a valid lab, at every point of its exhaustive search, and has something to
// compare with.
func TestCasesAreLabs(t *testing.T) {
	t.Parallel()
	list := mistuned.List()
	must.True(t, len(list) >= 20, "%d cases", len(list))
	names := map[string]bool{}
	for _, c := range list {
		must.True(t, !names[c.Name] && c.About != "" && c.Ceiling > 0 && (c.Direction == "to" || c.Direction == "from"), "%+v", c)
		names[c.Name] = true
		points := c.Points()
		must.True(t, len(points) >= 12 && len(points[0]) == 0, "%s: %d points, the first with %v", c.Name, len(points), points[0])
		for _, p := range points {
			must.OK(t, must.Err(lab.ParseSpec(c.Spec(p...))), "%s", c.Name)
		}
	}
}

// A setting replaces the wrong one.
func TestSpec(t *testing.T) {
	t.Parallel()
	c := mistuned.Case{Wire: "rate=1gbit", Wrong: []mistuned.Set{{Knob: "far.tcp.sack", Value: "off"}}}
	got := c.Spec(mistuned.Set{Knob: "far.tcp.sack", Value: "on"}, mistuned.Set{Knob: "near.tcp.sack", Value: "on"})
	must.True(t, got == "rate=1gbit,far.tcp.sack=on,near.tcp.sack=on", "%v", got)
}

// What counts as reached, as needless and as a missed claim.
func TestScore(t *testing.T) {
	t.Parallel()
	gain := math.Log(4)
	good := mistuned.Row{
		Case: mistuned.Case{Name: "good", Ceiling: 100e6}, Before: 23e6, After: 92e6, Best: 94e6, Proven: true, Low: gain - 0.1, High: gain + 0.1,
		Search: 10, Points: 18, Winner: []mistuned.Set{{Knob: "near.x", Value: "1"}, {Knob: "far.y", Value: "2"}}, Without: []float64{30e6, 50e6},
	}
	for name, c := range map[string]struct {
		change func(*mistuned.Row)
		want   mistuned.Score
	}{
		"good":             {func(*mistuned.Row) {}, mistuned.Score{Reached: 1, Claimed: 1}},
		"too slow":         {func(r *mistuned.Row) { r.After, r.Proven = 80e6, false }, mistuned.Score{}},
		"best of all":      {func(r *mistuned.Row) { r.After, r.Best, r.Proven = 40e6, 41e6, false; r.Without = nil }, mistuned.Score{Reached: 1}},
		"too bold":         {func(r *mistuned.Row) { r.Low = gain + 0.05 }, mistuned.Score{Reached: 1, Claimed: 1, Missed: 1}},
		"truth unsure":     {func(r *mistuned.Row) { r.Low, r.Noise = gain+0.05, 0.03 }, mistuned.Score{Reached: 1, Claimed: 1}},
		"one for free":     {func(r *mistuned.Row) { r.Without[1] = 91e6 }, mistuned.Score{Reached: 1, Claimed: 1, Needless: 1}},
		"left changed":     {func(r *mistuned.Row) { r.NotUndone = "+x" }, mistuned.Score{Reached: 1, Claimed: 1, NotUndone: 1}},
		"guard harmed":     {func(r *mistuned.Row) { r.Case.Guard, r.RTTBefore, r.RTTAfter = "rtt<100%", 0.02, 0.06 }, mistuned.Score{Claimed: 1}},
		"guard that holds": {func(r *mistuned.Row) { r.Case.Guard, r.RTTBefore, r.RTTAfter = "rtt<100%", 0.02, 0.03 }, mistuned.Score{Reached: 1, Claimed: 1}},
	} {
		r := good
		r.Without = append([]float64(nil), good.Without...)
		c.change(&r)
		c.want.Cases, c.want.Share = 1, 10.0/54
		must.Equal(t, mistuned.Sum([]mistuned.Row{r}), c.want, "%s", name)
		must.Len(t, mistuned.Minutes([]mistuned.Row{r}, true), c.want.Claimed, name)
	}
	must.Contain(t, good.Line(), "near.x=1, far.y=2")
}
