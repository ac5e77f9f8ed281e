package report

import (
	"fmt"
	"strings"

	"linerate/internal/core/health"
	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/core/plain"
)

// mends are the commands that make what a check found of the size of packets go away:
// both hosts send packets that pass each way. A lab is looked at again with that MTU.
// bad are those where packets are lost silently, which come before all else.
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

// fitting is the MTU with which nothing would be amiss with the size of packets, 0 where
// nothing is, or where no size is known; and how the worse direction stands.
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

// remembered reports whether all sizes pass that the hosts ask for: then the MTU is not
// what is amiss.
func (b *builder) remembered() bool {
	for _, w := range b.s.Check.Ways {
		if n := health.Passes(b.s, w.Direction); n > 0 && n < w.Asked {
			return false
		}
	}
	return true
}
