package judge

import (
	"slices"
	"strings"
	"testing"

	"linerate/bench/internal/machines"
	"linerate/internal/lab/faults"
	"linerate/internal/must"
)

// TestMachineCases: all kinds of machines are judged under one name, and each by its own;
// a folder may hold several kinds; each card that is asked for is there.
func TestMachineCases(t *testing.T) {
	t.Parallel()
	all := must.Get(Options{Kind: Machines, First: 3, Last: 4}.cases())(t)
	must.Need(t, len(all) == 2*len(faults.MachineKinds()), "%d cases", len(all))
	for _, c := range all {
		if !slices.ContainsFunc(cards(), func(one machines.Card) bool { return one.Model == c.Machine.Card }) {
			t.Errorf("%s: the machines have no %s", c.Kind, c.Machine.Card)
		}
		o := Options{Kind: c.Kind, First: c.Seed, Last: c.Seed}
		one, err := o.cases()
		must.True(t, err == nil && len(one) == 1 && one[0].Kind == c.Kind && o.Claim() == Machines, "%s: %+v, %v", c.Kind, one, err)
	}
	if o := (Options{Kind: "clean"}); o.Claim() != "judge" || o.Missing() != "" {
		t.Errorf("a lab: %q, %q", o.Claim(), o.Missing())
	}
	must.Fail(t, must.Err((Options{Kind: "machine-none"}).cases()), "a kind that there is not")
}

// TestMachineCommand: what is measured, and where the address of far stands.
func TestMachineCommand(t *testing.T) {
	t.Parallel()
	for c, want := range map[*faults.Case]string{
		{Check: true}:                        "check  --quick",
		{Args: []string{"--to", "-t", "4s"}}: "test  --to -t 4s",
	} {
		must.Equal(t, strings.Join(machineCommand(*c), " "), want)
	}
}

// TestMachinesMissing: without images the kinds are skipped, and it is said what is not
// there.
func TestMachinesMissing(t *testing.T) {
	t.Setenv("LINERATE_VM", t.TempDir())
	must.True(t, (Options{Kind: Machines}).Missing() != "", "nothing is missing")
	skipped := 0
	for _, k := range Kinds() {
		if strings.HasPrefix(k.Name, "machine-") && k.Skip != "" {
			skipped++
		}
	}
	must.Equal(t, skipped, len(faults.MachineKinds()), "kinds are skipped")
}
