package diagnose

import (
	"fmt"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// bus is rule B18: the card could be faster on another bus or in another slot.
func bus(f features) (*finding, bool) {
	for _, e := range []End{f.Sender, f.Receiver} {
		nic, ok := e.NIC()
		if !ok {
			continue
		}
		narrow := nic.Bus.Width.IsKnown() && nic.Bus.Width.Or(0) < nic.Bus.WidthMax.Or(0) || nic.Bus.Clock.IsKnown() && nic.Bus.Clock.Or(0) < nic.Bus.ClockMax.Or(0)
		allows, known := nic.Bus.Allows.Get()
		underruns := e.Counters.Moved("nic_tx_fifo_errors").Or(0)
		near := known && float64(f.Goodput) >= nearBus*float64(allows)
		if !near && (underruns < fewSigns || f.full.Or(1) >= nearlyFull) {
			continue
		}
		b := f.found(e.Host, "bus of the card")
		if near {
			b.because(nic.Bus.Allows.Source(), "the bus of %s carries %s at most", nic.Name, allows).allows(max(allows, f.Goodput), nic.Bus.Allows.Source())
		}
		if underruns >= fewSigns {
			b.because("nic_tx_fifo_errors", "the bus did not deliver in time %s", times(underruns))
		}
		if narrow {
			b.also("the card could use a wider or faster slot than it has")
		}
		return b.noKnob("move the card to a slot with more lanes of PCIe, or off a bus that it shares"), true
	}
	return nil, false
}

// usb2 is the rate of the fastest USB whose two directions take turns on one pair of wires (USB
// 2.0 specification section 7.1); version 3 has a pair for each.
const usb2 = 480e6

// sharedBus is a card's bus on which both directions take turns.
type sharedBus struct {
	host   model.Host
	name   string // "PCI bus of 32 bit at 33 MHz"
	nic    string
	allows fact.Of[units.BitRate]
}

// sharedBus returns the bus of e's card if both directions take turns on it: PCI before PCI
// Express, or USB before version 3.
func (e End) sharedBus() (sharedBus, bool) {
	nic, _ := e.NIC()
	b := nic.Bus
	out := sharedBus{e.Host, "PCI bus", nic.Name, b.Allows}
	switch kind := b.Kind.Or(""); {
	case kind == "pci" && b.Width.IsKnown() && b.Clock.IsKnown():
		out.name += fmt.Sprintf(" of %d bit at %g MHz", b.Width.Or(0), b.Clock.Or(0))
	case kind == "usb" && b.Allows.Or(2*usb2) <= usb2:
		out.name = "USB 2 bus"
	case kind != "pci":
		return sharedBus{}, false
	}
	return out, true
}

// part returns e's role in f's direction.
func (f features) part(e End) string {
	if e.Host == f.Sender.Host {
		return "the sender"
	}
	return "the receiver"
}

// sharedMedium is rule B03 or B18 for two directions that take as long together as one after
// the other. The rates alone cannot distinguish a medium on which they take turns from a limit
// on their sum; the hosts' facts show whether it is a card's bus.
func sharedMedium(f features) (*finding, bool) {
	o, measured := f.atOnce()
	if o.Sharing() != limits.OneLimit || !f.pathBound() || f.Beside.Crowded ||
		!measured && (o.Time() < leastTurns || o.Time() > mostTurns || f.crowded(f.Sender) || f.crowded(f.Receiver)) {
		return nil, false
	}
	if _, ok := radio(f); ok {
		return nil, false // it names the medium
	}
	b := f.found("", "medium or limit shared by both directions")
	switch alone := max(o.ToAlone, o.FromAlone); {
	case !measured:
		b.because("both directions at once", "%s and %s back at once are together what the link carries one way: %.0f %% and %.0f %% of that", o.To, o.From, 100*o.To/o.ToAlone, 100*o.From/o.FromAlone).
			also("unless each carries no more alone").misses(false, "what each direction carries alone", ByCheck)
	case float64(o.To+o.From) <= sharedSum*float64(alone) && float64(o.To+o.From) >= refutes*float64(alone):
		b.because("both directions at once", "%s and %s back at once are %s the %s of one direction alone", o.To, o.From, o.Together(), alone)
	default:
		b.because("both directions at once", "%s and %s back at once take as much time as one after the other: %.0f %% of the %s and %.0f %% of the %s that each reaches alone", o.To, o.From, 100*o.To/o.ToAlone, o.ToAlone, 100*o.From/o.FromAlone, o.FromAlone)
	}
	b.noKnob("one direction at a time, or a replacement for what both share, which the ends alone cannot tell apart: half duplex, radio, the bus of a card (linerate facts shows it), or one shaper for the sum")
	var least sharedBus
	for _, e := range []End{f.Sender, f.Receiver} {
		bus, ok := e.sharedBus()
		if !ok {
			continue
		}
		text := fmt.Sprintf("%s of %s is on a %s", bus.nic, f.part(e), bus.name)
		if v, ok := bus.allows.Get(); ok {
			text += fmt.Sprintf(", which carries %s at most, of both directions and all of its cards together", v)
		}
		b.because("facts of the host", "%s", text).also("%s", text)
		if least.host == "" || bus.allows.Or(0) < least.allows.Or(0) {
			least = bus
		}
	}
	if least.host != "" {
		b.Host, b.Limit = least.host, "bus of the card"
		b.noKnob("a card on PCI Express, where each direction has lanes of its own, and no second busy card on the same bus")
	}
	if f.full.Or(0) >= nearlyFull {
		return b.kind(model.FindingBeside), true
	}
	b.Rule = "B18"
	return b.explains(f.explainedBy1()), true
}
