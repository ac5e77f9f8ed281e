package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"linerate/internal/must"
)

// busyDrivers have the kernel of the step's host take no value of tcp.sack for a
// while: the watchdog goes on until it does, whoever is left to hear of it.
func busyDrivers(plain, changing func(operation, string) bool) []fault {
	const whileBusy = 2 * time.Second
	of := func(name string, fits func(operation, string) bool, end func(r *faultRun), follow func(r *faultRun)) fault {
		return fault{name: "busy driver, " + name, fits: fits, mounts: sharedMounts,
			inject: func(r *faultRun) {
				r.busy()
				end(r)
			},
			follow: func(r *faultRun) {
				follow(r)
				r.free()
			}}
	}
	wait := func(d time.Duration) func(*faultRun) {
		return func(r *faultRun) {
			select {
			case <-r.t.Context().Done():
			case <-time.After(d):
			}
		}
	}
	killed := death("agent", plain, "agent-X").inject
	term := func(r *faultRun) { r.kill(syscall.SIGTERM, "watchdog-"+r.c.host) }
	everything := of("everything killed", plain, func(r *faultRun) {
		r.kill(syscall.SIGKILL, everybody()...)
		r.open["near"], r.open["far"] = true, true
	}, nil)
	everything.follow = nil
	kill := everything.inject
	everything.inject = func(r *faultRun) {
		kill(r)
		r.shut = func() {
			changed := r.settings()[r.c.host][sackKnob] != r.base[r.c.host][sackKnob]
			u := run(r.t, r.controller(r.c.host, "undo"))
			if changed && (u.code != 7 || !strings.Contains(u.err, "goes on trying")) || !changed && u.code != 0 {
				r.t.Errorf("undo while the driver is busy: exit code %d\n%s%s", u.code, u.out, u.err)
			}
			r.free()
			r.gone("the undo that goes on")
		}
	}
	return []fault{
		of("agent killed", plain, killed, wait(whileBusy)),
		of("watchdog told to end", changing, term, func(r *faultRun) {
			wait(whileBusy / 2)(r)
			for _, pid := range r.victims()["watchdog-"+r.c.host] {
				_ = syscall.Kill(pid, syscall.SIGTERM) // it may have done its work
			}
			wait(whileBusy / 2)(r)
		}),
		of("past the deadline", plain, func(*faultRun) {}, func(r *faultRun) { wait(r.held + 3*time.Second)(r) }),
		everything,
		{name: "watchdog told to end", fits: changing, inject: term, long: true},
	}
}

// sharedMounts have what is mounted there seen in the mount namespaces that
// ip netns exec makes.
func sharedMounts(r *faultRun) string {
	return "mount --make-rshared /\n: > " + r.busyFile()
}

// busyFile is where the setting that takes no value is mounted.
func (r *faultRun) busyFile() string { return filepath.Join(r.dir, "busy") }

// busy has tcp.sack of the step's host take no value, until free.
func (r *faultRun) busy() {
	r.t.Helper()
	// The flag goes along with what is mounted from there, not with a later change.
	r.inMounts("mount --bind " + sack + " " + r.busyFile() + "\nmount -o remount,bind,ro " + r.busyFile() + "\nmount --bind " + r.busyFile() + " " + sack)
	r.stuck = r.settings()[r.c.host][sackKnob]
}

// free has it take values again. Nobody could change it meanwhile.
func (r *faultRun) free() {
	r.t.Helper()
	must.Equal(r.t, r.settings()[r.c.host][sackKnob], r.stuck, "tcp.sack takes no value, was %s and", r.stuck)
	r.inMounts("umount -l " + sack + "\numount -l " + r.busyFile())
}

// inMounts runs a script in the mount namespace of the case, in the network of the
// step's host.
func (r *faultRun) inMounts(script string) {
	r.t.Helper()
	argv := append(r.mounts.enter()[1:], "--net=/run/netns/"+r.name(r.c.host), "sh", "-ec", script)
	if out, err := exec.CommandContext(r.t.Context(), "nsenter", argv...).CombinedOutput(); err != nil {
		r.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}
