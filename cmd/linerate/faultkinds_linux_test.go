package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/must"
)

// spareIndex is the number of the spare link.
const spareIndex = "77"

// linkFates returns faults of the link whose MTU is changed: the link gets its old MTU back under
// whatever name, and another link that took its name keeps its own.
func linkFates() []fault {
	spare := func(o operation, _ string) bool { return o.spare }
	fates := map[string]struct {
		commands []string // of ip, in the near host; MTU stands for that of another link
		at       string   // name of the link afterwards, "" for none
		other    string   // a link that linerate does not change
	}{
		"renamed":                            {[]string{"link set x0 down", "link set x0 name lan0"}, "lan0", ""},
		"renamed, its name another's":        {[]string{"link set x0 down", "link set x0 name lan0", "link add x0 mtu MTU type veth peer name x9"}, "lan0", "x0"},
		"replaced":                           {[]string{"link del x0", "link add x0 mtu MTU type veth peer name x9"}, "", "x0"},
		"replaced by one of the same number": {[]string{"link del x0", "link add x0 index " + spareIndex + " mtu MTU type bridge"}, "", "x0"},
		"gone":                               {[]string{"link del x0"}, "", ""},
	}
	endings := map[string][]string{
		"": nil, ", controller killed": {"controller"}, ", watchdog killed": {"watchdog-near"}, ", everything killed": everybody(),
	}
	// The others run only with the build tag slow.
	short := []string{"renamed, everything killed", "renamed, its name another's, watchdog killed", "replaced, controller killed", "gone"}
	var all []fault
	for fate, f := range fates {
		for ending, roles := range endings {
			all = append(all, fault{name: "link " + fate + ending, fits: spare, long: !slices.Contains(short, fate+ending), inject: func(r *faultRun) {
				if r.open["near"] = len(roles) > 1; r.open["near"] { // none has time to undo
					r.kill(syscall.SIGKILL, roles...)
				}
				// linerate would restore the value that it writes; if it has not written yet,
				// that write is the mistake.
				mtu := "1450"
				if r.mtuOf("x0") == "1400" {
					mtu = "1400"
				}
				for _, c := range f.commands {
					ip(r.t, append([]string{"-n", r.near}, strings.Fields(strings.ReplaceAll(c, "MTU", mtu))...)...)
				}
				r.link, r.others = f.at, map[string]string{}
				if f.other != "" {
					r.others[f.other] = mtu
				}
				if f.other != "" && f.at == "" && mtu == "1400" && !slices.Equal(roles, []string{"controller"}) { // its watchdog's report is lost
					r.says = "x0 is another device now: it was index " + spareIndex
				}
				if len(roles) == 1 {
					r.kill(syscall.SIGKILL, roles...)
				}
			}})
		}
	}
	return all
}

// mtuOf returns the MTU of a link of the near host.
func (r *faultRun) mtuOf(link string) string {
	r.t.Helper()
	_, rest, _ := strings.Cut(ip(r.t, "-n", r.near, "-o", "link", "show", "dev", link), " mtu ")
	value, _, _ := strings.Cut(rest, " ")
	return value
}

// cgroups returns faults that kill everything in the agent's cgroup at once, as systemctl stop
// does: a watchdog in its own systemd scope undoes; what a watchdog in the same cgroup leaves,
// the next linerate undoes.
func cgroups(plain func(operation, string) bool) []fault {
	killed := func(r *faultRun) {
		r.t.Helper()
		must.Do(r.t, os.WriteFile(filepath.Join(r.cgroup, "cgroup.kill"), []byte("1"), 0))
		r.dead = r.dead || r.c.host == "near" && r.c.op.inProcess
		r.open[r.c.host] = r.root == "" || r.c.op.confirmed
	}
	return []fault{
		{name: "cgroup of the agent killed, watchdog in a scope", fits: plain, inject: killed, prepare: func(r *faultRun) {
			r.enterCgroup()
			r.root = scopes(r.t, filepath.Join(r.dir, "root"), newCgroup(r.t))
		}},
		{name: "cgroup of the agent killed, and the watchdog with it", fits: plain, inject: killed, prepare: (*faultRun).enterCgroup},
	}
}

// enterCgroup starts the agent of the case's host in a cgroup of its own.
func (r *faultRun) enterCgroup() {
	r.t.Helper()
	r.cgroup = newCgroup(r.t)
	must.Do(r.t, os.WriteFile(r.enterPath(), []byte("#!/bin/sh\necho $$ > "+filepath.Join(r.cgroup, "cgroup.procs")+"\nexec \"$@\"\n"), 0o700))
}

// enterPath returns a command that runs its arguments in the cgroup.
func (r *faultRun) enterPath() string { return filepath.Join(r.dir, "enter-cgroup") }

// newCgroup makes a cgroup that ends with the test, with all its processes.
func newCgroup(t *testing.T) string {
	t.Helper()
	roots := []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}
	i := slices.IndexFunc(roots, func(dir string) bool { return must.Err(os.Stat(filepath.Join(dir, "cgroup.controllers"))) == nil })
	must.SkipIf(t, i < 0, "no cgroup v2 here")
	dir := filepath.Join(roots[i], fmt.Sprintf("linerate-test-%d-%d", os.Getpid(), time.Now().UnixNano()))
	err := os.Mkdir(dir, 0o700)
	must.SkipIf(t, err != nil, "no cgroup of its own: %v", err)
	t.Cleanup(func() {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		must.Within(t, 10*time.Second, "the end of "+dir, func() bool { return os.Remove(dir) == nil })
	})
	return dir
}

// scopes makes a root folder in which the agent is in a systemd service, whose systemd-run puts
// what it starts into the cgroup scope.
func scopes(t *testing.T, root, scope string) string {
	t.Helper()
	for path, text := range map[string]string{
		"proc/self/cgroup":         "0::/system.slice/linerate.service\n",
		"run/systemd/system/there": "",
		"usr/bin/systemd-run": strings.Join([]string{
			"#!/bin/sh", "echo $$ > " + scope + "/cgroup.procs", `while [ "$1" != -- ]; do shift; done`, "shift", `exec "$@"`, "",
		}, "\n"),
	} {
		path = filepath.Join(root, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o755)
		}
		must.Do(t, err)
	}
	return root
}

// busyDrivers returns faults in which the kernel of the step's host accepts no value of tcp.sack
// for a while: the watchdog retries until it does, even if no process is left to report to.
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
			must.True(r.t, (!changed || u.code == 7 && strings.Contains(u.err, "goes on trying")) && (changed || u.code == 0),
				"undo while the driver is busy: exit code %d\n%s%s", u.code, u.out, u.err)
			r.free()
			r.gone("the undo that goes on")
		}
	}
	return []fault{
		of("agent killed", plain, killed, wait(whileBusy)),
		of("watchdog told to end", changing, term, func(r *faultRun) {
			wait(whileBusy / 2)(r)
			for _, pid := range r.victims()["watchdog-"+r.c.host] {
				_ = syscall.Kill(pid, syscall.SIGTERM) // it may have finished
			}
			wait(whileBusy / 2)(r)
		}),
		of("past the deadline", plain, func(*faultRun) {}, func(r *faultRun) { wait(r.held + 3*time.Second)(r) }),
		everything,
		{name: "watchdog told to end", fits: changing, inject: term, long: true},
	}
}

// sharedMounts makes mounts visible in the mount namespaces of ip netns exec.
func sharedMounts(r *faultRun) string { return "mount --make-rshared /\n: > " + r.busyFile() }

// busyFile returns where the setting that accepts no value is mounted.
func (r *faultRun) busyFile() string { return filepath.Join(r.dir, "busy") }

// busy makes tcp.sack of the step's host accept no value, until free.
func (r *faultRun) busy() {
	r.t.Helper()
	// The read-only flag must be set before this is mounted elsewhere: later changes do not
	// propagate.
	r.inMounts("mount --bind " + sack + " " + r.busyFile() + "\nmount -o remount,bind,ro " + r.busyFile() + "\nmount --bind " + r.busyFile() + " " + sack)
	r.stuck = r.settings()[r.c.host][sackKnob]
}

// free makes it accept values again. It cannot have changed meanwhile.
func (r *faultRun) free() {
	r.t.Helper()
	must.Equal(r.t, r.settings()[r.c.host][sackKnob], r.stuck, "tcp.sack takes no value, was %s and", r.stuck)
	r.inMounts("umount -l " + sack + "\numount -l " + r.busyFile())
}

// inMounts runs a script in the mount namespace of the case, in the network of the step's host.
func (r *faultRun) inMounts(script string) {
	r.t.Helper()
	argv := append(r.mounts.enter()[1:], "--net=/run/netns/"+r.name(r.c.host), "sh", "-ec", script)
	out, err := exec.CommandContext(r.t.Context(), "nsenter", argv...).CombinedOutput()
	must.Need(r.t, err == nil, "%s: %v\n%s", script, err, out)
}

// confirming selects the steps of keeping a change.
func confirming(step string) bool {
	return strings.HasSuffix(step, "confirmed") || strings.HasSuffix(step, "confirmation")
}

// other returns the host that is not the step's.
func (c faultCase) other() string {
	if c.host == "near" {
		return "far"
	}
	return "near"
}

// otherHost returns faults in which the other host fails after a step of this one: both hosts
// have the change, or neither, and earlier confirmed changes stay on both.
func otherHost() []fault {
	two := func(o operation, _ string) bool { return len(o.hosts) == 2 && !o.link }
	over := func(o operation, _ string) bool { return o.older }
	other := func(r *faultRun) string { return "watchdog-" + r.c.other() }
	begun := func(r *faultRun) bool { return len(r.victims()[other(r)]) > 0 } // one host is changed after the other
	kill := func(r *faultRun) {
		if begun(r) {
			r.kill(syscall.SIGKILL, other(r))
		}
	}
	full := func(r *faultRun) {
		dir := r.state(r.c.other())
		r.mounts.fill(r.t, dir)
		r.shut = func() { r.mounts.free(r.t, dir) }
	}
	hang := func(r *faultRun) {
		if begun(r) {
			r.kill(syscall.SIGSTOP, other(r))
		}
	}
	goOn := func(r *faultRun) {
		select {
		case <-r.t.Context().Done():
		case <-time.After(2 * time.Second):
		}
		for _, pid := range r.victims()[other(r)] {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	return []fault{
		{name: "other watchdog killed", fits: two, inject: kill, long: true},
		{name: "other journal's disk full", fits: two, inject: full, otherDisk: true, long: true},
		{name: "hang of the other watchdog", fits: two, inject: hang, follow: goOn, long: true},
		// Not only samples: every step of keeping a change over an older one.
		{name: "other watchdog killed while keeping", fits: over, inject: kill, at: confirming},
		{name: "other journal's disk full while keeping", fits: over, inject: full, at: confirming, otherDisk: true},
		{name: "hang of the other watchdog while keeping", fits: over, inject: hang, follow: goOn, at: confirming},
	}
}

// notes returns damages of the note that two hosts are to keep a change.
func notes() []fault {
	keeping := func(o operation, _ string) bool { return o.keeps }
	of := func(name string, spoil func(path string, text []byte) error) fault {
		return fault{name: "controller killed, its note " + name, fits: keeping, at: confirming, long: name != "cut", inject: func(r *faultRun) {
			r.kill(syscall.SIGKILL, "controller")
			path := filepath.Join(r.state("near"), "confirming.json")
			text, err := os.ReadFile(path)
			if err == nil {
				err = spoil(path, text)
			}
			must.True(r.t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err)
			r.shut = func() { r.works("after that") }
		}}
	}
	return []fault{
		of("cut", func(path string, text []byte) error { return os.WriteFile(path, text[:len(text)/2], 0o600) }),
		of("empty", func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) }),
		of("gone", func(path string, _ []byte) error { return os.Remove(path) }),
		of("of zeros", func(path string, text []byte) error { return os.WriteFile(path, make([]byte, len(text)), 0o600) }),
	}
}
