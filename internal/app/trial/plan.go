package trial

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/search"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// Current is the setting of a plan that compares nothing: hosts and flow unchanged.
const Current = "current"

// Wrong reports an invalid option, under the name of its flag. A plan is usable only if there
// was no such report.
type Wrong func(flag string, err error)

// Repeated returns the plan that measures flow blocks times in each direction, in turn, and
// compares nothing.
func Repeated(flow model.Flow, directions []model.Direction, blocks int) model.Plan {
	flow.Direction = directions[0]
	p := model.Plan{
		Settings: []model.Setting{{Name: Current}}, Baseline: Current, Flow: flow, Directions: directions,
		Mode: model.FixedBlocks, MaxBlocks: blocks, Confidence: 0.95,
	}
	for range blocks {
		p.Order = append(p.Order, []string{Current})
	}
	return p
}

// Quick describes a quick look at the path.
type Quick struct {
	Flow       model.Flow
	Directions []model.Direction // in turn; none means to and from
	Repeats    int               // of each direction, 1 to 1000
	Cooldown   time.Duration     // after each run
	Data       units.Bytes       // start no further run of both directions after this much payload; 0 means no limit
	Trace      bool              // trace the routers on the way, if latency is probed
	Idle       time.Duration     // how long to probe the latency before the load; 0: not at all
	Search     *RateSearch       // in place of repeats
}

// RateSearch describes a search for the highest UDP rate that arrives.
type RateSearch struct {
	Loss    float64       // accepted loss, 0 up to 1
	Highest units.BitRate // highest rate to try
	Repeats int           // of each rate; 0 means the default
	Timed   bool          // the user chose the length of a run
}

// Defaults of a search.
const (
	// HighestRate is more than a host can send.
	HighestRate      = units.BitRate(100e9)
	searchLow        = 50 // datagrams in a run: fewer say nothing about loss
	searchResolution = 0.02
	searchRepeats    = 5
	searchTime       = 2 * time.Second
	usualDatagram    = 1472.0 // bytes of payload that fill MTU 1500
)

// Plan returns the runs of a quick look: every direction once per repeat.
func (q Quick) Plan(kinds traffic.Kinds, wrong Wrong) model.Plan {
	flow := q.Flow
	switch {
	case flow.Engine == udp.Name && flow.Block > udp.MaxDatagram:
		wrong("length", fmt.Errorf("%d bytes are more than the %d of a UDP datagram", flow.Block, udp.MaxDatagram))
	case flow.Engine == udp.Name && q.Search == nil:
		wrong("bitrate", sparse(flow))
	}
	if q.Idle > 0 && flow.Bytes == 0 && q.Search == nil { // a search uses many short runs, for one question
		if kinds.Loads(flow) {
			flow = probes.Over(flow)
		}
		if flow.Engine == probes.Name {
			flow.Lead = q.Idle
		}
		if q.Trace && !slices.Contains(q.Directions, model.Both) { // replies would wait in the queue of the other direction
			flow = probes.Traced(flow)
		}
	}
	if q.Repeats < 1 || q.Repeats > 1000 {
		wrong("repeat", fmt.Errorf("%d is not between 1 and 1000", q.Repeats))
		q.Repeats = 1 // do not plan that many runs
	}
	directions := q.Directions
	if len(directions) == 0 {
		directions = []model.Direction{model.To, model.From}
	}
	if q.Search != nil {
		return q.search(flow, directions, wrong)
	}
	p := Repeated(flow, directions, q.Repeats)
	p.Cooldown, p.Data = q.Cooldown, q.Data
	return p
}

// sparse returns an error if no datagram of a flow is due within its time.
func sparse(f model.Flow) error {
	p, ok := udp.Of(f)
	size := cmp.Or(float64(f.Block), usualDatagram)
	if !ok || p.Rate <= 0 || f.Duration <= 0 {
		return nil
	}
	every := time.Duration(8 * size * float64(max(f.Streams, 1)) / float64(p.Rate) * float64(time.Second))
	if every <= f.Duration {
		return nil
	}
	return fmt.Errorf("no datagram is due in %s: at %s one of %.0f bytes leaves each stream every %s; use a longer --time, smaller datagrams (--length) or a higher rate",
		units.FormatDuration(f.Duration), p.Rate, size, units.FormatDuration(every))
}

// search returns the plan of a search: one direction, and rates instead of blocks.
func (q Quick) search(flow model.Flow, directions []model.Direction, wrong Wrong) model.Plan {
	if directions[0] == model.Both {
		wrong("search", errors.New("a search is for one direction: use --to or --reverse"))
	}
	if !q.Search.Timed && flow.Bytes == 0 {
		flow.Duration = searchTime
	}
	p := Repeated(flow, directions[:1], 0)
	p.Settings, p.Baseline, p.Cooldown, p.Data = nil, "", q.Cooldown, q.Data
	low := units.BitRate(searchLow * 8 * cmp.Or(float64(flow.Block), usualDatagram) / max(flow.Duration.Seconds(), 0.001))
	s := model.RateSearch{
		Low: low, High: q.Search.Highest, Limit: q.Search.Loss, Resolution: searchResolution, Repeats: cmp.Or(q.Search.Repeats, searchRepeats),
	}
	switch {
	case flow.Duration == 0 && flow.Bytes == 0: // already reported
	case s.High < low:
		wrong("bitrate", fmt.Errorf("at %s a run of %s sends less than %d datagrams, too few to see a loss: use a longer --time",
			s.High, units.FormatDuration(flow.Duration), searchLow))
	default:
		wrong("search", search.Validate(s))
	}
	p.Search = &s
	p.Flow.Interval = min(flow.Interval, max(flow.Duration, time.Millisecond))
	return p
}

// Suit adapts the plan of a quick look to what the far end supports; given are the flags for
// a foreign program.
func Suit(env app.Env, far *target.Target, p *model.Plan, given app.Values) (err error) {
	if far.Kind != target.Foreign {
		return Takes(env, *p)
	}
	p.Flow, err = far.Fit(env, p.Flow, given)
	return err
}

// Sweep describes a measurement of message times by size.
type Sweep struct {
	Flow              model.Flow // Plan fills in engine and sizes
	Params            sizes.Params
	Smallest, Largest units.Bytes // 0 means the default
	Passes            int         // over all sizes; 0 means the default
	Cooldown          time.Duration
	Data              units.Bytes // start no further pass after this much payload; 0 means no limit
	Seed              uint64      // for the order of sizes; 0 draws one
}

// Plan returns the runs of a sweep, a block for each pass, adapted to what the far end
// supports; given are the flags for a foreign program.
func (s Sweep) Plan(env app.Env, far *target.Target, given app.Values) (model.Plan, error) {
	if s.Seed == 0 {
		s.Seed = rand.Uint64()
	}
	order, err := plan.NewSweep(plan.SweepOptions{Smallest: s.Smallest, Largest: s.Largest, Sweeps: s.Passes, Seed: s.Seed})
	if err != nil {
		return model.Plan{}, fault.WithKind(fault.Usage, err)
	}
	s.Params.Sizes = order.Sizes
	s.Flow.Engine = sizes.Name
	p := Repeated(sizes.With(s.Flow, s.Params), []model.Direction{s.Flow.Direction}, len(order.Order))
	p.Cooldown, p.Seed, p.Data = s.Cooldown, s.Seed, s.Data
	if far.Kind == target.Foreign && far.Program.Once && s.Passes == 0 {
		p.MaxBlocks, p.Order = 1, p.Order[:1]
	}
	err = Suit(env, far, &p, given)
	return p, err
}
