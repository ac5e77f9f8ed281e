package tune_test

import (
	"strconv"
	"testing"

	"linerate/internal/core/tune"
	"linerate/internal/must"
)

// What one look at the hosts as they are showed is not forgotten because the next one,
// at another short run of them, does not show it: the milder value is still tried after
// the stronger one that did harm.
func TestALaterLookShowsLess(t *testing.T) {
	w := bufferWorld(1, 128<<10, 512<<10)
	w.latency[strconv.Itoa(512<<10)] = 2
	m := tune.New(options())
	tried := map[string]bool{}
	for looks := 0; ; {
		s := m.Next()
		switch s.Kind {
		case tune.KindLook:
			l := w.look(s.Settings[0])
			if looks++; looks == 2 {
				l.Ideas = nil
			}
			m.Looked(l)
			continue
		case tune.KindRace, tune.KindScreen, tune.KindTrim, tune.KindPlateau, tune.KindAsk:
		case tune.KindConfirm, tune.KindEnd:
			must.True(t, tried["far.tcp.recv_buffer_max=524288"] && tried["far.tcp.recv_buffer_max=131072"], "tried %v", tried)
			return
		}
		b := tune.Block{}
		for _, x := range s.Settings {
			b[x.Name], tried[x.Name] = w.run(x), true
		}
		m.Measured(b)
	}
}
