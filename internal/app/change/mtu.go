package change

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/app"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/fault"
)

// The settings that limit the size of packets.
const (
	mtuKnob     model.KnobID = "link.mtu"
	frameKnob   model.KnobID = "link.frame_mtu" // of Windows drivers
	routeKnob   model.KnobID = "route.mtu"
	probingKnob model.KnobID = "tcp.mtu_probing"
)

// LargestMTU is the value of link.mtu that stands for the largest MTU that all ends accept.
const LargestMTU = "max"

// Valid checks the value of a setting as the user writes it, LargestMTU included, and returns
// it in canonical form. It refuses settings of a flow.
func Valid(k knob.Knob, value string) (string, error) {
	if k.Scope == knob.ScopeFlow {
		_, err := k.On("")
		return "", fmt.Errorf("set %s: %w", k.ID, err)
	}
	if k.ID == mtuKnob && value == LargestMTU {
		return value, nil
	}
	return k.Parse(value)
}

// wants returns the value that a host is to get for a knob, "" for none.
func (e *end) wants(id model.KnobID) string {
	for _, w := range e.wanted {
		if w.Knob == id {
			return w.Value
		}
	}
	return ""
}

// mtuNow returns the MTU of a host's link before the change, 0 if unknown.
func (e *end) mtuNow() int {
	n, _ := strconv.Atoi(e.Value(mtuKnob))
	return cmp.Or(n, e.Facts.MTU.Or(0))
}

// mtuThen returns the MTU of a host's link with the change, 0 if unknown.
func (e *end) mtuThen() int {
	if n, err := strconv.Atoi(e.wants(mtuKnob)); err == nil {
		return n
	}
	return e.mtuNow()
}

// side returns what the facts of a host say about its link.
func side(h *app.Host) mtu.Side {
	s := mtu.Side{Name: h.Name, Now: h.Facts.MTU.Or(0)}
	number := func(id model.KnobID) int {
		n, _ := strconv.Atoi(h.Value(id))
		return n
	}
	s.Now = cmp.Or(number(mtuKnob), s.Now)
	s.Min, s.Max = number("link.mtu_min"), number("link.mtu_max")
	for _, n := range h.Facts.NICs {
		if n.Name != h.Facts.Interface.Or("") {
			continue
		}
		s.Min, s.Max = cmp.Or(s.Min, n.MTUMin.Or(0)), cmp.Or(s.Max, n.MTUMax.Or(0))
		if slices.ContainsFunc(n.Addresses, func(a string) bool { return strings.Contains(a, ":") }) {
			s.Floor = 1280 // RFC 8200 section 5
		}
		s.Max = partsMax(h.Facts.NICs, n.Name, s.Max)
	}
	return s
}

// partsMax returns the largest MTU that an interface and the ports and parents below it
// accept; 0 means that no driver says. The MTU of a bridge, bond or VLAN depends on them.
func partsMax(all []model.NIC, name string, most int) int {
	for _, n := range all {
		if n.Name != name {
			continue
		}
		if own := n.MTUMax.Or(0); own > 0 {
			most = min(cmp.Or(most, own), own)
		}
		for _, part := range n.Below {
			if part != name {
				most = partsMax(all, part, most)
			}
		}
	}
	return most
}

// sides returns the near end and, if it is open, the far end.
func (c *change) sides() []mtu.Side {
	if c.hosts.Far == nil {
		return []mtu.Side{side(c.hosts.Near)}
	}
	return []mtu.Side{side(c.hosts.Near), side(c.hosts.Far)}
}

// settleMTU replaces link.mtu=max by numbers, and adds the settings that a new MTU needs.
func (c *change) settleMTU() error {
	for _, e := range c.changing() {
		for i, w := range e.wanted {
			if w.Knob != mtuKnob || w.Value != LargestMTU {
				continue
			}
			best, err := mtu.Largest(c.sides()...)
			if err != nil {
				return fault.WithHint(fault.Usagef("link.mtu=max: %w", err), "name a value: linerate set link.mtu=9000")
			}
			e.wanted[i].Value = strconv.Itoa(best.MTU)
			c.Observe(app.LargestMTU{Host: e.Name, MTU: best.MTU, Why: best.Why})
		}
		// A Windows driver must allow such frames first (knobs.md W-01).
		frame, err := strconv.Atoi(e.Value(frameKnob))
		if want := e.wants(mtuKnob); err == nil && e.Facts.OS == "windows" && want != "" && e.wants(frameKnob) == "" && e.mtuThen() > frame {
			e.wanted = append(e.wanted, model.Assignment{Host: e.Side, Knob: frameKnob, Value: want})
			c.Observe(app.FrameMTU{Host: e.Name, Value: want})
		}
	}
	return c.checkMTU()
}

// checkMTU refuses an MTU that a driver does not accept and that no rule of the catalogue
// refuses, since the system keeps the range elsewhere.
func (c *change) checkMTU() error {
	var errs []error
	for _, e := range c.changing() {
		if e.wants(mtuKnob) == "" || slices.ContainsFunc(c.faults(e), func(err error) bool { return errors.Is(err, knob.ErrConstraint) }) {
			continue
		}
		own := side(e.Host)
		own.Floor = 0 // the kernel's own check reports it, with the reason
		if err := mtu.Check(e.mtuThen(), own); err != nil {
			errs = append(errs, err)
		}
	}
	return c.hintMTU(fault.WithKind(fault.Usage, errors.Join(errs...)))
}

// hintMTU adds to an error the MTU that both ends would accept, if one is wanted that is too
// large for one of them.
func (c *change) hintMTU(err error) error {
	if err == nil || fault.HintOf(err) != "" {
		return err
	}
	best, none := mtu.Largest(c.sides()...)
	tooLarge := slices.ContainsFunc(c.changing(), func(e *end) bool { return e.wants(mtuKnob) != "" && e.mtuThen() > best.MTU })
	if none != nil || !tooLarge {
		return err
	}
	return fault.WithHint(err, "link.mtu=%d is the largest that can be had (%s); link.mtu=max sets it", best.MTU, best.Why)
}

// noteMTU reports what two ends with different MTUs lead to, or that the other end is not
// known.
func (c *change) noteMTU() {
	changes := slices.ContainsFunc(c.ends, func(e *end) bool { return e.wants(mtuKnob) != "" })
	if !changes {
		return
	}
	if c.hosts.Far == nil {
		c.Observe(app.OtherMTU{MTU: c.ends[0].mtuThen()})
		return
	}
	all := c.sides()
	for i, h := range []model.Host{model.Near, model.Far} {
		if e := c.end(h); e != nil {
			all[i].Now = e.mtuThen()
		}
	}
	if text := mtu.Mismatch(all[0], all[1]); text != "" {
		c.Observe(app.OtherMTU{Text: text})
	}
}

// order returns the hosts in the order in which to change them, see mtu.FarFirst; undo goes
// in reverse.
func (c *change) order() []*end {
	all := c.changing()
	near := c.end(model.Near)
	if near != nil && near.wants(mtuKnob) != "" && !mtu.FarFirst(near.mtuNow(), near.mtuThen()) {
		slices.Reverse(all)
	}
	return all
}

// changesMTU reports whether the change alters an MTU.
func (c *change) changesMTU() bool {
	return slices.ContainsFunc(c.ends, func(e *end) bool { return e.wants(mtuKnob) != "" && e.mtuNow() != e.mtuThen() })
}

// peerMTU returns the MTU of the other end with the change, 0 if unknown.
func (c *change) peerMTU(h model.Host) int {
	if e := c.end(h.Other()); e != nil {
		return e.mtuThen()
	}
	if there := c.host(h.Other()); there != nil && c.hosts.Far != nil {
		return side(there).Now
	}
	return 0
}

// fits returns the hint for ends between which packets of the wanted size do not pass.
func fits(passes int) string {
	if passes < mtu.Least {
		return "nothing is to be done at these hosts"
	}
	return fmt.Sprintf("link.mtu=%d fits; or raise the MTU of what is between first (a switch, an access point, a router)", passes)
}
