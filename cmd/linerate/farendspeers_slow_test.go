//go:build slow && linux

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/control/wire/ssh/sshtest"

	"linerate/internal/must"
)

// TestSlowFarEndsOverSSH is TestFarEndsServed with two ssh servers, of which one takes no connection
// any more after its first was killed.
func TestSlowFarEndsOverSSH(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	temp := func(name string) string {
		dir := filepath.Join(n.dir, "tmp-"+name)
		orPanic(os.Mkdir(dir, 0o700))
		return dir
	}
	var config strings.Builder
	servers := map[string]*sshtest.Server{}
	for _, name := range []string{"one", "two"} {
		s := sshtest.Start(t, sshtest.Options{Namespace: n.far, Proxy: true, HostName: farAddr, Env: map[string]string{"LINERATE_STATE": n.state("far") + name, "TMPDIR": temp(name)}})
		text := must.Get(os.ReadFile(s.Config))(t)
		config.WriteString(strings.Replace(string(text), "Host *\n", "Host "+name+"\n", 1) + "\n")
		servers[name] = s
	}
	file := filepath.Join(n.dir, "ssh_config")
	orPanic(os.WriteFile(file, []byte(config.String()), 0o600))
	both := func(args ...string) *process {
		cmd := n.inside(t, "near", args...)
		cmd.Env = append(cmd.Env, "LINERATE_SSH=ssh -F "+file)
		return start(t, cmd)
	}
	r := both(acrossArgs("6", "root@one", "root@two")...).wait(t, patience).succeeds(t)
	valid, lost, atEqualLoad := farCounts(decode[document](t, r.out).Session)
	must.True(t, valid["root@one"] == 6 && valid["root@two"] == 6 && lost+atEqualLoad == 0, "%v, %d and %d lost", valid, lost, atEqualLoad)
	p := both(acrossArgs("12", "root@one", "root@two", "--db", filepath.Join(n.dir, "dies.db"))...)
	eventually(t, patience, "four runs", func() bool {
		return strings.Contains(run(t, n.inside(t, "near", "show", "last", "--json", "--db", filepath.Join(n.dir, "dies.db"))).out, `"number": 4`)
	})
	orPanic(os.WriteFile(filepath.Join(servers["two"].Dir, "start"), []byte("exit 1\n"), 0o700))
	killed := 0
	for _, pid := range sshtest.Children(p.cmd.Process.Pid) {
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if text := strings.ReplaceAll(string(line), "\x00", " "); strings.HasPrefix(text, "ssh -F") && strings.Contains(text, "root@two") {
			orPanic(syscall.Kill(pid, syscall.SIGKILL))
			killed++
		}
	}
	must.Need(t, killed != 0, "no ssh to the second far end was found")
	wentOn(t, p.wait(t, patience))
}
