package watchdog

import (
	"slices"
	"syscall"
	"testing/synctest"
	"time"

	"linerate/internal/host/durable/durabletest"
	"linerate/internal/host/journal"
	"linerate/internal/host/knob/linkid"
)

// fault is what goes wrong at a moment of an operation, and what it may leave behind.
type fault struct {
	name   string
	fits   func(o operation) bool   // nil: every operation
	at     func(s site, o act) bool // nil: before every step
	inject func(w *world, f *fault, p *proc, o act)
	after  func(w *world) // runs before linerate undo; may be nil

	lifts     bool               // what blocks linerate ends before linerate undo
	stuck     func(at slot) bool // whether a setting refuses values
	hangs     bool               // a process may be left
	lost      bool               // a part of the journal is lost
	mustTell  bool               // and undo must report it
	takesBack string             // another program reverts a confirmed setting
	orphans   map[string]bool    // machines without a process that would undo
	defaults  map[slot]string    // the machine's values at its last start
	happened  bool
}

func onDisk(o act) bool { return o.place.Native == "" }

// leaves reports whether a kill before this step leaves a different state than one at the
// next.
func leaves(_ site, o act) bool { return o.Kind == "put" || onDisk(o) && o.Changes() && !forPeople(o) }

// looks reports whether another process could make a difference before this step.
func looks(s site, o act) bool { return leaves(s, o) || o.Kind == "lock" || o.Kind == "get" }

// forPeople reports whether an operation is on a file that no undo reads.
func forPeople(o act) bool { return base(o.Path) == "lock" || base(o.Path) == "retry" }

func changesDisk(_ site, o act) bool { return onDisk(o) && (o.Changes() || o.Kind == "open to write") }

func onSack(_ site, o act) bool { return o.place == sack }

// killed kills processes of the step's machine. A machine on which no process is left is
// orphaned.
func killed(roles ...string) func(w *world, f *fault, p *proc, o act) {
	return func(w *world, f *fault, p *proc, _ act) {
		kill(slices.DeleteFunc(p.m.living(""), func(q *proc) bool {
			return len(roles) > 0 && !slices.Contains(roles, q.role) && (q != p || !slices.Contains(roles, "self"))
		})...)
		f.judge(w)
	}
}

// judge marks machines without a living process as orphaned.
func (f *fault) judge(w *world) {
	for _, m := range w.all {
		if len(m.living("")) == 0 {
			f.orphans[m.name] = true
		}
	}
}

// restart starts a machine again, with its default values, or with tcp.sack as it was if that
// is configured.
func (m *sim) restart(configured bool) {
	kill(m.living("")...)
	m.boot += "+"
	names, _ := m.disk.Unsynced()
	m.disk.Lose(names, func(string, int) int { return 0 })
	was := m.values
	m.values = defaults()
	if configured {
		m.values[sackSlot] = was[sackSlot]
	}
}

func faults() []fault {
	return slices.Concat(deaths(), losses(), fullDisks(), foreigners(), busyKnobs(), clocks(), seconds(), links(), spoilt())
}

func deaths() []fault {
	watchdogs := func(o operation) bool { return slices.Contains(o.roles, "watchdog") }
	return []fault{
		{name: "kill the process", at: leaves, inject: killed("self")},
		{name: "kill the agent", fits: watchdogs, inject: killed("agent")},
		{name: "kill the watchdog", fits: watchdogs, at: leaves, inject: killed("watchdog")},
		{name: "kill everybody", at: leaves, inject: killed()},
		{name: "hang of the process that confirms", hangs: true, at: func(s site, _ act) bool { return s.role == "confirmer" }, inject: func(_ *world, _ *fault, p *proc, _ act) {
			<-p.gone
		}},
		{name: "death of the other host", fits: func(o operation) bool { return o.far }, inject: func(w *world, f *fault, p *proc, _ act) {
			for _, m := range w.all {
				if m != p.m {
					kill(m.living("")...)
				}
			}
			f.judge(w)
		}},
		{name: "death of the other watchdog", fits: func(o operation) bool { return o.far }, inject: func(w *world, f *fault, p *proc, _ act) {
			for _, m := range w.all {
				if m != p.m {
					kill(m.living("watchdog")...)
				}
			}
			f.judge(w)
		}},
	}
}

// losses are power losses of the machine, or of its disk only.
func losses() []fault {
	disk := func(name string, names, bytes func(n int) int) fault {
		return fault{name: "disk loses power, " + name, at: func(_ site, o act) bool { return o.dirty }, inject: func(w *world, f *fault, p *proc, o act) {
			killed()(w, f, p, o)
			n, _ := p.m.disk.Unsynced()
			p.m.disk.Lose(names(n), func(_ string, n int) int { return bytes(n) })
		}}
	}
	all, none, half := func(n int) int { return n }, func(int) int { return 0 }, func(n int) int { return n / 2 }
	reboot := func(name string, configured bool) fault {
		return fault{name: name, at: leaves, inject: func(w *world, f *fault, p *proc, _ act) {
			p.m.restart(configured)
			f.judge(w)
			f.defaults = defaults()
			f.defaults[sackSlot] = p.m.values[sackSlot]
		}, fits: func(o operation) bool { return !o.far && o.older == nil }}
	}
	return []fault{
		disk("nothing of it synced", none, none), disk("all names", all, none), disk("all bytes", none, all), disk("a part of each", half, half),
		disk("the last byte", all, func(n int) int { return max(0, n-1) }),
		reboot("restart", false), reboot("restart with the same value configured", true),
	}
}

// fullDisks refuse writes from a moment on.
func fullDisks() []fault {
	of := func(name string, err error, hit func(o act) bool, lasts time.Duration) fault {
		once := lasts == 0
		return fault{name: name, at: changesDisk, lifts: true, inject: func(_ *world, _ *fault, p *proc, _ act) {
			until, n := time.Now().Add(lasts), 0
			p.m.refuse["disk"] = func(o act) error {
				if onDisk(o) && hit(o) && (lasts < 0 || time.Now().Before(until) || once && n == 0) {
					n++
					return err
				}
				return nil
			}
		}}
	}
	const moment, good = 5 * time.Second, -1
	fills, changes := func(o act) bool { return o.Fills() }, func(o act) bool { return o.Changes() || o.Kind == "open to write" }
	half := of("full disk takes half a record", syscall.ENOSPC, fills, 0)
	half.inject = func(_ *world, _ *fault, p *proc, _ act) {
		p.m.refuse["disk"] = func(o act) error {
			switch {
			case o.Kind == "write" && onDisk(o):
				return &durabletest.Torn{N: 10, Err: syscall.ENOSPC}
			case onDisk(o) && o.Fills():
				return syscall.ENOSPC
			}
			return nil
		}
	}
	return []fault{
		of("full disk, once", syscall.ENOSPC, fills, 0), of("full disk for a moment", syscall.ENOSPC, fills, moment), of("full disk for good", syscall.ENOSPC, fills, good), half,
		of("read-only for a moment", syscall.EROFS, changes, moment), of("read-only for good", syscall.EROFS, changes, good),
		of("I/O error, once", syscall.EIO, changes, 0), of("I/O errors for good", syscall.EIO, changes, good),
		of("no file descriptors for good", syscall.EMFILE, func(o act) bool {
			return slices.Contains([]string{"open", "open to write", "create", "read", "list"}, o.Kind)
		}, good),
	}
}

// foreigners are other programs that set tcp.sack.
func foreigners() []fault {
	of := func(name string, text func(m *sim) string) fault {
		return fault{name: "foreign write of " + name, at: looks, inject: func(_ *world, _ *fault, p *proc, o act) {
			m := p.m
			theirs := text(m)
			// Two writes cannot be detected: one between a write and its read-back, and one
			// between the last check and a write.
			m.unseen[sackSlot] = m.lastPut[sackSlot] || o.place == sack && o.Kind == "put" || theirs != "7"
			m.foreign[sackSlot], m.values[sackSlot] = theirs, theirs
		}}
	}
	return []fault{of("another value", func(*sim) string { return "7" })}
}

// busyKnobs refuse to be set or read.
func busyKnobs() []fault {
	of := func(name string, err error, kinds []string, lasts time.Duration) fault {
		f := fault{name: name, at: onSack, lifts: true, inject: func(_ *world, _ *fault, p *proc, _ act) {
			until := time.Now().Add(lasts)
			p.m.refuse["busy"] = func(o act) error {
				if o.place == sack && slices.Contains(kinds, o.Kind) && (lasts < 0 || time.Now().Before(until)) {
					return err
				}
				return nil
			}
		}}
		if lasts < 0 {
			f.stuck = func(at slot) bool { return at == sackSlot }
			f.after = func(w *world) {
				for _, m := range w.all {
					clear(m.refuse)
				}
				pause(longestRetry + time.Second)
				w.fault.stuck = nil
			}
		}
		return f
	}
	put, both := []string{"put"}, []string{"put", "get"}
	killed := of("driver busy, everybody killed while it is tried again", syscall.EBUSY, put, -1)
	killed.after = func(w *world) {
		kill(w.everybody()...)
		synctest.Wait()
		w.fault.judge(w)
		w.fault.stuck = nil
	}
	return []fault{
		killed,
		of("driver busy for 3 s", syscall.EBUSY, put, 3*time.Second), of("driver busy for 40 s", syscall.EBUSY, put, 40*time.Second),
		of("driver busy past the deadline", syscall.EBUSY, put, -1), of("setting cannot be read for 3 s", syscall.EIO, both, 3*time.Second),
		of("no rights past the deadline", syscall.EACCES, put, -1),
	}
}

func clocks() []fault {
	wall := func(name string, by time.Duration) fault {
		return fault{name: "clock set " + name, at: func(_ site, o act) bool { return !onDisk(o) }, inject: func(_ *world, _ *fault, p *proc, _ act) { p.m.wall = by }}
	}
	return []fault{
		wall("an hour ahead", time.Hour), wall("an hour back", -time.Hour),
		{name: "machine sleeps an hour", at: leaves, inject: func(_ *world, _ *fault, p *proc, _ act) {
			p.m.asleep += time.Hour
			p.m.refuse["undone since"] = func(act) error { return nil } // between a report and its reading
		}},
	}
}

// seconds are further linerate processes.
func seconds() []fault {
	second := func(name string, start func(m *sim)) fault {
		return fault{name: name, takesBack: "undo", at: looks, inject: func(_ *world, _ *fault, p *proc, _ act) {
			p.m.refuse["undone since"] = func(act) error { return nil }
			start(p.m)
		}}
	}
	return []fault{
		second("undo meanwhile", func(m *sim) { m.reverter("meanwhile") }),
		second("recovery meanwhile", func(m *sim) { m.recoverer("meanwhile", 0) }),
		{name: "lock removed, and an undo meanwhile", takesBack: "undo", at: looks, fits: func(o operation) bool { return o.older == nil }, inject: func(_ *world, f *fault, p *proc, _ act) {
			// Now two processes write one journal; the last undo handles what is left.
			p.m.refuse["undone since"] = func(act) error { return nil }
			p.m.refuse["damage"] = func(act) error { return nil }
			f.orphans[p.m.name] = true
			p.m.disk.RemoveAll(stateDir + "/lock")
			p.m.reverter("meanwhile")
		}},
		{name: "state directory removed", lost: true, lifts: true, inject: func(_ *world, _ *fault, p *proc, _ act) {
			p.m.refuse["damage"] = func(act) error { return nil }
			p.m.disk.RemoveAll(stateDir)
		}, fits: func(o operation) bool { return o.name == "set" || o.name == "set and the deadline" }},
	}
}

// links change what happens to eth0.
func links() []fault {
	of := func(name string, change func(m *sim)) fault {
		return fault{name: "link " + name, fits: func(o operation) bool { return o.link }, inject: func(_ *world, _ *fault, p *proc, o act) {
			change(p.m)
			p.m.unseen[slot{9, "mtu"}] = o.Kind == "put" && o.place == mtuPlace // cannot be detected
		}}
	}
	// Another link that happens to hold the value that linerate writes.
	other := func(m *sim) {
		m.links = append(m.links, linkid.ID{Name: "eth0", Index: 9, MAC: "02:00:00:00:00:99", Driver: "ixgbe"})
		m.values[slot{9, "mtu"}] = "1400"
		m.foreign[slot{9, "mtu"}] = "1400"
	}
	gone := func(m *sim) {
		m.links = nil
		delete(m.values, mtuSlot)
	}
	return []fault{
		of("renamed", func(m *sim) { m.links[0].Name = "lan0" }),
		of("renamed, its name another's", func(m *sim) { m.links[0].Name = "lan0"; other(m) }),
		of("replaced", func(m *sim) { gone(m); other(m) }),
		of("gone", gone),
	}
}

// spoilt damages the journal.
func spoilt() []fault {
	flip := func(at func(n int) int) func([]byte) []byte {
		return func(text []byte) []byte {
			if len(text) > 0 {
				text[at(len(text))] ^= 0x10
			}
			return text
		}
	}
	middle := func(n int) int { return n / 2 }
	cut := func(text []byte) []byte { return text[:len(text)-min(len(text), 30)] }
	none := func([]byte) []byte { return nil }
	var all []fault
	for i, which := range []string{"first", "second"} {
		for name, damage := range map[string]func([]byte) []byte{"flipped": flip(middle), "cut": cut, "gone": none} {
			path := journal.Files(stateDir)[i]
			touched := func(_ site, o act) bool { return o.Path == path && o.Kind != "sync" }
			all = append(all,
				fault{name: which + " copy " + name, at: touched, inject: func(_ *world, _ *fault, p *proc, _ act) { p.m.disk.Edit(path, damage) }},
				fault{name: "kill everybody, " + which + " copy " + name, at: leaves, lost: i == 0, inject: func(w *world, f *fault, p *proc, o act) {
					killed()(w, f, p, o)
					p.m.disk.Edit(path, damage)
				}})
		}
	}
	return all
}
