package importer

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"linerate/internal/core/analysis"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Named is a parsed file with its name, and the setting that the user gave for it; "" is the
// file's own, or else its name.
type Named struct {
	Name, Setting string
	File          File
}

// About describes a session of imported files.
type About struct {
	ID, Title, Version string
	Command            []string
	Now                time.Time
	Baseline           string // name of a setting; "" is the first
}

// Limits of a session of imported files: its evaluation compares settings with settings, over
// all tests.
const (
	MaxTests    = 10_000
	MaxSettings = 1_000
)

// ByKind groups files by the kind of their tests, in order of first appearance.
func ByKind(files []Named) [][]Named {
	var out [][]Named
	kinds := map[[2]string]int{}
	for _, f := range files {
		here := map[int]bool{} // kinds with this file
		for _, t := range f.File.Tests {
			key := [2]string{t.Flow.Engine, t.Kind}
			k, seen := kinds[key]
			if !seen {
				k = len(out)
				kinds[key], out = k, append(out, nil)
			}
			if !here[k] {
				one := f
				one.File.Tests, here[k] = nil, true
				out[k] = append(out[k], one)
			}
			last := &out[k][len(out[k])-1].File
			last.Tests = append(last.Tests, t)
		}
	}
	return out
}

// Session makes one session from files: a run for each test, in the given order. It gives a
// verdict only if the files say that the tests were made in blocks, each with every setting
// once. The samples are by number of run.
func Session(files []Named, o About) (model.Session, model.Held, error) {
	s := model.Session{
		ID: o.ID, Kind: model.KindImported, Title: o.Title, Command: o.Command, Version: o.Version, Ended: o.Now, Created: o.Now,
		State: model.SessionDone,
		Plan:  model.Plan{Mode: model.FixedBlocks, Confidence: 0.95, Margin: margin},
	}
	samples := model.Held{}
	var spreads []float64
	var from []string
	blocks := true
	tests := 0
	for _, f := range files {
		if tests += len(f.File.Tests); tests > MaxTests {
			return s, nil, faultf(0, "%s: with it the files hold %d tests, and a session may have %d: import some of them, or of a table some lines with --where", f.Name, tests, MaxTests)
		}
		from = append(from, fmt.Sprintf("%s (%s)", filepath.Base(f.Name), f.File.Program))
		for _, t := range f.File.Tests {
			r := run(t, len(s.Runs)+1, setting(f, t, len(files)))
			if r.Setting != t.Setting {
				t.Parts = nil // the user named it
			}
			blocks = blocks && t.Block > 0
			s.Runs = append(s.Runs, r)
			samples[r.Number] = t.Samples
			if sd, ok := t.sigma(); ok {
				spreads = append(spreads, sd)
			}
			if err := join(&s, t, r); err != nil {
				return s, nil, fmt.Errorf("%s: %w", f.Name, err)
			}
		}
	}
	s.Warnings = lists.Once(s.Warnings, notes(files)...)
	s.Reason = "imported from " + strings.Join(from, ", ")
	s.Plan.Baseline = o.Baseline
	if s.Plan.Baseline == "" {
		s.Plan.Baseline = s.Plan.Settings[0].Name
	}
	if _, ok := s.Plan.Setting(s.Plan.Baseline); !ok {
		return s, nil, faultf(0, "no setting is called %q; there are: %s", s.Plan.Baseline, names(s.Plan))
	}
	s.Hosts = []model.HostFacts{{Host: model.Near, Name: s.Near}, {Host: model.Far, Name: s.Far}}
	s.Plan.Objective = objective(s.Runs)
	conclude(&s, blocks, spreads)
	return s, samples, nil
}

// notes are those of all tests, each once: with the files that it is of, unless all have it,
// and with the number of tests, unless it is of all tests of these files.
func notes(files []Named) []string {
	type place struct {
		files     []string
		tests, of int
	}
	places := map[string]*place{}
	var order []string
	for _, f := range files {
		in := map[string]bool{} // this file
		for _, t := range f.File.Tests {
			for _, n := range t.Notes {
				p := places[n]
				if p == nil {
					p = &place{}
					places[n], order = p, append(order, n)
				}
				if !in[n] {
					in[n], p.files, p.of = true, append(p.files, filepath.Base(f.Name)), p.of+len(f.File.Tests)
				}
				p.tests++
			}
		}
	}
	return lists.Each(order, func(n string) string {
		p, text, line := places[n], n, strings.HasPrefix(n, "line")
		if !line && p.tests < p.of {
			text += fmt.Sprintf(" (%d of %d tests)", p.tests, p.of)
		}
		switch {
		case len(files) == 1, !line && len(p.files) == len(files):
			return text
		case len(p.files) > 3:
			return fmt.Sprintf("%s and %s more: %s", p.files[0], plain.Count(len(p.files)-1, "file"), text)
		}
		return strings.Join(p.files, ", ") + ": " + text
	})
}

// margin is the smallest change that matters, for repeated measurements (statistics.md 6.1).
const margin units.Percent = 5

// unnamed are the names of ends without a name.
var unnamed = [2]string{"the near end", "the far end"}

// setting names the setting of test t of file f.
func setting(f Named, t Test, files int) string {
	switch {
	case f.Setting != "":
		return f.Setting
	case t.Setting != "":
		return t.Setting
	case files == 1:
		return "as measured"
	}
	return filepath.Base(f.Name)
}

// run converts t to a run.
func run(t Test, number int, setting string) model.Run {
	r := model.Run{
		Number: number, Block: number, Attempt: 1, Position: 1, Setting: setting, Flow: t.Flow, State: model.RunValid,
		Started: t.Started, Values: t.Values,
	}
	if t.Block > 0 {
		r.Block = t.Block
	}
	if !t.Started.IsZero() {
		r.Ended = t.Started.Add(t.Flow.Duration)
	}
	if len(t.Points) > 0 {
		r.Ends = []model.EndReport{{Host: model.Near, Points: t.Points}}
	}
	return r
}

// join adds test t, which is run r, to the session's plan and ends.
func join(s *model.Session, t Test, r model.Run) error {
	if len(s.Runs) == 1 {
		s.Near, s.Far, s.Plan.Flow = cmp.Or(t.Near, unnamed[0]), cmp.Or(t.Far, unnamed[1]), t.Flow
	}
	if s.Plan.Flow.Engine != t.Flow.Engine {
		return faultf(0, "tests of different kinds (%s, %s) are not one session", s.Plan.Flow.Engine, t.Flow.Engine)
	}
	warn := func(text string) {
		s.Warnings = lists.Once(s.Warnings, text)
	}
	if s.Near != cmp.Or(t.Near, unnamed[0]) || s.Far != cmp.Or(t.Far, unnamed[1]) {
		warn("the tests are not all between the same two hosts")
	}
	if s.Plan.Flow.Streams != t.Flow.Streams {
		warn("the tests do not all have as many streams")
	}
	if !t.Started.IsZero() && t.Started.Before(s.Created) {
		s.Created = t.Started
	}
	if _, ok := s.Plan.Setting(r.Setting); !ok {
		if len(s.Plan.Settings) == MaxSettings {
			return faultf(0, "it makes more than %d settings: leave out a column that makes them, or choose lines with --where", MaxSettings)
		}
		s.Plan.Settings = append(s.Plan.Settings, model.Setting{Name: r.Setting, Assignments: t.Parts})
	}
	s.Plan.Directions = lists.Once(s.Plan.Directions, t.Flow.Direction.Parts()...)
	return nil
}

// sigma returns the standard deviation of the logarithm that a summary implies: for a bell
// curve about 4 of them lie between the smallest and the largest of some ten to some hundred
// values (Hozo et al. 2005). It returns false without a summary, or if that has a value of 0.
func (t Test) sigma() (float64, bool) {
	if t.Spread == nil || t.Spread.Min <= 0 {
		return 0, false
	}
	return math.Log(t.Spread.Max/t.Spread.Min) / 4, true
}

// conclude gives verdicts if the tests allow it, and otherwise says why not, and what a repeat
// needs.
func conclude(s *model.Session, blocks bool, spreads []float64) {
	if len(s.Plan.Settings) < 2 {
		s.Plan.Mode = ""
		return
	}
	if why := inBlocks(s, blocks); why != "" {
		s.Plan.Mode = ""
		s.Warnings = append([]string{"no verdict: " + why + ", so a drift of the path would look the same as a difference", repeat(s, spreads)}, s.Warnings...)
		return
	}
	r := analysis.Analyse(s.Plan, s.Runs)
	s.Verdicts, s.Plateaus, s.Noise = r.Verdicts, r.Plateaus, r.Noise
	s.Warnings = append(append(s.Warnings, r.Warnings...), "whether the order inside the blocks was random, the files do not say")
}

// objective returns the objective if no run has a goodput: the first of these metrics that all
// runs have. It is empty for goodput, and if they have none in common.
func objective(runs []model.Run) model.Metric {
	for _, m := range []model.Metric{model.Goodput, model.RequestRate, model.LatencyP50, model.LatencyP99, model.RTT} {
		n := lists.Count(runs, func(r model.Run) bool {
			_, ok := r.Value(r.Flow.Direction.Parts()[0], m)
			return ok
		})
		switch {
		case n > 0 && m == model.Goodput:
			return ""
		case n == len(runs):
			return m
		}
	}
	return ""
}

// inBlocks says why the tests of s are not blocks; "" if they are. It sets the order of the
// plan from them.
func inBlocks(s *model.Session, stated bool) string {
	if !stated {
		return "the files do not say that the tests were made in blocks, each with every setting once"
	}
	order := map[int][]string{}
	for _, r := range s.Runs {
		order[r.Block] = append(order[r.Block], r.Setting)
	}
	each := len(s.Plan.Settings) * len(s.Plan.Directions)
	for n := 1; n <= len(order); n++ {
		b, ok := order[n]
		if !ok {
			return fmt.Sprintf("block %d is missing", n)
		}
		if len(b) != each {
			return fmt.Sprintf("block %d has %d tests, and %d settings in %d directions are %d", n, len(b), len(s.Plan.Settings), len(s.Plan.Directions), each)
		}
		s.Plan.Order = append(s.Plan.Order, b)
	}
	s.Plan.MaxBlocks = len(order)
	return ""
}

// repeat describes a sound repeat of s.
func repeat(s *model.Session, spreads []float64) string {
	least := stats.MinBlocks(len(s.Plan.Settings)-1, 1-s.Plan.Confidence)
	sigma, why := noise(s, spreads)
	text := fmt.Sprintf("a sound repeat measures all %d settings once in each block, in random order", len(s.Plan.Settings))
	if why == "" {
		return fmt.Sprintf("%s: how much two runs of one setting differ is not known, so it takes %d blocks (%s) or more; let linerate run decide", text, least, minutes(s, least))
	}
	n := max(least, stats.ExpectedBlocks(sigma, math.Log1p(float64(margin)/100)))
	text += fmt.Sprintf(": about %d blocks (%s) to see a difference of %s, by %s", n, minutes(s, n), margin, why)
	if big := largest(s); big > math.Log1p(float64(margin)/100) {
		n = max(least, stats.ExpectedBlocks(sigma, big))
		text += fmt.Sprintf("; %d (%s) for one as large as the largest here", n, minutes(s, n))
	}
	return text
}

// noise returns the standard deviation of the log ratio of two runs, and its source; "" if
// there is none.
func noise(s *model.Session, spreads []float64) (float64, string) {
	var all []float64
	for _, set := range s.Plan.Settings {
		for _, d := range s.Plan.Directions {
			if v := logs(s, set.Name, d); len(v) > 1 {
				all = append(all, stats.StdDev(v))
			}
		}
	}
	if len(all) > 0 {
		return math.Sqrt2 * stats.Median(all), "what runs of one setting differ here"
	}
	if len(spreads) > 0 {
		return math.Sqrt2 * stats.Median(spreads), "a quarter of the range that the summaries give"
	}
	return 0, ""
}

// logs returns the logarithms of the objective over the runs of a setting in direction d.
func logs(s *model.Session, setting string, d model.Direction) []float64 {
	var out []float64
	for _, r := range s.Runs {
		if v, ok := r.Value(d, s.Plan.Decides()); ok && v > 0 && r.Setting == setting {
			out = append(out, math.Log(v))
		}
	}
	return out
}

// largest returns the largest log ratio of a setting to the baseline.
func largest(s *model.Session) float64 {
	big := 0.0
	for _, d := range s.Plan.Directions {
		base := logs(s, s.Plan.Baseline, d)
		for _, set := range s.Plan.Settings {
			if v := logs(s, set.Name, d); len(v) > 0 && len(base) > 0 {
				big = max(big, math.Abs(stats.Median(v)-stats.Median(base)))
			}
		}
	}
	return big
}

// minutes estimates the time of n blocks, with runs as long as these, or of 10 s, and two
// seconds between them.
func minutes(s *model.Session, n int) string {
	length := 10 * time.Second
	if d := s.Plan.Flow.Duration; d > 0 {
		length = d
	}
	all := time.Duration(n*len(s.Plan.Settings)*len(s.Plan.Directions)) * (length + 2*time.Second)
	if all < 90*time.Minute {
		return fmt.Sprintf("%d min", int(math.Ceil(all.Minutes())))
	}
	return fmt.Sprintf("%.0f h", math.Ceil(all.Hours()))
}

func names(p model.Plan) string {
	all := lists.Each(p.Settings, func(x model.Setting) string { return x.Name })
	return strings.Join(all, "; ")
}
