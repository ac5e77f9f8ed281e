package faults

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/lab"
	"linerate/internal/must"
)

// seedsLooked bounds the seeds that tests draw: seeds from 1000 are never inspected.
const seedsLooked = 1000

// TestDrawIsTheSame: a seed always gives the same case, and other seeds give others.
func TestDrawIsTheSame(t *testing.T) {
	t.Parallel()
	specs := map[string]bool{}
	for seed := range uint64(50) {
		a, b := Draw(seed), Draw(seed)
		must.Need(t, reflect.DeepEqual(a, b), "seed %d: %+v and %+v", seed, a, b)
		specs[a.Spec] = true
	}
	must.True(t, len(specs) == 50, "50 seeds stand for %d labs", len(specs))
}

// TestKinds: the catalogue has its forty kinds that can be planted, no name twice, and every
// one of them can be drawn from every seed.
func TestKinds(t *testing.T) {
	t.Parallel()
	names, live := map[string]bool{}, 0
	for _, k := range Catalogue() {
		must.True(t, !names[k.Name] && k.Says != "" && !strings.ContainsAny(k.Name, " +"), "kind %+v", k)
		names[k.Name] = true
		if k.Skip != "" {
			_, ok := Of(k.Name, 0)
			must.True(t, !ok && k.plant == nil, "%s is skipped and can be planted", k.Name)
			continue
		}
		must.True(t, !k.later || k.lone && !k.Harmless, "%s is in pairs, or harmless", k.Name)
		live++
		for seed := range uint64(20) {
			c, ok := Of(k.Name, seed)
			if !ok {
				t.Errorf("%s cannot be drawn from seed %d", k.Name, seed)
				continue
			}
			holds(t, c)
		}
	}
	must.True(t, live >= 40, "%d kinds can be planted", live)
}

// TestDraws checks the shares of the kinds, that all of them occur, and that each case agrees
// with the formulas.
func TestDraws(t *testing.T) {
	t.Parallel()
	clean, pairs := 0, 0
	seen := map[string]bool{}
	for seed := range uint64(seedsLooked) {
		c := Draw(seed)
		holds(t, c)
		parts := strings.Split(c.Kind, " + ")
		for _, p := range parts {
			seen[p] = true
		}
		if c.Clean {
			clean++
		}
		if len(parts) == 2 {
			pairs++
		}
	}
	must.True(t, clean >= 245 && clean <= 325, "%d of %d paths are clean, want 28.5 %%", clean, seedsLooked)
	must.True(t, pairs >= 110 && pairs <= 190, "%d of %d cases are pairs, want 15 %%", pairs, seedsLooked)
	for _, k := range Catalogue() {
		must.True(t, k.Skip != "" || seen[k.Name], "no seed stands for %s", k.Name)
	}
}

// TestMended: with selective acknowledgements off, their absence is a right answer for each
// direction, at its own sender, and for no other case without planted losses.
func TestMended(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sack-off", "sack-off-loss", "reordering-sack-off", "send-buffer", "clean"} {
		c, ok := Of(name, 3)
		must.Need(t, ok, "%v", name)
		for _, l := range c.Labels {
			got, want := slices.Contains(l.First, Answer{"B10", l.Direction.Sender()}), strings.Contains(name, "sack-off")
			must.True(t, got == want, "%s, %s: %v", name, l.Direction, l.First)
			must.True(t, !slices.Contains(l.First, Answer{"B10", l.Direction.Receiver()}), "%s, %s: the receiver is right: %v", name, l.Direction, l.First)
		}
	}
}

// holds checks what every case must have.
func holds(t *testing.T, c Case) {
	t.Helper()
	must.OK(t, must.Err(lab.ParseSpec(c.Spec)), "seed %d, %s: %s", c.Seed, c.Kind, c.Spec)
	must.True(t, !(c.Rate < LeastRate) && !(c.Rate > MostRate) && c.Trip >= LeastTrip && c.Trip <= MostTrip, "seed %d, %s: %s at %s", c.Seed, c.Kind, c.Rate, c.Trip)
	planted := false
	for _, l := range c.Labels {
		planted = planted || l.Planted
		must.True(t, len(l.First) != 0 && l.Ceiling > 0, "seed %d, %s: label %+v", c.Seed, c.Kind, l)
		must.True(t, !(l.Bound > 0) || !(float64(l.Bound) > bites*float64(l.Ceiling)),
			"seed %d, %s: %s is allowed of %s: it does not bite", c.Seed, c.Kind, l.Bound, l.Ceiling)
		must.True(t, l.Planted || l.First[0].Rule == "ceiling", "seed %d, %s: nothing is planted and %v is right", c.Seed, c.Kind, l.First)
	}
	must.True(t, planted != c.Clean, "seed %d, %s: clean %v, planted %v", c.Seed, c.Kind, c.Clean, planted)
}

// TestMachineKinds: each kind always gives the same case, plants something in a direction or is
// clean, and is no kind of the labs, so that their seeds keep their cases.
func TestMachineKinds(t *testing.T) {
	t.Parallel()
	for _, k := range MachineKinds() {
		_, lab := Of(k.Name, 1)
		must.True(t, !lab && k.Says != "" && strings.HasPrefix(k.Name, "machine-"), "%+v", k)
		directions := map[model.Direction]bool{}
		for seed := range uint64(20) {
			c, ok := OfMachines(k.Name, seed)
			again, _ := OfMachines(k.Name, seed)
			must.Need(t, ok && reflect.DeepEqual(c, again) && c.Machine != nil && c.Machine.Card != "" && len(c.Labels) != 0,
				"%s, seed %d: %+v and %+v", k.Name, seed, c, again)
			planted := false
			for _, l := range c.Labels {
				planted = planted || l.Planted
				directions[l.Direction] = true
				must.True(t, len(l.First) != 0 && l.Ceiling > 0 && l.Ceiling < c.Rate, "%s, seed %d: %+v", k.Name, seed, l)
				must.True(t, !l.Planted || !slices.Contains(l.First, Answer{"unknown", Any}), "%s: a limit that is not found is right: %+v", k.Name, l)
			}
			must.True(t, planted != c.Clean, "%s, seed %d: clean %v, planted %v", k.Name, seed, c.Clean, planted)
			script := strings.Join(c.Machine.Before[:], "")
			must.True(t, script == "" || c.Machine.Back != "", "%s, seed %d: nothing takes this back: %s", k.Name, seed, script)
		}
		must.Equal(t, len(directions), 2, "%s looks at %v only", k.Name, directions)
	}
	_, ok := OfMachines("clean", 1)
	must.True(t, !ok, "a kind of the labs is one of machines")
}

// TestRouterKinds: each kind always gives the same case, in both directions if possible, with a
// full link that is slower than the others and lies between the nodes whose answers show it.
func TestRouterKinds(t *testing.T) {
	t.Parallel()
	for n, k := range RouterKinds() {
		directions, routers := map[model.Direction]bool{}, map[int]bool{}
		for seed := range uint64(40) {
			c, ok := OfRouters(k.Name, seed)
			again, _ := OfRouters(k.Name, seed)
			must.Need(t, ok && reflect.DeepEqual(c, again), "%s, seed %d: %+v and %+v", k.Name, seed, c, again)
			spec := must.Get(lab.ParseSpec(c.Spec))(t)
			f := *c.Located
			directions[f.Direction], routers[f.Routers] = true, true
			must.Equal(t, len(spec.Hops), f.Routers, c.Spec)
			must.True(t, f.None == strings.HasPrefix(k.Name, "no-link") && f.Before >= 0 && f.Before <= f.At && f.At < f.Behind && f.Behind <= f.Routers+1, "%+v", f)
			for i := range f.Routers + 1 {
				rate := spec.To.Rate
				switch from := f.Direction == model.From; {
				case from && i > 0:
					rate = spec.Hops[f.Routers-i].From.Rate
				case from:
					rate = spec.From.Rate
				case i > 0:
					rate = spec.Hops[i-1].To.Rate
				}
				must.True(t, f.None || (rate == c.Rate) == (i == f.At), "%s, seed %d: link %d has %v: %s", k.Name, seed, i, rate, c.Spec)
			}
		}
		must.True(t, len(directions) == 2 || k.Name == "link-bundle", "%s looks at %v only", k.Name, directions)
		must.True(t, len(routers) >= mostRouters-1, "%s has paths of %v", k.Name, routers)
		c, _ := OfRouters("", uint64(n))
		must.Equal(t, c.Kind, k.Name)
	}
	_, ok := OfRouters("clean", 1)
	must.True(t, !ok, "a kind without routers is one with them")
}
