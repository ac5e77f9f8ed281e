package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// fault is what goes wrong after a step.
type fault struct {
	name string
	// fits selects the operations and the host whose steps the fault may follow.
	fits func(o operation, host string) bool
	// inject causes the fault while the process that did the step waits.
	inject func(r *faultRun)
	// follow does what must happen when that process goes on; nil for nothing.
	follow func(r *faultRun)
	// disk puts the journal of the step's host on a small file system of its own, and
	// otherDisk that of the other host.
	disk, otherDisk bool
	// prepare is called before the operation begins; nil for nothing.
	prepare func(r *faultRun)
	// mounts returns lines of sh for the case's own mount namespace.
	mounts func(r *faultRun) string
	// at selects steps; nil selects all.
	at func(step string) bool
	// long marks a slow fault, or one that others cover as well: it has cases only with
	// the build tag slow.
	long bool
	// early is a fault that exists before the operation.
	early bool
}

func always(operation, string) bool { return true }

// death is kill -9 of some roles; X stands for the step's host.
func death(name string, fits func(operation, string) bool, roles ...string) fault {
	return fault{name: "kill " + name, fits: fits, inject: func(r *faultRun) {
		names := make([]string, len(roles))
		for i, role := range roles {
			names[i] = strings.ReplaceAll(role, "X", r.c.host)
		}
		r.kill(syscall.SIGKILL, names...)
		for _, host := range []string{"near", "far"} {
			agent := slices.Contains(names, "agent-"+host) || host == "near" && r.c.op.inProcess && slices.Contains(names, "controller")
			if agent && (slices.Contains(names, "watchdog-"+host) || r.c.op.confirmed) {
				r.open[host] = true // no process is left there to undo
			}
		}
	}}
}

// everybody returns all roles, watchdogs first, so that none has time to undo.
func everybody() []string {
	return []string{"watchdog-near", "watchdog-far", "controller", "agent-near", "agent-far"}
}

func signalled(sig syscall.Signal) func(r *faultRun) {
	return func(r *faultRun) { r.kill(sig, "controller") }
}

func holding(o operation, _ string) bool {
	return o.document == "linerate/set/v1" && !o.keeps && !o.link && !o.spare // a new MTU is held while it is tested
}

func faults() []fault {
	plain := func(o operation, _ string) bool { return !o.ssh && !o.link && !o.spare }
	changing := func(o operation, h string) bool { return plain(o, h) && !o.confirmed }
	farAgent := func(o operation, _ string) bool { return !o.link && (len(o.hosts) == 2 || o.hosts[0] == "far") }
	return slices.Concat([]fault{
		death("controller", always, "controller"),
		death("far agent", farAgent, "agent-far"),
		death("near agent", func(o operation, _ string) bool { return !o.inProcess }, "agent-near"),
		death("both agents", func(o operation, _ string) bool { return plain(o, "") && len(o.hosts) == 2 }, "agent-far", "agent-near"),
		death("watchdog", func(o operation, _ string) bool { return !o.confirmed }, "watchdog-X"),
		death("whole host", changing, "watchdog-X", "agent-X"),
		death("everything", plain, everybody()...),
	}, stops(), ends(plain), disks(plain, changing), others(plain), machines(plain),
		busyDrivers(plain, changing), damages(plain), linkFates(), otherHost(), cgroups(plain), notes(), locks(plain))
}

// stops returns faults in which a process hangs until the deadline has passed.
func stops() []fault {
	stop := func(role string, fits func(operation, string) bool) fault {
		return fault{name: "hang of " + role, fits: fits,
			inject: func(r *faultRun) { r.kill(syscall.SIGSTOP, role) },
			follow: func(r *faultRun) {
				r.restoredBy("the deadline")
				r.kill(syscall.SIGCONT, role)
			}}
	}
	return []fault{
		stop("controller", holding),
		stop("agent-far", func(o operation, h string) bool { return holding(o, h) && o.hosts[len(o.hosts)-1] == "far" }),
	}
}

// ends returns faults that end the controller, its terminal, ssh, or the link.
func ends(plain func(operation, string) bool) []fault {
	over := func(o operation, _ string) bool { return o.ssh }
	cut := func(r *faultRun) { ip(r.t, "-n", r.near, "link", "set", "v0", "down") }
	up := func(r *faultRun) { ip(r.t, "-n", r.near, "link", "set", "v0", "up") }
	link := func(o operation, _ string) bool { return o.link }
	return []fault{
		{name: "hang-up", fits: plain, long: true, inject: signalled(syscall.SIGHUP)},
		{name: "Ctrl-C", fits: plain, inject: signalled(syscall.SIGINT)},
		{name: "terminal closed", fits: func(o operation, _ string) bool { return o.keeps }, inject: func(r *faultRun) {
			r.deaf = true
			_ = r.tty.master.Close()
		}},
		{name: "kill ssh", fits: over, inject: func(r *faultRun) { r.killNamed("ssh\x00-F\x00") }},
		{name: "kill sshd", fits: over, inject: func(r *faultRun) { r.killNamed("sshd: root@notty") }},
		{name: "link down, up at once", fits: link, long: true, inject: cut, follow: up},
		{name: "link down, up after the deadline", fits: link, inject: cut, follow: func(r *faultRun) {
			r.restoredBy("the deadline")
			up(r)
		}},
		{name: "link down for good", fits: link, inject: cut, follow: func(r *faultRun) {
			r.restoredBy("the deadline")
			r.shut = func() { up(r) }
		}},
	}
}

// killNamed kills the first process of the case whose command line begins with prefix.
func (r *faultRun) killNamed(prefix string) {
	r.t.Helper()
	for _, pid := range slices.Sorted(slices.Values(r.left())) {
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if strings.HasPrefix(string(line), prefix) {
			must.Do(r.t, syscall.Kill(pid, syscall.SIGKILL))
			return
		}
	}
	r.t.Fatalf("no process %q", prefix)
}

// disks returns faults of the file system under the journal.
func disks(plain, changing func(operation, string) bool) []fault {
	return []fault{
		{name: "journal read-only from the start", fits: plain, disk: true, early: true, inject: func(r *faultRun) {
			dir := r.state(r.c.host)
			r.mounts.remount(r.t, dir, "ro")
			r.open[r.c.host] = r.c.op.confirmed
			r.shut = func() { r.mounts.remount(r.t, dir, "rw") }
		}},
		{name: "journal's disk full", fits: plain, disk: true, inject: func(r *faultRun) {
			dir := r.state(r.c.host)
			r.mounts.fill(r.t, dir)
			r.open[r.c.host] = r.c.op.confirmed
			r.shut = func() { r.mounts.free(r.t, dir) }
		}},
		{name: "journal read-only and watchdog killed", fits: changing, disk: true, inject: func(r *faultRun) {
			dir, agent := r.state(r.c.host), "agent-"+r.c.host
			// No file system can become read-only under a file that is being written: the agent
			// waits until the dead watchdog's file is closed.
			r.kill(syscall.SIGSTOP, agent)
			r.kill(syscall.SIGKILL, "watchdog-"+r.c.host)
			r.mounts.remount(r.t, dir, "ro")
			r.kill(syscall.SIGCONT, agent)
			r.shut = func() { r.mounts.remount(r.t, dir, "rw") }
		}},
		{name: "journal read-only and everything killed", fits: plain, disk: true, inject: func(r *faultRun) {
			r.kill(syscall.SIGKILL, everybody()...)
			r.open["near"], r.open["far"] = true, true
			dir, host := r.state(r.c.host), r.c.host
			r.shut = func() {
				r.mounts.remount(r.t, dir, "ro")
				u := run(r.t, r.controller(host, "undo", "--json"))
				r.truthful(operation{document: "linerate/undo/v1", hosts: []string{host}}, u)
				r.expect("linerate undo with a read-only journal", host)
				r.mounts.remount(r.t, dir, "rw")
			}
		}},
	}
}

// others returns faults in which people and programs interfere.
func others(plain func(operation, string) bool) []fault {
	second := func(args ...string) func(r *faultRun) {
		return func(r *faultRun) {
			gates := r.gates
			r.gates = nil // it does not stop
			r.extra = start(r.t, r.controller(r.c.host, append(args, "--json")...))
			r.gates = gates
		}
	}
	return []fault{
		{name: "second controller", fits: plain, inject: second("set", "tcp.recv_buffer_max=1MiB", "--for", "1s")},
		{name: "second controller elsewhere", fits: plain, long: true, inject: second("set", "tcp.timestamps=off", "--for", "1s")},
		{name: "undo meanwhile", fits: plain, inject: second("undo")},
		{name: "foreign change", fits: plain, inject: func(r *faultRun) {
			must.Do(r.t, inNetns(r.name(r.c.host), func() error { return os.WriteFile(rmem, []byte(foreign+"\n"), 0o644) }))
			r.foreignOn, r.foreignAfter = r.c.host, r.gates[r.c.host].steps(r.t)
		}},
	}
}

// machines returns faults of whole machines.
func machines(plain func(operation, string) bool) []fault {
	restart := func(configured bool) func(r *faultRun) {
		return func(r *faultRun) {
			r.kill(syscall.SIGKILL, everybody()...)
			r.open["near"], r.open["far"] = true, true
			r.follows(func() {
				next := newNetns(r.t)
				r.near, r.far, r.rebooted = next.near, next.far, true
				boot := filepath.Join(r.dir, "boot_id")
				must.Do(r.t, os.WriteFile(boot, []byte(fmt.Sprintf("00000000-0000-4000-8000-%012d\n", r.controllerPID())), 0o600))
				r.mounts = newMounts(r.t, "mount --bind "+boot+" /proc/sys/kernel/random/boot_id")
				if configured { // the machine starts with linerate's values
					must.Do(r.t, inNetns(r.name(r.c.host), func() error { return os.WriteFile(rmem, []byte("4096 65536 65536\n"), 0o644) }))
				}
				r.before = r.settings()
				r.base = r.before
			})
		}
	}
	jump := func(by time.Duration) func(r *faultRun) {
		return func(r *faultRun) {
			r.kill(syscall.SIGKILL, everybody()...)
			r.open["near"], r.open["far"] = true, true
			r.follows(func() {
				for _, host := range []string{"near", "far"} {
					r.shiftJournal(r.t, host, by)
				}
			})
		}
	}
	return []fault{
		{name: "restart", fits: plain, inject: restart(false)},
		{name: "restart with the same value configured", fits: plain, long: true, inject: restart(true)},
		{name: "crash and the clock one hour ahead", fits: plain, inject: jump(-time.Hour)},
		{name: "crash and the clock one hour back", fits: plain, long: true, inject: jump(time.Hour)},
	}
}

// follows waits for the end of all processes, then calls f.
func (r *faultRun) follows(f func()) { r.shut = f }

// restoredBy waits until the hosts have their old values, whatever process hangs.
func (r *faultRun) restoredBy(whom string) {
	r.t.Helper()
	must.Until(r.t, "old values by "+whom, func() bool {
		for _, host := range r.c.op.changed() {
			now := r.settings()[host]
			if slices.ContainsFunc(r.c.op.knobs, func(id model.KnobID) bool { return now[id] != r.before[host][id] }) {
				return false
			}
		}
		return true
	})
}
