package faults

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestMachineKinds: each kind is the same case each time, plants something in a direction
// or is clean, and is no kind of the labs, so that no seed of those stands for another
// case than before.
func TestMachineKinds(t *testing.T) {
	t.Parallel()
	for _, k := range MachineKinds() {
		_, lab := Of(k.Name, 1)
		must.True(t, !lab && k.Says != "" && strings.HasPrefix(k.Name, "machine-"), "%+v", k)
		directions := map[model.Direction]bool{}
		for seed := range uint64(20) {
			c, ok := OfMachines(k.Name, seed)
			again, _ := OfMachines(k.Name, seed)
			if !ok || !reflect.DeepEqual(c, again) || c.Machine == nil || c.Machine.Card == "" || len(c.Labels) == 0 {
				t.Fatalf("%s, seed %d: %+v and %+v", k.Name, seed, c, again)
			}
			planted := false
			for _, l := range c.Labels {
				planted = planted || l.Planted
				directions[l.Direction] = true
				if len(l.First) == 0 || l.Ceiling <= 0 || l.Ceiling >= c.Rate {
					t.Errorf("%s, seed %d: %+v", k.Name, seed, l)
				}
				if l.Planted && slices.Contains(l.First, Answer{"unknown", Any}) {
					t.Errorf("%s: a limit that is not found is right: %+v", k.Name, l)
				}
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
