package health

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// machine is a desk with gigabit Ethernet and a router that answers.
func machine() Machine {
	return Machine{
		Facts: model.HostFacts{Name: "desk", Interface: fact.Known("eth0", "test"),
			Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known("6291456", "test"), "tcp.window_scaling": fact.Known("1", "test")},
			NICs: []model.NIC{{Name: "eth0", Up: fact.Known(true, "test"), Media: model.Media{
				Speed: fact.Known(units.BitRate(1e9), "test"), Duplex: fact.Known("full", "test"), Supported: fact.Known([]string{"10baseT/Half", "100baseT/Full", "1000baseT/Full"}, "test")}}}},
		Gateway: "10.0.0.254", RTT: fact.Known(300*time.Microsecond, "echo reply"), Way: model.Way{Asked: 1500, Passes: fact.Known(1500, "test")},
		Boot: fact.Known(Errors{Packets: 1e9, Broken: 3, Dropped: 70}, "test"), Lately: fact.Known(Errors{Packets: 300}, "test"), Over: 3 * time.Second,
	}
}

// TestMachine has one thing amiss at a machine at a time.
func TestMachine(t *testing.T) {
	media := func(m *Machine) *model.Media { return &m.Facts.NICs[0].Media }
	for name, c := range map[string]struct {
		change func(m *Machine)
		thing  string
		want   State
		says   string
	}{
		"nothing":            {func(*Machine) {}, "", OK, ""},
		"no gateway":         {func(m *Machine) { m.Gateway = "" }, "gateway", Unseen, "no default route"},
		"a silent gateway":   {func(m *Machine) { m.RTT = fact.Unknown[time.Duration]("no answer in time") }, "gateway", Unseen, "says nothing of others"},
		"a slow gateway":     {func(m *Machine) { m.RTT = fact.Known(40*time.Millisecond, "echo reply") }, "gateway", Poor, "as over radio"},
		"a black hole":       {func(m *Machine) { m.Way = model.Way{Asked: 9000, Passes: fact.Known(1500, "test"), Exact: true} }, "mtu", Bad, "black hole"},
		"a told MTU":         {func(m *Machine) { m.Way = model.Way{Asked: 1500, Passes: fact.Known(1400, "test"), Told: true} }, "mtu", Poor, "says so"},
		"no probes answered": {func(m *Machine) { m.Way.Passes = fact.Unknown[int]("not asked") }, "mtu", Unseen, "not asked"},
		"a slow mode":        {func(m *Machine) { media(m).Speed = fact.Known(units.BitRate(100e6), "test") }, "link", Poor, "the card can do 1 Gbit/s"},
		"half duplex":        {func(m *Machine) { media(m).Duplex = fact.Known("half", "test") }, "link", Poor, "share the wire"},
		"a cut cable":        {func(m *Machine) { m.Facts.NICs[0].Up = fact.Known(false, "test") }, "link", Bad, "carries nothing"},
		"a virtual link": {func(m *Machine) {
			*media(m) = model.Media{Speed: fact.Unknown[units.BitRate]("virtual"), Duplex: fact.Unknown[string]("virtual")}
		}, "link", Unseen, "not visible: virtual"},
		"no interface":    {func(m *Machine) { m.Facts.Interface = fact.Unknown[string]("no route") }, "link", Unseen, "no interface"},
		"broken frames":   {func(m *Machine) { m.Lately = fact.Known(Errors{Packets: 300, Broken: 2}, "test") }, "errors", Bad, ""},
		"drops":           {func(m *Machine) { m.Lately = fact.Known(Errors{Packets: 300, Dropped: 2}, "test") }, "errors", Poor, ""},
		"broken long ago": {func(m *Machine) { m.Boot = fact.Known(Errors{Packets: 1e6, Broken: 30}, "test") }, "errors", Poor, "30 broken"},
		"no counters":     {func(m *Machine) { m.Boot = fact.Unknown[Errors]("not on plan9") }, "errors", Unseen, "plan9"},
		"no scaling":      {func(m *Machine) { m.Facts.Knobs["tcp.window_scaling"] = fact.Known("0", "test") }, "buffers", Poor, "window scaling is off"},
		"no settings":     {func(m *Machine) { m.Facts.Knobs = nil }, "buffers", Unseen, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine()
			c.change(&m)
			for _, l := range m.Lines() {
				switch {
				case l.Thing == c.thing && (l.State != c.want || !strings.Contains(l.Text, c.says)):
					t.Errorf("%+v, want %s, %q", l, c.want, c.says)
				case l.Thing != c.thing && l.State != OK && l.State != Unseen, c.thing == "" && l.State != OK:
					t.Errorf("%+v", l)
				}
			}
		})
	}
	must.Equal(t, fastest([]string{"10baseT/Half", "2500baseT/Full", "400Gbase/x", "FIBRE", "autoselect"}), 2.5e9, "the fastest mode")
}
