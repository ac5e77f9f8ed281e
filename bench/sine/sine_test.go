package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/lab"
	"linerate/internal/must"
)

// TestTheDifferenceIsFivePercent computes the effect of the headers.
func TestTheDifferenceIsFivePercent(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		want := map[model.Outcome]float64{model.Better: 0.05, model.Worse: -0.05, "": 0}[k.right]
		got := math.Expm1(k.truth)
		must.True(t, !(math.Abs(got-want) > 0.0005), "%s: the truth is %.5f, want %.5f", k.name, got, want)
	}
	got := share(1460)
	must.True(t, !(math.Abs(got-1448.0/1538) > 1e-9), "full segments carry %v, want 1448 of 1538 bytes", got)
}

// TestEveryLabSwings: each session has a lab that swings by 10 %, with its own seed, and at
// least nine of 40 begin in each quarter of the period.
func TestEveryLabSwings(t *testing.T) {
	t.Parallel()
	var quarters [4]int
	for i := range 40 {
		spec, err := lab.ParseSpec(strings.TrimPrefix(target(i), "lab:"))
		s := spec.To.Swing
		must.True(t, err == nil && s.Share == swingBy && s.Period == period(i) && s.Lead == lead(i), "%s: %+v, %v", target(i), s, err)
		quarters[4*s.Lead/s.Period]++
		args := kinds()[0].args(i)
		must.True(t, slices.Contains(args, fmt.Sprint(i+1)) && args[1] == target(i), "session %d: %q", i, args)
	}
	must.True(t, slices.Min(quarters[:]) >= 9, "so many begin in each quarter: %v", quarters)
}

// TestCounts: a session counts by its verdict, compared with the truth.
func TestCounts(t *testing.T) {
	t.Parallel()
	said := func(o model.Outcome) model.Session {
		return model.Session{Verdicts: []model.Verdict{
			{Metric: model.Goodput, IsTwin: true, Outcome: model.Worse},
			{Metric: model.RTT, Outcome: model.Worse},
			{Metric: model.Goodput, Outcome: o},
		}}
	}
	all := []model.Outcome{model.Better, model.Worse, model.Worse, model.Undecided, model.Equivalent}
	for right, want := range map[model.Outcome][2]int{"": {0, 3}, model.Better: {1, 2}, model.Worse: {2, 1}} {
		r := row{kind: kind{right: right}}
		for _, o := range all {
			r.add(said(o))
		}
		got := [2]int{r.found, r.wrong}
		must.True(t, got == want && r.done == len(all), "%q: %v of %d, want %v", right, got, r.done, want)
	}
}

// TestSection: bars are judged by the counts, and kinds that were not run are omitted.
func TestSection(t *testing.T) {
	t.Parallel()
	three := row{kind: kinds()[0], done: 40, wrong: 3, blocks: []float64{8}, estimates: []float64{0}}
	found := row{kind: kinds()[1], done: 12, found: 9, blocks: []float64{8}, estimates: []float64{0}}
	var words []string
	for _, v := range section([]row{three, found, {kind: kinds()[2]}}).Verdicts {
		words = append(words, v.Result+" "+v.Word)
	}
	must.Equal(t, strings.Join(words, "; "), "3 of 40 missed; 0 of 40 wrong not judged; 9 of 12 missed")
}

// TestSequenceIsFooled: a slope counts as a difference, and noise without one does not.
func TestSequenceIsFooled(t *testing.T) {
	t.Parallel()
	var slope, saw []float64
	for i := range 2 * turns {
		slope, saw = append(slope, float64(i)), append(saw, float64(i%2))
	}
	if !tellsApart(slope) || tellsApart(saw) || tellsApart(slope[1:]) {
		t.Error("a slope, a saw and a short slope:", tellsApart(slope), tellsApart(saw), tellsApart(slope[1:]))
	}
}

// TestDecode: a document without a verdict is an error, not a session that found nothing.
func TestDecode(t *testing.T) {
	t.Parallel()
	must.Fail(t, must.Err(decode([]byte(`{"session":{"id":"x"}}`))), "a session without a verdict is taken")
	s, err := decode([]byte(`{"session":{"verdicts":[{"metric":"goodput","outcome":"equivalent","blocks":8}]}}`))
	must.True(t, err == nil && verdict(s).Blocks == 8, "%+v, %v", s, err)
}
