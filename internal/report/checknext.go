package report

import (
	"fmt"
	"strings"

	"linerate/internal/core/health"
	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/core/plain"
)

// mends returns the commands that fix a packet size problem: both hosts then send packets that
// pass in each direction. A lab is checked again with that MTU. bad selects the fixes for
// packets that are lost silently, which come before everything else.
func (b *builder) mends(bad bool) []Step {
	if b.s.Kind != model.KindCheck || b.s.Check == nil {
		return nil
	}
	size, worst := b.fitting()
	if size == 0 || bad != (worst == health.Bad) {
		return nil
	}
	if spec, isLab := strings.CutPrefix(b.s.Far, "lab:"); isLab {
		if strings.Contains(","+spec, ",mtu=") {
			return nil
		}
		words := []string{"linerate check", plain.ShellWord(fmt.Sprintf("lab:%s,mtu=%d", spec, size))}
		if b.s.Check.Quick {
			words = append(words, "--quick")
		}
		return []Step{{"try it with packets that fit", strings.Join(append(words, b.stored()...), " ")}}
	}
	change := model.Setting{Assignments: []model.Assignment{{Host: model.Near, Knob: "link.mtu", Value: fmt.Sprint(size)}, {Host: model.Far, Knob: "link.mtu", Value: fmt.Sprint(size)}}}
	if b.s.Near != model.ThisMachine {
		return nil // set changes this machine and a far one
	}
	words := []string{fmt.Sprintf("linerate set link.mtu=%d", size)}
	if b.mayChange(change) {
		words = append(append(words, "--both", b.hostWord(b.s.Far)), b.reached(change)...)
	}
	return []Step{{"send packets that fit", strings.Join(words, " ")}}
}

// fitting returns the MTU that avoids the packet size problem, 0 if there is none or no size is
// known, and the state of the worse direction.
func (b *builder) fitting() (size int, worst health.State) {
	size, worst = mtu.Most, health.OK
	for _, l := range health.Judge(b.s) {
		if l.Thing == "mtu" && (l.State == health.Bad || l.State == health.Poor && worst == health.OK) {
			worst = l.State
		}
	}
	for _, w := range b.s.Check.Ways {
		n := health.Passes(b.s, w.Direction)
		if n >= mtu.Least {
			size = min(size, n)
		}
	}
	if worst == health.OK || size == mtu.Most || b.remembered() {
		return 0, worst
	}
	return size, worst
}

// remembered reports whether all sizes that the hosts request pass: then the MTU is not the
// problem.
func (b *builder) remembered() bool {
	for _, w := range b.s.Check.Ways {
		if n := health.Passes(b.s, w.Direction); n > 0 && n < w.Asked {
			return false
		}
	}
	return true
}
