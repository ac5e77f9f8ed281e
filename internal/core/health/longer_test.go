package health

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestLongerVectors holds the numbers of a longer path against diagnosis.md sections 2.2
// and 2.3, computed by hand: W = rate x rtt / 8 bytes; CUBIC p = rtt / (w / 1.054)^(4/3)
// and Reno p = 1.5 / w^2 with w = W / MSS segments, the larger of the two; the start is
// ceil(log2(w / 10)) round trips.
func TestLongerVectors(t *testing.T) {
	for name, c := range map[string]struct {
		l     Longer
		mss   int
		cc    string
		says  map[string]string // by thing: a part of number and text
		proof string            // of the budget of loss
	}{
		"10 Gbit/s at 80 ms": {Longer{10e9, 80 * time.Millisecond}, 1448, "cubic", map[string]string{
			"window": "95.4 MiB", "loss": "1 in 33000000 ", "start": "1.04 s until one stream is at full speed: 13 round trips of doubling from 10 segments"}, "1 in 3200000000 for Reno"},
		"10 Gbit/s at 100 ms, jumbo": {Longer{10e9, 100 * time.Millisecond}, 8948, "cubic", map[string]string{
			"window": "119 MiB", "loss": "1 in 3100000 ", "start": "1.1 s until one stream is at full speed: 11 round trips"}, "1 in 130000000 for Reno"},
		"1 Gbit/s at 10 ms, where Reno's bound is the larger one": {Longer{1e9, 10 * time.Millisecond}, 1448, "cubic", map[string]string{
			"window": "1.19 MiB", "loss": "1 in 500000 ", "start": "70 ms until one stream is at full speed: 7 round trips"}, "1 in 500000 for Reno"},
		"100 Mbit/s at 200 ms": {Longer{100e6, 200 * time.Millisecond}, 1448, "cubic", map[string]string{
			"window": "2.38 MiB", "loss": "1 in 97000 ", "start": "1.6 s until one stream is at full speed: 8 round trips"}, "1 in 2000000 for Reno"},
		"the bounds of CUBIC and Reno are none of BBR": {Longer{10e9, 80 * time.Millisecond}, 1448, "bbr", map[string]string{
			"loss": "2 % of segments may be lost for bbr", "start": "1.04 s"}, ""},
	} {
		s := session()
		for i := range s.Runs {
			if tcp := sender(s.Runs[i], model.To); tcp != nil {
				tcp.MSS, tcp.Congestion = fact.Known(c.mss, "test"), fact.Known(c.cc, "test")
			}
		}
		for _, line := range Carries(s, c.l) {
			if line.Direction != model.To {
				continue
			}
			must.Contain(t, line.Number+" "+line.Text, c.says[line.Thing], "%s: %s", name, line.Thing)
			must.True(t, line.Thing != "loss" || strings.Contains(strings.Join(line.Evidence, " "), c.proof), "%s: %v", name, line.Evidence)
			must.True(t, line.Thing != "start" || c.cc != "bbr" || line.State == OK, "BBR paces by itself: %+v", line)
		}
	}
	s := session()
	set(&s.Runs[0], model.To, model.RetransmitRatio, 0.005)
	for cc, want := range map[string]State{"cubic": Poor, "bbr": OK} {
		sender(s.Runs[0], model.To).Congestion = fact.Known(cc, "test")
		for _, line := range Carries(s, Longer{1e9, 50 * time.Millisecond}) {
			must.True(t, line.Thing != "loss" || line.Direction != model.To || line.State == want, "half a percent of loss with %s: %+v", cc, line)
		}
	}
}
