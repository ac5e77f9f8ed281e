package claims

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"linerate/bench/internal/peers"
	"linerate/bench/internal/ratio"
	"linerate/bench/internal/stand"
)

// The keys of values that every run has.
const (
	othersKey = "others"   // cores busy with other work
	nearKey   = "near cpu" // seconds of CPU of the near process
	farKey    = "far cpu"
)

// values are the results of one run.
type values map[string]float64

// String prints the values except those of single sizes.
func (v values) String() string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(v)) {
		if len(v) < 20 || k == othersKey {
			words = append(words, fmt.Sprintf("%s %.4g", k, v[k]))
		}
	}
	return strings.Join(words, ", ")
}

// contender is a program in one situation.
type contender struct {
	name string
	run  func(ctx context.Context) (values, error)
}

// ownName is linerate among the contenders.
const ownName = "linerate"

// situation is a set of runs that are compared with each other.
type situation struct {
	name       string
	prepare    func(ctx context.Context) error // may be nil
	contenders []contender
	notes      []string // contenders left out, and the reason

	runs map[string][]values // by name, one per round
}

// play runs all contenders of all situations in rounds. A round has one run of each, so that
// compared runs are neighbours in time; every other round goes backwards. It returns how many
// cores other work kept busy between the runs, the median over the rounds.
func (b *Bench) play(ctx context.Context, rounds int, situations []*situation) (busy float64, err error) {
	var idle []float64
	for round := range rounds {
		patience := 20 * time.Second
		if b.Quick {
			patience = 0
		}
		quiet, err := stand.Quiet(ctx, patience)
		if err != nil {
			return 0, err
		}
		idle = append(idle, quiet)
		for _, s := range situations {
			if s.prepare != nil {
				if err := s.prepare(ctx); err != nil {
					return 0, fmt.Errorf("prepare %s: %w", s.name, err)
				}
			}
			if err := b.playRound(ctx, round, s); err != nil {
				return 0, err
			}
		}
	}
	return ratio.Of(idle).Median, nil
}

// playRound runs one round of a situation. A contender that fails twice has no value in it and,
// if it never had one, is left out from then on; linerate must not fail.
func (b *Bench) playRound(ctx context.Context, round int, s *situation) error {
	if s.runs == nil {
		s.runs = map[string][]values{}
	}
	var out []int
	for _, i := range ratio.Order(len(s.contenders), round) {
		c := s.contenders[i]
		v, err := c.run(ctx)
		if err != nil && ctx.Err() == nil {
			b.say("  %s, %s: once more: %v", s.name, c.name, err)
			v, err = c.run(ctx)
		}
		switch {
		case err == nil:
			s.runs[c.name] = append(s.runs[c.name], v)
			b.say("  %s, round %d, %s: %s", s.name, round+1, c.name, v)
		case c.name == ownName || ctx.Err() != nil:
			return fmt.Errorf("%s, %s: %w", s.name, c.name, err)
		case len(s.runs[c.name]) > 0:
			s.runs[c.name] = append(s.runs[c.name], values{})
			s.notes = append(s.notes, fmt.Sprintf("%s, %s: not in round %d: %v", s.name, c.name, round+1, err))
		default:
			s.notes = append(s.notes, fmt.Sprintf("%s, %s: left out from round %d on: %v", s.name, c.name, round+1, err))
			out = append(out, i)
		}
	}
	if len(out) > 0 {
		var left []contender
		for i, c := range s.contenders {
			if !slices.Contains(out, i) {
				left = append(left, c)
			}
		}
		s.contenders = left
	}
	return nil
}

// series returns a value in all rounds; NaN for a round without it.
func (s *situation) series(name, key string) []float64 {
	out := make([]float64, len(s.runs[name]))
	for i, v := range s.runs[name] {
		x, there := v[key]
		if !there {
			x = math.NaN()
		}
		out[i] = x
	}
	return out
}

// spread returns the spread of series.
func (s *situation) spread(name, key string) ratio.Spread { return ratio.Of(s.series(name, key)) }

// median prints the median of series, "" if there is none.
func (s *situation) median(name, key, verb string, scale float64) string {
	m := s.spread(name, key)
	if m.Count == 0 {
		return ""
	}
	return fmt.Sprintf(verb, m.Median*scale)
}

// ratio returns the spread of a/b, paired by round.
func (s *situation) ratio(a, b, key string) ratio.Spread {
	return ratio.Paired(s.series(a, key), s.series(b, key))
}

// best returns the peer with the highest (or lowest) median of key; "" if there is none.
func (s *situation) best(key string, highest bool, peers []string) string {
	name, record := "", 0.0
	for _, p := range peers {
		m := s.spread(p, key)
		if m.Count == 0 {
			continue
		}
		if name == "" || highest == (m.Median > record) && m.Median != record {
			name, record = p, m.Median
		}
	}
	return name
}

// foreign returns the names of the contenders other than linerate.
func (s *situation) foreign(own ...string) []string {
	var out []string
	for _, c := range s.contenders {
		if c.name != ownName && !slices.Contains(own, c.name) {
			out = append(out, c.name)
		}
	}
	return out
}

// others returns the median of the cores that other work used during the runs.
func (s *situation) others() float64 {
	var all []float64
	for name := range s.runs {
		all = append(all, s.series(name, othersKey)...)
	}
	return ratio.Of(all).Median
}

// add adds a contender if its program is installed, else a note.
func (s *situation) add(b *Bench, name string, command peers.Command, read func(stand.Outcome) (values, error)) {
	if !stand.Installed(command.Program) {
		s.notes = append(s.notes, fmt.Sprintf("%s: left out: %s is not installed", name, command.Program))
		return
	}
	pair := stand.Pair{
		Server: command.Server, Client: command.Client, Port: command.Port, Datagrams: command.Datagrams,
		Endless: command.Endless, Lines: command.Lines,
	}
	s.contenders = append(s.contenders, contender{name, b.duel(pair, read)})
}

// duel returns a function that runs a pair and reads its result.
func (b *Bench) duel(p stand.Pair, read func(stand.Outcome) (values, error)) func(context.Context) (values, error) {
	p.Time = max(p.Time, b.Duration)
	return func(ctx context.Context) (values, error) {
		out, err := b.Stand.Duel(ctx, p)
		if err != nil {
			return nil, err
		}
		v, err := read(out)
		if err != nil {
			return nil, err
		}
		v[othersKey] = out.Others
		v[nearKey], v[farKey] = out.ClientCPU.Seconds(), out.ServerCPU.Seconds()
		v.costs()
		return v, nil
	}
}

// notes returns the notes of all situations, without duplicates.
func notes(situations []*situation) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range situations {
		for _, n := range s.notes {
			if !seen[n] {
				seen[n] = true
				out = append(out, n)
			}
		}
	}
	return out
}
