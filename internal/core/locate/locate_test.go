package locate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// way is a synthetic path: for each hop, queued is the mean wait in ms under load of a packet
// that has passed it, and late the longest time in ms that the hop itself takes to answer under
// load.
type way struct {
	queued []float64
	late   map[int]float64
	silent map[int]bool
	limit  int  // answers under load of each hop, or of the receiver alone if aside; 0 is all
	aside  bool // the trace's probes do not pass what is queued, the others do
	ways   int  // source ports, of 5, whose probes pass what is queued
	longer float64
}

// trace draws the results of probes on w, whose last hop is the receiver.
func (w way) trace(rng *rand.Rand) (t model.Trace, _ Ends) {
	t = model.Trace{Direction: model.To, Ports: 5 * min(1, w.ways+int(w.longer))}
	var idle, loaded hist.Recorder
	wait := 0.0 // of this round, as a share of the mean
	took := func(hop, port int, queued float64) time.Duration {
		ms := float64(hop)*0.7 + queued*wait*(0.95+0.1*rng.Float64()) + 0.1*rng.ExpFloat64()
		if hop > 2 && port > 0 {
			ms += w.longer
		}
		if wait > 0 {
			ms += w.late[hop] * rng.Float64()
		}
		return time.Duration(ms * 1e6)
	}
	waits := make([]float64, 20)
	for n := range waits {
		waits[n] = 0.5 + rng.Float64()
	}
	for i, q := range w.queued {
		h := model.TraceHop{TTL: i + 1, Arrived: i+1 == len(w.queued), Address: fmt.Sprintf("10.0.%d.1", i)}
		wait = 0
		for n := range 5 {
			h.Idle = append(h.Idle, took(i+1, t.Port(n), 0))
		}
		for n := range 20 {
			wait = waits[n]
			q := q
			if w.aside || w.ways > 0 && t.Port(n) >= w.ways {
				q = 0
			}
			d := took(i+1, t.Port(n), q)
			if w.limit > 0 && (!w.aside || h.Arrived) && n%(20/w.limit) != 0 {
				d = 0
			}
			h.Loaded = append(h.Loaded, d)
		}
		if w.silent[i+1] {
			h = model.TraceHop{TTL: i + 1, Idle: make([]time.Duration, 5), Loaded: make([]time.Duration, 20)}
		}
		t.Hops = append(t.Hops, h)
	}
	for range 100 {
		wait = 0
		idle.Record(took(len(w.queued), 0, 0))
		wait = 0.5 + rng.Float64()
		loaded.Record(took(len(w.queued), 0, w.queued[len(w.queued)-1]))
	}
	return t, Ends{idle.Histogram(), loaded.Histogram()}
}

// TestFind: the place is between the last hop that answers as without load and the first that
// does not. It is wide where hops are silent or slow to answer, and absent where nothing waits.
func TestFind(t *testing.T) {
	full := []float64{0, 0, 5, 5, 5}
	for name, c := range map[string]struct {
		way
		want string
	}{
		"in the middle":              {way{queued: full}, "link 2-3"},
		"few answers":                {way{queued: full, limit: 5}, "link 2-3"},
		"the sender's own link":      {way{queued: []float64{5, 5, 5}}, "link 0-1"},
		"the last link":              {way{queued: []float64{0, 0, 5}}, "link 2-3"},
		"silent before":              {way{queued: full, silent: map[int]bool{2: true}}, "link 1-3 [2]"},
		"silent on both sides":       {way{queued: full, silent: map[int]bool{2: true, 3: true}}, "link 1-4 [2 3]"},
		"silent far end":             {way{queued: full, silent: map[int]bool{5: true}}, "link 2-3"},
		"late by itself before":      {way{queued: full, late: map[int]float64{1: 20}}, "link 2-3 late [1]"},
		"two queues":                 {way{queued: []float64{0, 1, 6, 6}}, "link 2-3"},
		"a queue in each link":       {way{queued: []float64{0, 2, 3.6, 6}, limit: 10}, "unknown late [2 3]"},
		"nothing waits":              {way{queued: []float64{0, 0, 0, 0}}, "no queue"},
		"a late router, no queue":    {way{queued: []float64{0, 0, 0, 0}, late: map[int]float64{2: 20}}, "no queue"},
		"nothing answers":            {way{queued: full, silent: map[int]bool{1: true, 2: true, 3: true, 4: true}}, "unknown"},
		"another way":                {way{queued: full, aside: true}, "unknown"},
		"another way, few answers":   {way{queued: full, aside: true, limit: 2}, "unknown"},
		"each router a bit later":    {way{queued: []float64{3.9, 3.9, 3.9, 3.9, 3.9, 6}}, "unknown late [1 2 3 4 5]"},
		"a link of a bundle":         {way{queued: full, ways: 2}, "link 2-3 of a bundle"},
		"one port takes it":          {way{queued: full, ways: 1}, "link 2-3 of a bundle"},
		"far end hardly answers":     {way{queued: full, ways: 3, silent: map[int]bool{5: true}}, "link 2-3 of a bundle"},
		"a bundle that is not full":  {way{queued: full, ways: 5}, "link 2-3"},
		"a longer way, no queue":     {way{queued: []float64{0, 0, 0, 0}, longer: 4}, "no queue"},
		"a late router in a bundle":  {way{queued: full, ways: 2, late: map[int]float64{1: 20}}, "link 2-3 of a bundle late [1]"},
		"a queue of a tenth of a ms": {way{queued: []float64{0, 0, 0.1, 0.1}}, "no queue"},
	} {
		for seed := range uint64(50) {
			tr, e := c.trace(rand.New(rand.NewPCG(7, seed)))
			p := Find(tr, e)
			got := string(p.Kind)
			if p.Kind == model.PlaceLink {
				got += fmt.Sprintf(" %d-%d", p.Before.Hop, p.Behind.Hop)
			}
			if p.Ports > 0 {
				got += " of a bundle"
			}
			if len(p.Silent) > 0 {
				got += fmt.Sprint(" ", p.Silent)
			}
			if len(p.Late) > 0 {
				got += fmt.Sprint(" late ", p.Late)
			}
			must.Equal(t, got, c.want, "%s, seed %d: %+v", name, seed, p)
		}
	}
}

// TestLateBeforeTheQueue: a slow router next to the full link may widen the place, but must not
// move it.
func TestLateBeforeTheQueue(t *testing.T) {
	wrong := 0
	for seed := range uint64(400) {
		tr, e := way{queued: []float64{0, 0, 5, 5, 5}, late: map[int]float64{2: 10}, limit: 10}.trace(rand.New(rand.NewPCG(8, seed)))
		if p := Find(tr, e); p.Kind == model.PlaceLink && (p.Before.Hop > 2 || p.Behind.Hop != 3) {
			wrong++
		}
	}
	must.True(t, wrong <= 8, "%d of 400 places are wrong", wrong)
}

// TestNarrow: large packets vanish between the last router that answers them and the next
// router that answers small ones.
func TestNarrow(t *testing.T) {
	for name, c := range map[string]struct {
		small, large string // which hops answer; the last one is the receiver
		want         string
	}{
		"in the middle": {"1111", "1100", "2-3"},
		"first link":    {"111", "000", "0-1"},
		"last link":     {"111", "110", "2-3"},
		"silent":        {"1011", "1000", "1-3 [2]"},
		"they arrive":   {"111", "111", ""},
		"nothing":       {"000", "000", ""},
	} {
		tr := model.Trace{Direction: model.To}
		for i := range c.small {
			h := model.TraceHop{TTL: i + 1, Arrived: i+1 == len(c.small)}
			for _, x := range []struct {
				answers string
				to      *[]time.Duration
			}{{c.small, &h.Idle}, {c.large, &h.Loaded}} {
				*x.to = []time.Duration{0, time.Duration(x.answers[i] - '0')}
			}
			tr.Hops = append(tr.Hops, h)
		}
		p, ok := Narrow(tr)
		got := fmt.Sprintf("%d-%d", p.Before.Hop, p.Behind.Hop)
		if len(p.Silent) > 0 {
			got += fmt.Sprint(" ", p.Silent)
		}
		must.True(t, ok == (c.want != "") && (!ok || got == c.want), "%s: %v %+v", name, ok, p)
	}
}
