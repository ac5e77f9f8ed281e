package tune_test

import (
	"strconv"
	"testing"

	"linerate/internal/core/fact"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// A level that does harm leaves the milder ones, and no stronger one is tried, though
// the formula promises as much of it.
func TestAMilderValueAfterAHarmfulOne(t *testing.T) {
	for seed := range uint64(50) {
		w := bufferWorld(seed, 128<<10, 256<<10, 1<<20, 4<<20)
		w.useful[0].factor = func(v int64) float64 {
			if v >= 1<<20 {
				return 0.5 // it overruns a queue
			}
			return size(v)
		}
		m := tune.New(options())
		for s := m.Next(); s.Kind != tune.KindConfirm && s.Kind != tune.KindEnd; s = m.Next() {
			if s.Kind == tune.KindLook {
				l := w.look(s.Settings[0])
				for i := range l.Ideas {
					l.Ideas[i].Allows = fact.Known(units.BitRate(1e6*float64(min(i, 2))), "a formula that does not know of the queue")
				}
				m.Looked(l)
				continue
			}
			b := tune.Block{}
			for _, x := range s.Settings {
				must.Need(t, x.Name != "far.tcp.recv_buffer_max=4194304", "the stronger value was tried")
				b[x.Name] = w.run(x)
			}
			m.Measured(b)
		}
		if s, _ := m.Winner(); len(s.Assignments) != 1 || s.Assignments[0].Value != strconv.Itoa(256<<10) {
			t.Errorf("seed %d: winner %+v, %+v", seed, s, m.Fates())
		}
	}
}
