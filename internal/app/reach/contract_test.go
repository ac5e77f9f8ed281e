package reach

import (
	"testing"

	"linerate/internal/app/apptest"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// TestContract: the rate that was given for a path is remembered for it and no other, until
// it is forgotten, and goes before that of the interfaces.
func TestContract(t *testing.T) {
	dir := t.TempDir()
	at := func(text, host string) Contract {
		env := apptest.Env(&apptest.Person{})
		env.Getenv = func(name string) string { return map[string]string{configVariable: dir}[name] }
		var o Options
		if text != "" {
			o.Contract = must.Get(ParseContract(text))(t)
		}
		return New(env, o).remembered(Target{}, Target{Kind: SSH, Text: host})
	}
	must.Equal(t, at("", "nas").To, 0, "before")
	must.Equal(t, at("to=50mbit,from=10mbit", "nas").Source, "--rate", "given")
	c := at("", "nas")
	must.Equal(t, c.To, 50e6, "to")
	must.Equal(t, c.From, 10e6, "from")
	must.Equal(t, at("", "other").To, 0, "of another path")
	must.Equal(t, at("none", "nas").To, 0, "forgotten")
	must.Equal(t, at("", "nas").To, 0, "once forgotten")

	e := Ends{Hosts: make([]model.HostFacts, 2), WireRate: fact.Known(units.BitRate(1e9), "sysfs")}
	e.agreed(c)
	must.Equal(t, e.WireRate.Or(0), 10e6, "the path")
	must.Equal(t, e.Hosts[0].PathRate.Or(0), 50e6, "to the far end")
	for _, text := range []string{"", "fast", "1", "to=1mbit,to=2mbit", "1mbit,2mbit", "both=1mbit"} {
		must.Fail(t, must.Err(ParseContract(text)), text)
	}
}
