package mtu

import (
	"testing"

	"linerate/internal/must"
)

func TestWay(t *testing.T) {
	ask := Way{From: "a", To: "b", Asked: 9000, Passes: 1500, Exact: true}
	with := func(f func(*Way)) Way { w := ask; f(&w); return w }
	for name, c := range map[string]struct {
		way  Way
		want string
	}{
		"black hole": {ask, "the path from a to b passes packets of 1500 bytes, not 9000: something between them has a smaller MTU and drops larger packets silently (a black hole)"},
		"router": {with(func(w *Way) { w.Told, w.Router, w.MTU = true, "10.0.0.1", 1500 }),
			"the path from a to b passes packets of 1500 bytes, not 9000, and says so (router 10.0.0.1: MTU 1500): TCP copes, but gains nothing by the larger MTU there, and larger datagrams are refused"},
		"old router": {with(func(w *Way) { w.Told = true }),
			"the path from a to b passes packets of 1500 bytes, not 9000, and says so (a router): TCP copes, but gains nothing by the larger MTU there, and larger datagrams are refused"},
		"the other end": {with(func(w *Way) { w.ToMTU = 1500 }), "the path from a to b passes packets of 1500 bytes, not 9000: b has an MTU of 1500 and drops larger packets silently"},
		"end is large":  {with(func(w *Way) { w.ToMTU = 9000 }), ask.String()},
		"roughly":       {with(func(w *Way) { w.Exact = false }), "the path from a to b passes packets of at least 1500 bytes, not 9000: something between them has a smaller MTU and drops larger packets silently (a black hole)"},
		"whole":         {with(func(w *Way) { w.Passes = 9000 }), "the path from a to b passes packets of 9000 bytes"},
		"dead":          {with(func(w *Way) { w.Passes = 0 }), "b does not answer a any more, not even small packets"},
	} {
		must.Equal(t, c.way.String(), c.want, "%s", name)
	}
}
