//go:build truth

package netpipe

import (
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/accept/accepttest"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestTimesLikeNPtcp compares our times with NPtcp's on the same path.
func TestTimesLikeNPtcp(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		ratios := alike(try)
		try.Claim("our times over NPtcp's, median", ratios[len(ratios)/2], 0.4, 2.5, "")
	})
}

// TestTurnsComeSoon: transmitters that send nothing take no turn, and one that falls silent in
// its turn keeps it for 2 s.
func TestTurnsComeSoon(t *testing.T) {
	for name, c := range map[string]struct {
		before func(try *truth.Try, port string)
		most   float64
	}{
		"256 silent": {func(try *truth.Try, port string) {
			try.Cleanup(accepttest.Besiege(try.Context(), "127.0.0.1:"+port, 256, nil))
		}, 2},
		"256 with half a sync": {func(try *truth.Try, port string) {
			try.Cleanup(accepttest.Besiege(try.Context(), "127.0.0.1:"+port, 256, []byte("Syn")))
		}, 2},
		"one that never says a word": {func(try *truth.Try, port string) { dial(try, port) }, 1.5},
		"one silent in its turn": {func(try *truth.Try, port string) {
			bad := dial(try, port)
			must.Get(bad.Write([]byte("SyncMe")))(try)
			must.Get(bad.Read(make([]byte, SyncBytes)))(try)
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				port, _ := serve(try, New(), tiny(), Limits{})
				c.before(try, port)
				began := time.Now()
				must.Get(New().Transmit(try.Context(), dialer(port), Options{Settings: tiny(), Repeats: 5}, func(model.Point) {}))(try)
				try.Claim("its test took", time.Since(began).Seconds(), 0, c.most, "s")
			})
		})
	}
}
