package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/must"
)

// A failed job is not a success: each row says what happened, how the command ends, and what its
// last words contain. It is a row of the table in the manual, with the same name.
var failures = []struct {
	name  string
	args  string // {a}, {b}: the agents of the hosts; {killed}: one that is killed in its run; {open}: a server that measures only; {full}: a full disk
	user  bool   // without privileges
	code  int
	words []string
}{
	{"the far host is lost for good", "test {killed} --to -t 20s --omit 0 --idle 0s --timeout 1s", false, 3, []string{"contact lost", "to reach the host again"}},
	{"the far host is lost for good", "run {killed} --factor window=16KiB,64KiB --direction to -t 20s --omit 0 --timeout 1s", false, 3, []string{"contact lost"}},
	{"no right to change settings", "tune {open} --dry-run", true, 4, []string{"tune can set nothing on either host", "has no root rights", "serve --allow-tune"}},
	{"no right to change settings", "run {open} --factor near.tcp.sack=on,off --dry-run", true, 4, []string{"tcp.sack cannot be set on this machine: linerate has no root rights"}},
	{"no right to change settings", "set tcp.sack=off --for 5s", true, 4, []string{"nothing can be set on this machine: linerate has no root rights"}},
	{"a server that measures only", "run {open} --factor far.tcp.sack=on,off", false, 4, []string{"tcp.sack cannot be set on", "without a key measure"}},
	{"a server that measures only", "set tcp.sack=off --for 5s {open}", false, 4, []string{"nothing can be set on", "without a key measure"}},
	{"a plan that a host does not take", "run --from {a} {b} --factor far.tcp.congestion_control=reno,nosuch", false, 4, []string{"nosuch cannot be applied", `the kernel has no "nosuch"`, "nothing was measured"}},
	{"a host that another linerate changes", "set tcp.recv_buffer_max=1MiB --for 5s {busy}", false, 3, []string{"in use by another linerate", "wait until it has ended"}},
	{"a host that another linerate changes", "set tcp.sack=off --for 5s {busy}", false, 3, []string{"has that value of tcp.sack from another linerate, which puts 1 back when it ends (process ", "wait until it has ended"}},
	{"results cannot be kept", "test {b} --to -t 1s --db {full}/results.db", false, 6, []string{"no space left", "--db PATH"}},
}

// TestFailures runs each row of the table, and requires that the manual has it.
func TestFailures(t *testing.T) {
	t.Parallel()
	manual := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "manual.md")))(t)
	for i, f := range failures {
		t.Run(fmt.Sprintf("%d %s", i, f.name), func(t *testing.T) {
			t.Parallel()
			must.Contain(t, string(manual), "\n| "+f.name+" | ", "the manual has no row %q", f.name)
			n := newNetns(t)
			text := f.args
			if strings.Contains(text, "{open}") {
				p := start(t, n.inside(t, "far", "serve", "--open", "--listen", farAddr+":5299", "--announce=false", "--state", filepath.Join(n.dir, "serve")))
				must.Until(t, "the server", func() bool { return strings.Contains(p.said(), "listening on") })
			}
			if strings.Contains(text, "{busy}") {
				p := start(t, n.inside(t, "near", "set", "tcp.sack=off", "--for", "2m", n.agent("far")))
				must.Until(t, "the other linerate", func() bool { return strings.Contains(n.knobs(t, "far").sack, "0") })
				defer p.signal(t, os.Interrupt)
			}
			args := strings.Fields(text)
			for i := range args {
				args[i] = map[string]string{"{a}": n.agent("near"), "{b}": n.agent("far"), "{busy}": n.agent("far"), "{open}": farAddr + ":5299", "{killed}": n.mortal(t)}[args[i]]
				if args[i] == "" {
					args[i] = strings.ReplaceAll(strings.Fields(text)[i], "{full}", n.full(t))
				}
			}
			cmd := n.inside(t, "near", args...)
			if f.user {
				cmd = n.asUser(t, args...)
			}
			has(t, "stderr", run(t, cmd).ends(t, f.code).err, f.words...)
		})
	}
}

// mortal returns an agent in the far host that is killed as soon as it starts a run, and not
// replaced.
func (n *netns) mortal(t *testing.T) string {
	t.Helper()
	once := filepath.Join(n.dir, "mortal")
	script := fmt.Sprintf(`#!/bin/sh
[ -e %[1]s.dead ] && { echo "the host is down" >&2; exit 255; }
(while ! ip netns exec %[2]s ss -Htn state established | grep -q .; do sleep 0.05; done; touch %[1]s.dead; kill -9 $$) &
exec ip netns exec %[2]s %[3]s agent --state %[4]s
`, once, n.far, binary, n.state("far"))
	must.Do(t, os.WriteFile(once, []byte(script), 0o700)) //nolint:gosec // it is a program
	return "exec:" + farAddr + " " + once
}

// full returns a directory on a full disk.
func (n *netns) full(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(n.dir, "full")
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	} else if err != nil {
		return dir
	}
	must.Do(t, syscall.Mount("none", dir, "tmpfs", 0, "size=64k,mode=700"))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	must.Do(t, os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 64<<10-8<<10), 0o600))
	return dir
}

// asUser prepares linerate in the near host for an unprivileged user.
func (n *netns) asUser(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	must.Do(t, os.Mkdir(home, 0o700))
	must.Do(t, os.Chown(home, 65534, 65534))
	for dir := filepath.Dir(home); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must.Do(t, os.Chmod(dir, 0o755)) //nolint:gosec // the user must be able to enter
	}
	program := filepath.Join(filepath.Dir(home), "linerate")
	must.Do(t, os.Link(binary, program))
	argv := append([]string{"netns", "exec", n.near, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "env", "HOME=" + home, program}, args...)
	cmd := n.prepare(exec.CommandContext(t.Context(), "ip", argv...))
	cmd.Env = append(cmd.Env, "LINERATE_DB="+filepath.Join(home, "r.db"), "LINERATE_STATE="+filepath.Join(home, "state"), "LINERATE_CONFIG="+filepath.Join(home, "config"))
	return cmd
}

// TestCopyHint: if an open server refuses a copy as too large, the hint says what to ask for, and
// that works.
func TestCopyHint(t *testing.T) {
	t.Parallel()
	_, link := publicServer(t, "--open", "--limit", "memory=256MiB")
	for _, c := range []struct {
		args, says []string
	}{
		{[]string{"--size", "2GiB"}, []string{"this agent allows", "ask for less than --size 2GiB", "gives 64MiB"}},
		{[]string{"--source", "memory", "--sink", "memory", "--size", "256MiB"}, []string{"256 MiB of memory", "ask for less than --size 256MiB"}},
		{[]string{"--sink", "/tmp/x", "--size", "1MiB"}, []string{"not from or to a path", "leave --source and --sink there"}},
	} {
		r := run(t, command(t, append([]string{"copy", link, "-q", "--blocks", "1"}, c.args...)...))
		must.True(t, r.code != 0, "%v: it was given", c.args)
		has(t, "the refusal", r.err, c.says...)
	}
	run(t, command(t, "copy", link, "-q", "--blocks", "1", "--size", "64MiB", "--sink", "memory", "--source", "memory")).ends(t, 0)
}

// TestFirstHour01CopyOfNothing: a source that is missing on a real far host is detected by its
// first copy there; a session that copied nothing exits with 5.
func TestFirstHour01CopyOfNothing(t *testing.T) {
	t.Parallel()
	r := run(t, command(t, "copy", "exec:127.0.0.1 "+binary+" agent --state "+t.TempDir(), "-q", "--reverse", "--source", "/nonexistent/file", "--size", "1MiB", "--blocks", "1"))
	must.True(t, r.code == 5, "exit code %d, want 5\n%s", r.code, r.err)
	has(t, "the end", r.err, "/nonexistent/file", "no such file")
}

// selftestDocument is the part of linerate/selftest/v1 that these tests read.
type selftestDocument struct {
	Lines []struct{ Part, Name, State, Text string }
}

// TestSelftestInALab: in a separate host every harmless writable setting is set, restored and
// read again by sysctl; and the file has the whole report.
func TestSelftestInALab(t *testing.T) {
	labBeside(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "report.json")
	names := "net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_mtu_probing net.core.somaxconn net.ipv4.tcp_max_syn_backlog"
	script := "sysctl " + names + "; '" + binary + "' selftest --settings --yes --json -o '" + file + "' --db '" + dir + "/r.db' --state '" + dir + "/state' >/dev/null; echo code $?; sysctl " + names
	r := run(t, command(t, "lab", "rate=100mbit,rtt=2ms", "--", "sh", "-c", script))
	before, after, ok := strings.Cut(r.out, "code 0\n")
	must.Need(t, r.code == 0 && ok && before == after && strings.Contains(before, "tcp_rmem"), "exit code %d, before:\n%safter:\n%s%s", r.code, before, after, r.err)
	b := must.Get(os.ReadFile(file))(t)
	must.OK(t, validate("linerate/selftest/v1", string(b)))
	changed := map[string]string{}
	for _, l := range decode[selftestDocument](t, string(b)).Lines {
		if l.Part == "changes" {
			changed[l.Name] = l.State + ": " + l.Text
		}
		must.True(t, l.State != "wrong", "%+v", l)
	}
	for _, name := range []string{"tcp.recv_buffer_max", "tcp.send_buffer_max", "tcp.mtu_probing", "tcp.listen_queue", "tcp.syn_queue"} {
		must.True(t, strings.HasPrefix(changed[name], "ok: ") && strings.HasSuffix(changed[name], " again"), "%s: %q", name, changed[name])
	}
	run(t, command(t, "selftest", "-o", file)).ends(t, 2, "there is such a file")
}

// TestLabCongestionIsExplained: an algorithm that this machine reserves for root cannot be the
// default of a lab's host, and the error names the file of the machine that would allow it. An
// algorithm that every user may use is set.
func TestLabCongestionIsExplained(t *testing.T) {
	labBeside(t)
	words := func(name string) []string {
		text, err := os.ReadFile("/proc/sys/net/ipv4/" + name)
		orPanic(err)
		return strings.Fields(string(text))
	}
	allowed := words("tcp_allowed_congestion_control")
	try := func(name string) result {
		return run(t, command(t, "test", "lab:rate=10mbit,rtt=1ms,near.tcp.congestion_control="+name, "-t", "200ms", "--omit", "0s", "--idle", "0s", "-q", "--db", ":memory:"))
	}
	try(allowed[0]).ends(t, 0)
	for _, name := range words("tcp_available_congestion_control") {
		if slices.Contains(allowed, name) {
			continue
		}
		r := try(name)
		said := strings.Join(strings.Fields(r.err), " ")
		must.True(t, r.code != 0 && strings.Contains(said, "sysctl -w net.ipv4.tcp_allowed_congestion_control='"+strings.Join(append(slices.Clone(allowed), name), " ")+"'"), "%s: exit code %d\n%s", name, r.code, r.err)
		return
	}
	t.Skip("this machine lets everybody use all algorithms that it has")
}

// TestFactsOfALab reads a host over a session: the agent's facts in the published form, with the
// interface that leads here first.
func TestFactsOfALab(t *testing.T) {
	labBeside(t)
	out := succeed(t, "facts", "lab:rate=100mbit,mtu=1400", "--json").out
	must.OK(t, validate("linerate/facts/v1", out))
	type text struct {
		Value string `json:"value"`
	}
	type number struct {
		Value float64 `json:"value"`
	}
	doc := decode[struct {
		Facts struct {
			Host    string `json:"host"`
			Machine struct {
				Threads number `json:"threads"`
				Memory  number `json:"memory"`
			} `json:"machine"`
			Route struct {
				Interface text `json:"interface"`
				Source    text `json:"source"`
			} `json:"route"`
			NICs []struct {
				Name     string `json:"name"`
				Kind     text   `json:"kind"`
				MTU      number `json:"mtu"`
				MTUMax   number `json:"mtu_max"`
				Offloads struct {
					Value []struct {
						Name string `json:"name"`
					} `json:"value"`
				} `json:"offloads"`
			} `json:"nics"`
		} `json:"facts"`
	}](t, out)
	f := doc.Facts
	must.True(t, f.Host == "far" && f.Machine.Threads.Value >= 1 && f.Machine.Memory.Value >= 1<<26 && f.Route.Source.Value != "", "%+v", f)
	must.True(t, len(f.NICs) != 0 && f.NICs[0].Name == f.Route.Interface.Value && f.NICs[0].Kind.Value != "" && f.NICs[0].MTU.Value >= 68 && f.NICs[0].MTUMax.Value >= 1500 && len(f.NICs[0].Offloads.Value) != 0, "%+v", f.NICs)
}

// TestFirstHour17KnobsOfTheDefaultRoute: without --interface the settings of a link are those of
// the interface with the default route.
func TestFirstHour17KnobsOfTheDefaultRoute(t *testing.T) {
	n := netnsBeside(t)
	ip(t, "-n", n.near, "route", "add", "default", "via", farAddr)
	for _, args := range [][]string{{"knobs", "-q"}, {"knobs", "-q", "--interface", "v0"}} {
		r := run(t, n.inside(t, "near", args...))
		if r.code != 0 || !strings.Contains(r.out, "link and route: v0 ") || !regexp.MustCompile(`(?m)^  link\.mtu +1500 B .* mtu of v0$`).MatchString(r.out) ||
			!regexp.MustCompile(`(?m)^  route\.mtu +unset .* mtu of default`).MatchString(r.out) {
			t.Errorf("%q: exit code %d\n%s%s", args, r.code, r.out, r.err)
		}
	}
	run(t, n.inside(t, "far", "knobs", "-q")).ends(t, 0).prints(t, "no way out of this host is known") // without a default route
}
