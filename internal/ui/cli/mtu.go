package cli

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
)

// The settings that say how large packets may be.
const (
	mtuKnob     model.KnobID = "link.mtu"
	frameKnob   model.KnobID = "link.frame_mtu" // of Windows drivers
	routeKnob   model.KnobID = "route.mtu"
	probingKnob model.KnobID = "tcp.mtu_probing"
)

// largestMTU is the value of link.mtu that stands for the largest one that all
// ends take.
const largestMTU = "max"

// wants returns the value that a host is to get of a knob, "" for none.
func (e *setEnd) wants(id model.KnobID) string {
	for _, w := range e.wanted {
		if w.Knob == id {
			return w.Value
		}
	}
	return ""
}

// mtuNow is the MTU of a host's link before the change, 0 for unknown.
func (e *setEnd) mtuNow() int {
	n, _ := strconv.Atoi(e.values()[mtuKnob])
	return cmp.Or(n, e.facts.MTU.Or(0))
}

// mtuThen is the MTU of a host's link with the change, 0 for unknown.
func (e *setEnd) mtuThen() int {
	if n, err := strconv.Atoi(e.wants(mtuKnob)); err == nil {
		return n
	}
	return e.mtuNow()
}

// side is what the facts of a host say of its link.
func side(name string, f model.HostFacts) mtu.Side {
	s := mtu.Side{Name: name, Now: f.MTU.Or(0)}
	number := func(id model.KnobID) int {
		n, _ := strconv.Atoi(f.Knobs[id].Or(""))
		return n
	}
	s.Now = cmp.Or(number(mtuKnob), s.Now)
	s.Min, s.Max = number("link.mtu_min"), number("link.mtu_max")
	for _, n := range f.NICs {
		if n.Name != f.Interface.Or("") {
			continue
		}
		s.Min, s.Max = cmp.Or(s.Min, n.MTUMin.Or(0)), cmp.Or(s.Max, n.MTUMax.Or(0))
		if slices.ContainsFunc(n.Addresses, func(a string) bool { return strings.Contains(a, ":") }) {
			s.Floor = 1280 // RFC 8200 section 5
		}
	}
	return s
}

// sides are both ends of the change, as far as there are two.
func (s *setting) sides() []mtu.Side {
	if s.pair == nil {
		return []mtu.Side{side(s.ends[0].name, s.ends[0].facts)}
	}
	var all []mtu.Side
	for i, h := range []model.Host{model.Near, model.Far} {
		all = append(all, side(s.nameOf(h), s.pair.hosts[i]))
	}
	return all
}

// nameOf is what an end is called, also one that is not changed.
func (s *setting) nameOf(h model.Host) string {
	if e := s.end(h); e != nil {
		return e.name
	}
	if s.pair.lab != nil {
		return "lab host " + string(h)
	}
	name := s.pair.hosts[0].Name
	if far := s.end(model.Far); name == "" || far != nil && far.name == name {
		return app.ThisMachine
	}
	return name
}

// settleMTU puts numbers in place of link.mtu=max, and adds what a new MTU needs.
func (s *setting) settleMTU() error {
	for _, e := range s.changing() {
		for i, w := range e.wanted {
			if w.Knob != mtuKnob || w.Value != largestMTU {
				continue
			}
			best, err := mtu.Largest(s.sides()...)
			if err != nil {
				return withHint(usagef("link.mtu=max: %w", err), "name a value: linerate set link.mtu=9000")
			}
			e.wanted[i].Value = strconv.Itoa(best.MTU)
			s.app.talk("%s: link.mtu=max is %d: %s", e.name, best.MTU, best.Why)
		}
		// The driver of Windows has to have frames for the packets first (knobs.md W-01).
		frame, err := strconv.Atoi(e.values()[frameKnob])
		if want := e.wants(mtuKnob); err == nil && e.facts.OS == "windows" && want != "" && e.wants(frameKnob) == "" && e.mtuThen() > frame {
			e.wanted = append(e.wanted, model.Assignment{Host: e.host, Knob: frameKnob, Value: want})
			s.app.talk("%s: link.frame_mtu=%s comes with it: the driver needs frames for such packets", e.name, want)
		}
	}
	return s.checkMTU()
}

// checkMTU refuses an MTU that a driver does not take and that no rule of the
// catalogue refuses, since the system keeps the range elsewhere.
func (s *setting) checkMTU() error {
	var errs []error
	for _, e := range s.changing() {
		if e.wants(mtuKnob) == "" || slices.ContainsFunc(e.faults(), func(err error) bool { return errors.Is(err, knob.ErrConstraint) }) {
			continue
		}
		own := side(e.name, e.facts)
		own.Floor = 0 // the kernel's own check says it, and why
		if err := mtu.Check(e.mtuThen(), own); err != nil {
			errs = append(errs, err)
		}
	}
	return s.hintMTU(app.WithKind(app.Usage, errors.Join(errs...)))
}

// hintMTU adds to an error what MTU both ends would take, where one is wanted that
// is too large for one of them.
func (s *setting) hintMTU(err error) error {
	if err == nil || hintOf(err) != "" {
		return err
	}
	best, none := mtu.Largest(s.sides()...)
	tooLarge := slices.ContainsFunc(s.changing(), func(e *setEnd) bool { return e.wants(mtuKnob) != "" && e.mtuThen() > best.MTU })
	if none != nil || !tooLarge {
		return err
	}
	return withHint(err, "link.mtu=%d is the largest that can be had (%s); link.mtu=max sets it", best.MTU, best.Why)
}

// noteMTU says what becomes of two ends with different MTUs, or that the other
// end is not known.
func (s *setting) noteMTU() {
	changes := slices.ContainsFunc(s.ends, func(e *setEnd) bool { return e.wants(mtuKnob) != "" })
	if !changes {
		return
	}
	if s.pair == nil {
		s.app.talk("note: what MTU the other hosts on that link have is not known: each of them has to take %d, and --both HOST changes one of them too", s.ends[0].mtuThen())
		return
	}
	all := s.sides()
	for i, h := range []model.Host{model.Near, model.Far} {
		if e := s.end(h); e != nil {
			all[i].Now = e.mtuThen()
		}
	}
	if text := mtu.Mismatch(all[0], all[1]); text != "" {
		s.app.talk("note: %s; --both changes both", text)
	}
}

// order is the order in which the hosts are changed, see mtu.FarFirst; undo goes
// the other way.
func (s *setting) order() []*setEnd {
	all := s.changing()
	near := s.end(model.Near)
	if near != nil && near.wants(mtuKnob) != "" && !mtu.FarFirst(near.mtuNow(), near.mtuThen()) {
		slices.Reverse(all)
	}
	return all
}

// changesMTU reports whether the change is one of an MTU.
func (s *setting) changesMTU() bool {
	return slices.ContainsFunc(s.ends, func(e *setEnd) bool { return e.wants(mtuKnob) != "" && e.mtuNow() != e.mtuThen() })
}

// peerMTU is the MTU of the other end with the change, 0 for unknown.
func (s *setting) peerMTU(h model.Host) int {
	other, i := model.Far, 1
	if h == model.Far {
		other, i = model.Near, 0
	}
	if e := s.end(other); e != nil {
		return e.mtuThen()
	}
	if s.pair == nil {
		return 0
	}
	return side("", s.pair.hosts[i]).Now
}

// fits is the hint for ends between which packets of a size do not pass.
func fits(passes int) string {
	if passes < mtu.Least {
		return "nothing is to be done at these hosts"
	}
	return fmt.Sprintf("link.mtu=%d fits; or raise the MTU of what is between first (a switch, an access point, a router)", passes)
}
