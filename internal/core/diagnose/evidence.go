package diagnose

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/analysis"
	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Evidence is the input of the rules: one direction of a session, as both hosts saw it. What no
// host reported is unknown, or nil; a rule stays silent then.
//
// All counters and times are differences over the run, never totals since boot (diagnosis.md
// section 1, step 1).
type Evidence struct {
	Direction model.Direction
	Run       *model.Run             // the examined run: one real run, not a mixture
	Goodput   units.BitRate          // of Run
	Other     fact.Of[units.BitRate] // goodput of the other direction, from its own run
	Windowed  bool                   // the receive window limits one of the two directions when it runs alone
	Back      fact.Of[units.BitRate] // ceiling of the other direction, as payload
	Window    time.Duration          // length of the measured window
	TCP       model.TCPSummary       // of the sender, over the window
	Streams   int                    // connections over which TCP is summed
	Ceiling   fact.Of[units.BitRate] // of the path in this direction, as payload; unknown if the run refutes it
	Path      limits.Ceiling         // the source of Ceiling
	RTT       fact.Of[time.Duration] // the least round trip that a kernel saw in the session
	Sender    End                    //
	Receiver  End                    //
	Samples   []model.Sample         // of Run, of both hosts, in order of time; nil if they were not kept
	Repeats   []units.BitRate        // goodput of the baseline's valid runs in this direction, in order of time
	Beside    Beside                 // results of tests other than Run
	Place     model.Place            // where packets waited on the path in Run; of kind "" if the run has no trace
}

// Beside holds the results of other tests of the direction. The zero value knows nothing; a
// rule that needs more lists it as missing.
type Beside struct {
	Streams  int                    // simultaneous connections of Several
	Several  fact.Of[units.BitRate] // goodput with Streams connections
	Together fact.Of[units.BitRate] // goodput while the other direction carried as much as it could
	// TogetherBack is the goodput of the other direction meanwhile.
	TogetherBack   fact.Of[units.BitRate]
	Pass           fact.Of[bool]          // paced UDP in both directions at once arrives, see limits.AtOnce
	Crowded        bool                   // an end had no processor time left meanwhile
	Ladder         []Rung                 // paced UDP, in any order
	LadderBack     []Rung                 // and that of the other direction
	Jitter         fact.Of[time.Duration] // one-way delay of the slowest of them: 99th percentile over median
	JitterBack     fact.Of[time.Duration] // and of those of the other direction
	Idle           fact.Of[time.Duration] // median round trip without load
	Loaded         fact.Of[time.Duration] // median round trip while the direction was full
	Arrives        fact.Of[int]           // largest IP packet, in bytes, that arrives in this direction
	TooBigReported fact.Of[bool]          // a router reported the packets as too large; if none did, the path is a black hole
	File           fact.Of[units.BitRate] // what the slower disk allows a file copy: the sender's reads, the receiver's writes
	FileHost       model.Host             // the host of that disk
}

// Rung is one tested rate of paced UDP.
type Rung struct {
	Sent     units.BitRate // as the sender counted
	Received units.BitRate // as the receiver counted
	Size     units.Bytes   // of each datagram
	Lost     int64         // datagrams, by the path or by the receiving host
	Got      int64         // datagrams that arrived
	Host     int64         // of Lost, as far as the counters of both hosts explain it
	Unseen   bool          // the receiver did not report what its sockets dropped
}

// End is what one host reports of a run.
type End struct {
	Host     model.Host
	Facts    model.HostFacts   // the host, its interface, its route, its settings
	Report   *model.EndReport  // nil if the host did not report
	Flow     *model.FlowReport // of the direction; nil if the host did not report
	Counters Counters          // how far its counters moved in the run
	CPU      fact.Of[float64]  // busy cores of the measuring process
	// Loopback is the rate of the host to itself: the ceiling of its processor and memory for
	// both ends together. Unknown if not measured.
	Loopback fact.Of[units.BitRate]
}

// Fixed reports whether the test itself set the socket buffers.
func (e Evidence) Fixed() bool { return e.Run != nil && e.Run.Flow.Window > 0 }

// Knob returns the present value of a setting of the host.
func (e End) Knob(id model.KnobID) fact.Of[string] {
	if v, ok := e.Facts.Knobs[id]; ok {
		return v
	}
	return fact.Unknown[string]("the host did not report it")
}

// NIC returns the interface that leads to the peer. It reports false if the host reported none.
func (e End) NIC() (model.NIC, bool) {
	if len(e.Facts.NICs) == 0 {
		return model.NIC{}, false
	}
	return e.Facts.NICs[0], true
}

// Sampled returns the values of one metric at one host, in order of time and
// without the warm-up.
func (e Evidence) Sampled(h model.Host, m model.Metric) []model.Sample {
	var out []model.Sample
	for _, s := range e.Samples {
		if s.Host == h && s.Metric == m && !s.Omitted && (s.Direction == e.Direction || s.Direction == "") {
			out = append(out, s)
		}
	}
	return out
}

// Looked returns the runs that Session examines: for each direction the baseline run with the
// median goodput or, if no run of the direction counts, the last one in which nothing arrived.
// A caller that has samples of these runs should pass them to Session.
func Looked(s *model.Session) map[model.Direction]model.Run {
	out := map[model.Direction]model.Run{}
	for _, d := range []model.Direction{model.To, model.From} {
		if r, ok := medianRun(s, d); ok {
			out[d] = r
		} else if r, ok := deadRun(s, d); ok {
			out[d] = r
		}
	}
	return out
}

// deadRun returns the last run of the baseline in which both ends took part and
// nothing arrived in direction d.
func deadRun(s *model.Session, d model.Direction) (model.Run, bool) {
	for _, r := range slices.Backward(s.Runs) {

		if r.Setting == s.Plan.Baseline && Dead(r, d) {
			return r, true
		}
	}
	return model.Run{}, false
}

// firstRetry is the longest time before TCP retransmits a first segment (RFC 6298 section 2.1).
const firstRetry = time.Second

// Dead reports whether a run was complete and yet no payload arrived in direction d within its
// window, though the sender had some. A window shorter than firstRetry without a retransmission
// does not show that: busy hosts may not have begun yet.
func Dead(r model.Run, d model.Direction) bool {
	if r.State != model.RunInvalid || r.LostContact {
		return false
	}
	nothing, sent := false, false
	for _, e := range r.Ends {
		for _, f := range e.Flows {
			switch {
			case f.Direction != d:
			case f.Role == model.Receiver:
				nothing = f.Bytes == 0 && f.Window > 0
			case f.Role == model.Sender:
				sent = f.Window >= firstRetry || f.TCP == nil || f.TCP.Retransmits.Or(1) > 0
			}
		}
	}
	return nothing && sent
}

// medianRun returns the baseline run whose goodput in direction d is the median of all runs
// that count; the lower one of two. If no block is complete, every valid run counts.
func medianRun(s *model.Session, d model.Direction) (model.Run, bool) {
	counted := analysis.Counted(s.Plan, s.Runs)
	if len(counted) == 0 {
		counted = s.Runs
	}
	var runs []model.Run
	for _, r := range counted {
		if _, ok := r.Value(d, model.Goodput); ok && r.State == model.RunValid && r.Setting == s.Plan.Baseline {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return model.Run{}, false
	}
	slices.SortStableFunc(runs, func(x, y model.Run) int {
		vx, _ := x.Value(d, model.Goodput)
		vy, _ := y.Value(d, model.Goodput)
		return cmp.Compare(vx, vy)
	})
	return runs[(len(runs)-1)/2], true
}

// Collect gathers the evidence of direction d in s: run is one of its runs, and samples belong
// to that run. It reports false if the run has no goodput in d.
func Collect(s *model.Session, run model.Run, d model.Direction, samples []model.Sample) (Evidence, bool) {
	rate, ok := run.Value(d, model.Goodput)
	if !ok && !Dead(run, d) {
		return Evidence{}, false
	}
	path := limits.OfPath(s, d)
	e := Evidence{
		Direction: d, Run: &run, Goodput: units.BitRate(rate), Streams: max(1, run.Flow.Streams),
		Path: path, Ceiling: path.Against(units.BitRate(rate)), RTT: limits.LeastRTT(s), Samples: samples,
		Back:   limits.OfPath(s, opposite(d)).Rate,
		Other:  fact.Unknown[units.BitRate]("the other direction was not measured"),
		Sender: endOf(s, run, d, d.Sender()), Receiver: endOf(s, run, d, d.Receiver()),
	}
	if other, ok := medianRun(s, opposite(d)); ok {
		v, _ := other.Value(opposite(d), model.Goodput)
		e.Other, e.Windowed = fact.Known(units.BitRate(v), "measured"), other.Windowed(opposite(d))
	}
	for _, r := range s.Runs {
		if v, ok := r.Value(d, model.Goodput); ok && r.State == model.RunValid && r.Setting == s.Plan.Baseline {
			e.Repeats = append(e.Repeats, units.BitRate(v))
		}
	}
	e.Beside, e.Place, e.Windowed = besideOf(s, d), PlaceOf(run, d), e.Windowed || run.Windowed(d)
	if f := e.Sender.Flow; f != nil && f.TCP != nil {
		e.TCP, e.Window = *f.TCP, f.Window
	}
	return e, true
}

// endOf returns what host h reports of direction d of a run.
func endOf(s *model.Session, run model.Run, d model.Direction, h model.Host) End {
	e := End{Host: h, CPU: fact.Unknown[float64]("the host did not report it")}
	e.Facts, _ = s.Facts(h)
	if set, ok := s.Plan.Setting(run.Setting); ok {
		e.Facts = under(e.Facts, set)
	}
	e.Loopback = loopbackOf(s, h)
	for i := range run.Ends {
		r := &run.Ends[i]
		if r.Host != h {
			continue
		}
		e.Report, e.Counters = r, countersOf(r)
		if r.CPUWindow > 0 {
			e.CPU = fact.Known((r.CPUUser+r.CPUSystem).Seconds()/r.CPUWindow.Seconds(), "getrusage")
		}
		for k := range r.Flows {
			if r.Flows[k].Direction == d {
				e.Flow = &r.Flows[k]
			}
		}
	}
	return e
}

// under returns the facts as they were while set was applied: an experiment changes values that
// the host reported before it.
func under(facts model.HostFacts, set model.Setting) model.HostFacts {
	const source = "setting of the run"
	cloned := false
	for _, a := range set.Assignments {
		if a.Host != facts.Host {
			continue
		}
		if !cloned {
			facts.Knobs, cloned = maps.Clone(facts.Knobs), true
			if facts.Knobs == nil {
				facts.Knobs = map[model.KnobID]fact.Of[string]{}
			}
		}
		facts.Knobs[a.Knob] = fact.Known(a.Value, source)
		if mtu, err := strconv.Atoi(a.Value); a.Knob == "link.mtu" && err == nil {
			facts.MTU = fact.Known(mtu, source)
		}
	}
	return facts
}

// Counters is how far a host's counters moved in a run (docs/counters.md lists them). The zero
// value has none.
type Counters struct {
	parts  map[string]map[string]int64 // by name and part of the host
	groups map[string]int64            // how many of each group were read
}

// readCounters is the counter that lists the groups that were read.
const readCounters = "counters_read"

// carrierDown counts how often the link was lost.
const carrierDown = "nic_carrier_down"

// driverCounter is the name that all driver counters share.
const driverCounter = "nic_driver"

func countersOf(r *model.EndReport) Counters {
	c := Counters{parts: map[string]map[string]int64{}, groups: map[string]int64{}}
	if r == nil {
		return c
	}
	for _, one := range r.Counters {
		switch {
		case one.Name == readCounters:
			c.groups[one.Of] = one.Value
		case one.Value > 0:
			if c.parts[one.Name] == nil {
				c.parts[one.Name] = map[string]int64{}
			}
			c.parts[one.Name][one.Of] += one.Value
		}
	}
	return c
}

// group returns the group of counters that a name belongs to.
func group(name string) string {
	if name == driverCounter {
		return "driver"
	}
	for i := range name {
		if name[i] == '_' {
			return name[:i]
		}
	}
	return name
}

// Moved returns how far a counter moved, summed over interfaces, cores and families: 0 if it
// stood still, unknown if its group was not read.
func (c Counters) Moved(name string) fact.Of[int64] {
	if g := group(name); c.many(g) <= 0 {
		return fact.Unknown[int64]("counters of " + g + " were not read")
	}
	var n int64
	for _, v := range c.parts[name] {
		n += v
	}
	return fact.Known(n, name)
}

// many returns how many counters of a group were read.
func (c Counters) many(group string) int64 { return c.groups[group] }

// aboutAsMany is the least ratio, (p), of two counts that may describe the same packets.
const aboutAsMany = 0.5

// cardLosses returns the driver counter that moved most among those whose names suggest lost
// received packets. Drivers name their counters freely.
func (c Counters) cardLosses() (name string, n int64) {
	for of, moved := range c.By(driverCounter) {
		low := strings.ToLower(of)
		if strings.Contains(low, "tx") || strings.Contains(low, "pause") || strings.Contains(low, "allowance") || moved < n {
			continue
		}
		for _, word := range []string{"err", "drop", "miss", "discard", "no_buf", "nobuf", "oversize", "overrun"} {
			if strings.Contains(low, word) && (moved > n || of < name) {
				name, n = of, moved
			}
		}
	}
	return name, n
}

// By returns how far a counter moved, by the part of the host: "cpu3", "eth0", "eth0
// rx_no_buffer_count".
func (c Counters) By(name string) map[string]int64 { return c.parts[name] }
