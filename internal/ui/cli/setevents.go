package cli

import (
	"fmt"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// observeChange prints the events of changing and keeping settings.
func (a *console) observeChange(e app.Event) {
	switch e := e.(type) {
	case app.Changed:
		a.showChanged(e)
	case app.Watching:
		a.tellCanaries(e)
	case app.Held:
		a.talk("held for %s, then it goes back: to keep it takes a terminal on which to confirm", units.FormatDuration(e.Within))
	case app.LargestMTU:
		a.talk("%s: link.mtu=max is %d: %s", e.Host, e.MTU, e.Why)
	case app.FrameMTU:
		a.talk("%s: link.frame_mtu=%s comes with it: the driver needs frames for such packets", e.Host, e.Value)
	case app.Around:
		a.talk("%s: work-around for %s: %s=%s", e.Host, e.To, e.Setting.Knob, a.formatKnob(e.Setting.Knob, e.Setting.Value))
	case app.Same:
		a.talk("%s: %d of %d settings of the profile are there already", e.Host, e.Settings, e.Of)
	case app.PartlyKept:
		a.tellPairNote(e)
	default:
		a.note(e)
	}
}

// note prints what to know before a change.
func (a *console) note(e app.Event) {
	switch e := e.(type) {
	case app.Advised:
		a.talk("note: %s: %s", e.Host, e.Advice)
	case app.Lasting:
		a.tellLasting(e)
	case app.SetAgain:
		a.talk("note: %s: %s", e.Host, e.Claim)
	case app.OneSided:
		a.talk("note: %s is useful only when both ends agree: --both HOST changes both", e.Knob)
	case app.Doubted:
		a.talk("note: %s: %s", e.Host, e.Doubt)
	case app.Untested:
		a.talk("note: no test transfer between the ends: %s", e.Reason)
	case app.OtherMTU:
		if e.Text == "" {
			a.talk("note: what MTU the other hosts on that link have is not known: each of them has to take %d, and --both HOST changes one of them too", e.MTU)
			return
		}
		a.talk("note: %s; --both changes both", e.Text)
	default:
		a.observeKeep(e)
	}
}

// showChanged shows the changes while they are in force.
func (a *console) showChanged(e app.Changed) {
	if a.json {
		return
	}
	for _, c := range e.Changes {
		fmt.Fprintf(a.Out, "%s: %s (%s): %s -> %s\n", e.Host, c.Knob, c.Native, a.readable(e.System, c.Knob, c.Old), a.readable(e.System, c.Knob, c.New))
	}
}

// tellCanaries lists the targets that are probed after the change.
func (a *console) tellCanaries(e app.Watching) {
	var ok, silent []string
	for _, r := range e.Answers {
		if !r.OK {
			silent = append(silent, r.String())
			continue
		}
		ok = append(ok, r.Probed())
	}
	if len(ok) > 0 {
		a.talk("%s watches %s", e.Host, strings.Join(ok, ", "))
	}
	for _, line := range silent {
		a.talk("not watched from %s: %s", e.Host, line)
	}
	if len(ok) == 0 && e.Risky {
		a.talk("note: no host answers %s: only the deadline protects it; name a host with --canary", e.Host)
	}
}

// tellLasting warns about what a restart would not undo.
func (a *console) tellLasting(e app.Lasting) {
	when := "during a run"
	if e.Within > 0 {
		when = "in the next " + units.FormatDuration(e.Within)
	}
	verb, stays, them := "survives", "it stays", "it"
	if len(e.Knobs) > 1 {
		verb, stays, them = "survive", "they stay", "them"
	}
	a.talk("note: %s: %s %s a restart; if this machine goes down %s %s: --at-boot puts %s back at the next start",
		e.Host, plain.Join(e.Knobs, ", "), verb, when, stays, them)
}

// tellPairNote says what is left of a change of two hosts that was interrupted while it was
// being kept.
func (a *console) tellPairNote(e app.PartlyKept) {
	begin := fmt.Sprintf("a change of %s and this machine was cut short on %s while it was being kept", e.Named, e.Time.Local().Format(time.DateTime))
	undo := "linerate undo " + plain.ShellWord(e.Named)
	switch {
	case len(e.Holds) > 0:
		var all []string
		for _, s := range e.Holds {
			all = append(all, fmt.Sprintf("%s=%s", s.Knob, a.formatKnob(s.Knob, s.Value)))
		}
		a.talk("note: %s: %s still holds %s, this machine does not: %s takes it back there", begin, e.Far, strings.Join(all, ", "), undo)
	case e.Gone:
		a.talk("note: %s: it is not in place here, %s may hold it: %s", begin, e.Named, undo)
	default:
		a.talk("note: %s: %s may hold it: %s", begin, e.Named, undo)
	}
}
