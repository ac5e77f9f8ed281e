package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// cgroups end all that is in the cgroup of the agent at once, as systemctl stop
// does: the watchdog that systemd has put into a scope of its own undoes, and what
// one that shares the cgroup leaves the next linerate does.
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

// enterCgroup has the agent of the case's host begin in a cgroup of its own.
func (r *faultRun) enterCgroup() {
	r.t.Helper()
	r.cgroup = newCgroup(r.t)
	script := "#!/bin/sh\necho $$ > " + filepath.Join(r.cgroup, "cgroup.procs") + "\nexec \"$@\"\n"
	must.Do(r.t, os.WriteFile(r.enterPath(), []byte(script), 0o700))
}

// enterPath is a command that runs its arguments in the cgroup.
func (r *faultRun) enterPath() string { return filepath.Join(r.dir, "enter-cgroup") }

// newCgroup makes a cgroup that ends with the test, and with all that is in it.
func newCgroup(t *testing.T) string {
	t.Helper()
	roots := []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}
	i := slices.IndexFunc(roots, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "cgroup.controllers"))
		return err == nil
	})
	if i < 0 {
		t.Skip("no cgroup v2 here")
	}
	dir := filepath.Join(roots[i], fmt.Sprintf("linerate-test-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skipf("no cgroup of its own: %v", err)
	}
	t.Cleanup(func() {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		eventually(t, 10*time.Second, "the end of "+dir, func() bool { return os.Remove(dir) == nil })
	})
	return dir
}

// scopes makes a root in which the agent is in a service of systemd, whose
// systemd-run puts what it starts into the cgroup scope.
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
