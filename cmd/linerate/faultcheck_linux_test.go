package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	"linerate/internal/must"
)

// exitCodes are linerate's exit codes, and that of a process ended by a signal.
var exitCodes = []int{-1, 0, 1, 2, 3, 4, 5, 6, 7, 130}

// check waits for the end of all processes of the case and requires that nothing is lost: see
// TestFaults.
func (r *faultRun) check() {
	r.t.Helper()
	got := r.p.wait(r.t, patience)
	if r.tty != nil && !r.dead && !r.deaf { // the last output may come after the end
		must.Within(r.t, 20*time.Second, "the document on the terminal", func() bool { return strings.Contains(r.tty.shown.String(), "\n}") })
		got.out = r.tty.shown.String()
	}
	confirmed := false
	if !r.dead && !r.deaf {
		confirmed = r.truthful(r.c.op, got)
	}
	if r.extra != nil {
		e := r.extra.wait(r.t, patience)
		o := operation{name: "second", document: "linerate/" + r.extraCommand() + "/v1", hosts: []string{r.c.host}}
		r.truthful(o, e)
	}
	r.gone("the operation")
	r.afterwards(confirmed)
	r.before = r.base
	if r.shut != nil {
		r.shut()
	}
	r.undoAll(got)
	r.nothingLeft()
	if r.t.Failed() {
		r.t.Logf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
}

// extraCommand returns the command of the other program.
func (r *faultRun) extraCommand() string {
	if slices.Contains(r.extra.cmd.Args, "set") {
		return "set"
	}
	return "undo"
}

// gone waits until no process is left.
func (r *faultRun) gone(what string) {
	r.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		left := r.left()
		if len(left) == 0 {
			return
		}
		select {
		case <-deadline:
			var lines []string
			for _, pid := range left {
				b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
				lines = append(lines, strings.ReplaceAll(string(b), "\x00", " "))
			}
			r.t.Fatalf("left after %s: %q", what, lines)
		case <-tick.C:
		}
	}
}

// truthful requires that the report of an operation that has just ended claims nothing untrue,
// and reports whether it says confirmed. "Not undone" may become untrue a moment later;
// "undone" must be true.
func (r *faultRun) truthful(o operation, got result) (confirmed bool) {
	r.t.Helper()
	now := r.settings()
	ours := r.written
	if o.name == "second" {
		ours = func(id model.KnobID, text string) bool {
			return id == rmemKnob && strings.HasSuffix(text, "\t1048576") || id == stampKnob && text == "0"
		}
	}
	must.True(r.t, slices.Contains(exitCodes, got.code), "%s: exit code %d", o.name, got.code)
	holds := func() (all []string) {
		for _, host := range o.hosts {
			for id, text := range now[host] {
				if ours(id, text) && !ours(id, r.before[host][id]) {
					all = append(all, host+" holds "+string(id)+" "+text)
				}
			}
		}
		return all
	}()
	c := r.claimed(o, got)
	says := func(what string) {
		r.t.Helper()
		must.True(r.t, len(holds) == 0, "%s: the report says %s, but %s\nexit code %d\n%s%s", o.name, what, strings.Join(holds, ", "), got.code, got.out, got.err)
	}
	if strings.Contains(got.out+got.err, "all settings are back") {
		says("that all settings are back")
	}
	if c == nil {
		must.True(r.t, got.code != 0, "%s: exit code 0 without a report\n%s%s", o.name, got.out, got.err)
		return false
	}
	open := 0
	for _, ch := range c.Changes {
		host := ch.Host
		if len(o.hosts) == 1 {
			host = o.hosts[0]
		}
		switch ch.State {
		case model.ChangeUndone, model.ChangeForeign:
			text := now[host][ch.Knob]
			must.True(r.t, !ours(ch.Knob, text) || ours(ch.Knob, r.before[host][ch.Knob]), "%s: %s on %s is %s in the report and holds %q\nexit code %d\n%s%s", o.name, ch.Knob, host, ch.State, text, got.code, got.out, got.err)
		default:
			open++
		}
	}
	confirmed = c.Outcome == "confirmed"
	switch {
	case c.Outcome == "undone", c.Outcome == "nothing to do":
		says(c.Outcome)
	case confirmed && got.code != 0, c.Outcome == "not undone" && got.code != 7:
		r.t.Errorf("%s: exit code %d with outcome %q", o.name, got.code, c.Outcome)
	case !confirmed && got.code == 0 && open > 0:
		r.t.Errorf("%s: exit code 0 with %d changes that are not undone\n%s", o.name, open, got.out)
	}
	return confirmed
}

// afterwards checks what must hold before any further command: old values on hosts where a
// process was left to restore them.
func (r *faultRun) afterwards(confirmed bool) {
	r.t.Helper()
	for _, host := range r.c.op.changed() {
		if r.unread && host == r.c.host {
			if !r.open[host] {
				r.expect("afterwards", host)
			}
			continue
		}
		records, _, err := journal.Read(r.mounts.path(r.state(host)))
		must.OK(r.t, err)
		older, kept := 0, false
		for _, o := range journal.ConfirmedIntents(records) {
			if r.older[o.Transaction] > 0 {
				older++
			} else {
				kept = true
			}
		}
		if r.extra != nil && r.extraCommand() == "undo" && host == r.c.host && older == 0 && r.c.op.older {
			continue // another program has undone everything
		}
		want := len(r.older) // a transaction of two settings on each of two hosts
		must.True(r.t, older == want, "host %s keeps %d settings of what was confirmed before, want %d", host, older, want)
		must.True(r.t, !confirmed || kept || r.extra != nil, "host %s keeps nothing of what the report says is confirmed", host)
		if r.open[host] || r.foreignOn == host && kept {
			continue
		}
		if kept && !r.c.op.confirmed {
			for _, id := range r.c.op.knobs {
				text := r.settings()[host][id]
				must.True(r.t, r.written(id, text), "host %s: %s is confirmed and holds %q", host, id, text)
			}
			continue
		}
		if !kept {
			r.expect("afterwards", host)
		}
	}
}

// undoAll does what a user does after any fault: linerate undo on each host, on half of them by a
// new agent, then once more.
func (r *faultRun) undoAll(got result) {
	r.t.Helper()
	r.gates = nil
	for _, host := range []string{"near", "far"} {
		command := func() []string {
			if host == "far" && r.c.step%2 == 1 {
				return []string{"near", "undo", "--json", r.target("far")}
			}
			return []string{host, "undo", "--json"}
		}()
		u := run(r.t, r.controller(command[0], command[1:]...))
		lost := r.lost && host == r.c.host
		switch {
		case lost && (u.code != 7 || !strings.Contains(u.err, "the journal is damaged")):
			r.t.Errorf("undo on %s with a damaged journal: exit code %d\n%s%s", host, u.code, u.out, u.err)
		case !lost && u.code != 0 && (u.code != 7 || r.link != "" || !r.c.op.spare): // a missing link cannot be restored
			r.t.Errorf("undo on %s: exit code %d\n%s%s", host, u.code, u.out, u.err)
		}
		r.truthful(operation{name: "undo", document: "linerate/undo/v1", hosts: []string{host}}, u)
		r.expect("linerate undo", host)
		must.True(r.t, host != r.foreignOn || !r.mustTell() || strings.Contains(got.out+got.err+u.out+u.err, "7777777"), "the foreign value is not reported")
		if host == "near" && !strings.Contains(got.out+got.err+u.out+u.err, r.says) {
			r.t.Errorf("nobody says %q\n%s%s", r.says, u.out, u.err)
		}
		if lost {
			seen := run(r.t, r.controller(host, "undo", "--acknowledge"))
			must.True(r.t, seen.code == 0 && strings.Contains(seen.out+seen.err, "acknowledged, and kept as "), "undo --acknowledge on %s: exit code %d\n%s%s", host, seen.code, seen.out, seen.err)
		}
		again := run(r.t, r.controller(host, "undo"))
		must.True(r.t, again.code == 0 && again.out == "nothing to undo\n", "second undo on %s: exit code %d\n%s%s", host, again.code, again.out, again.err)
		r.expect("the second undo", host)
	}
}

// expect requires that a host has its values from before the case, or what another program has
// set since.
func (r *faultRun) expect(when, host string) {
	r.t.Helper()
	now := r.settings()[host]
	for id, old := range r.before[host] {
		allowed := []string{old}
		if host == r.foreignOn && id == rmemKnob {
			allowed = r.withForeign(old)
		}
		must.True(r.t, slices.Contains(allowed, now[id]), "after %s host %s holds %s %q, want %q", when, host, id, now[id], allowed)
	}
}

// round returns which steps of the setting that the other program changes were done in the
// current transaction.
func (r *faultRun) round() map[string]bool {
	steps := r.foreignAfter
	for i := len(steps) - 2; i >= 0; i-- { // a run after another one
		if steps[i] == "closed" {
			steps = steps[i+1:]
			break
		}
	}
	done := map[string]bool{}
	for _, s := range steps {
		if verb, knob, _ := strings.Cut(s, " "); knob == string(rmemKnob) {
			done[verb] = true
		}
	}
	return done
}

// withForeign returns the possible values if another program wrote at that moment. Its value
// stays, except at the two moments that no system can detect: between writing and reading back,
// when it looks like the system's version of linerate's value, and between the last read and
// the write that follows.
func (r *faultRun) withForeign(old string) []string {
	done := r.round()
	if done["write"] && !done["read"] || done["look"] && !done["restore"] && !done["undone"] && !done["foreign"] {
		return []string{old, foreign}
	}
	return []string{foreign}
}

// mustTell reports whether the foreign value came during a change.
func (r *faultRun) mustTell() bool {
	done := r.round()
	return done["read"] && !done["look"]
}

// nothingLeft requires that no host has anything open, and that of the case's files only the
// journals are left.
func (r *faultRun) nothingLeft() {
	r.t.Helper()
	r.gone("undo")
	for link, mtu := range r.others {
		must.Equal(r.t, r.mtuOf(link), mtu, "%s, another link, has MTU", link)
	}
	for _, host := range []string{"near", "far"} {
		dir := r.mounts.path(r.state(host))
		records, damage, err := journal.Read(dir)
		open := journal.OpenIntents(records)
		must.True(r.t, err == nil && len(damage)+len(open)+len(journal.ConfirmedIntents(records)) == 0, "journal of %s: open %+v, damage %v, %v", host, open, damage, err)
		entries, _ := os.ReadDir(dir)
		// A controller that was killed while it kept a change of two hosts leaves a note, which
		// the next linerate set reports; from a read-only disk it cannot be removed.
		allowed := []string{"journal.jsonl", "journal-b.jsonl", "lock", "retry"}
		if r.c.op.keeps && (r.dead || strings.Contains(r.c.fault.name, "read-only")) {
			allowed = append(allowed, "confirming.json", "confirming.json.new")
		}
		for _, e := range entries {
			if r.lost && host == r.c.host && strings.HasSuffix(e.Name(), ".damaged-1.seen") || r.kept && e.Name() == "kept" {
				continue
			}
			if !slices.Contains(allowed, e.Name()) {
				r.t.Errorf("left in the state directory of %s: %s", host, e.Name())
			}
		}
	}
	must.Len(r.t, must.Get(os.ReadDir(r.temp()))(r.t), 0, "left in the temporary folder")
}
