//go:build slow && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"linerate/internal/control/wire/ssh/sshtest"
	"linerate/internal/core/fleet"
	"linerate/internal/host/referee"
	"linerate/internal/must"
	"linerate/internal/store/postgres/postgrestest"
	"linerate/internal/store/sqlite"
	"linerate/internal/ui/config"
)

// TestSlowServeOfRootIsConfined builds linerate with cgo, in whose threads Go cannot drop
// privileges: started by root, serve refuses; with --unconfined it serves.
func TestSlowServeOfRootIsConfined(t *testing.T) {
	needRoot(t)
	needProgram(t, "gcc")
	program := filepath.Join(t.TempDir(), "linerate")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := build.CombinedOutput()
	must.Need(t, err == nil, "build with cgo: %v\n%s", err, out)
	serve := func(more ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // long enough to start and to report it
		defer cancel()
		cmd := exec.CommandContext(ctx, program, append([]string{"serve", "--listen", "127.0.0.1:0", "--lines"}, more...)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir())
		out, _ := cmd.CombinedOutput() // the output is the result
		return string(out)
	}
	said := serve()
	must.True(t, strings.Contains(said, "--unconfined") && !strings.Contains(said, "listening"), "without --unconfined:\n%s", said)
	must.Contain(t, serve("--unconfined"), "runs ", "with --unconfined")
}

// TestSlowSetOnABusyMachine holds a change until its deadline while every CPU is busy for as
// long: whichever end sees the deadline first reports it, and it is not an error.
func TestSlowSetOnABusyMachine(t *testing.T) {
	n := newNetns(t)
	over := time.Now().Add(6 * time.Second)
	var busy sync.WaitGroup
	defer busy.Wait()
	for range 2 * runtime.NumCPU() {
		busy.Go(func() {
			for time.Now().Before(over) {
			}
		})
	}
	r := run(t, n.inside(t, "near", setArgs("--for", "3s", "--both", n.agent("far"))...))
	n.restored(t)
	must.True(t, r.code == 0 && !strings.Contains(r.err, "deadline passed"), "exit code %d\n%s%s", r.code, r.out, r.err)
}

// TestEmulatedAgents: the agent of every other CPU, of both byte orders, reports its host's
// facts, measures, and sets and restores a value, under qemu-user.
func TestEmulatedAgents(t *testing.T) {
	for arch, emulator := range map[string]string{"arm": "arm", "arm64": "aarch64", "mipsle": "mipsel", "riscv64": "riscv64", "ppc64le": "ppc64le", "s390x": "s390x"} {
		t.Run(arch, func(t *testing.T) {
			emulator := referee.Program(t, "usr/bin/qemu-"+emulator+"-static")
			program := filepath.Join(t.TempDir(), "linerate")
			build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "./testdata/emulated")
			build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOARM=6", "GOMIPS=softfloat")
			out, err := build.CombinedOutput()
			must.Need(t, err == nil, "%v: %s", err, out)

			n := newNetns(t)
			far := fmt.Sprintf("exec:%s ip netns exec %s env EMULATOR=%s %s %s agent --state %s", farAddr, n.far, emulator, emulator, program, n.state("far"))
			linerate := func(args ...string) result { return run(t, n.inside(t, "near", args...)).succeeds(t) }
			linerate("facts", far).prints(t, arch, `tcp.recv_buffer_max`)
			linerate("test", far, "-t", "0.5s", "--omit", "0s", "--idle", "0s")
			for _, r := range n.session(t).Runs {
				for _, end := range r.Ends {
					for _, f := range end.Flows {
						must.True(t, f.Bytes > 1<<20, "%s %s: %d bytes", end.Host, f.Direction, f.Bytes)
					}
				}
			}
			linerate("set", "tcp.recv_buffer_max=1MiB", far, "--for", "1s").prints(t, " -> 1 MiB", "undone")
			n.restored(t)
		})
	}
}

// TestSlowPresetsInALab runs every preset in a lab: see TestPresetsInALab.
func TestSlowPresetsInALab(t *testing.T) { carryOut(t, func(config.Preset) bool { return true }) }

// TestSlowDocumentedCommands runs every command of the pages unchanged.
func TestSlowDocumentedCommands(t *testing.T) {
	documentedCommands(t, func(command string) string { return command })
}

func TestSlowCheckPacketSizes(t *testing.T) {
	checkPacketSizes(t, true, "small, and said so", "black hole both ways", "black hole one way", "two ends differ")
}

// TestSlowFarEndsOverSSH is TestFarEndsServed with two ssh servers, one of which accepts no
// connection after its first one was killed.
func TestSlowFarEndsOverSSH(t *testing.T) {
	n := netnsBeside(t)
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
	must.Until(t, "four runs", func() bool {
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

// TestFleet: three hosts measure with each other for a hub. Twice something is killed while it is
// needed: the near host of a look, and the hub. Then the hub's disk is full. What the hosts say
// they measured is stored, each look once.
func TestFleet(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir, r := isolated(t, file(t, "testdata", "fleet.sh"))
	out := filepath.Join(dir, "out")
	r.succeeds(t)
	has(t, "with a full disk", file(t, out, "full"), "3 hosts, 0 silent", "  hub     nothing can be stored; agents keep their results: ", ": no space left")
	must.Contain(t, file(t, out, "spool"), `"state":"done"`, "results on the hosts then")
	has(t, "views", file(t, out, "views"), "== matrix\n  Mbit/s    to h1  to h2  to h3\n", "round trip", "0 %", "  planned", "3 hosts, 3 pairs: up to 60 looks of each host an hour, each 25 s long, 42 % of its time; each pair comes up about every 3 min", "measures up to 100 % of the time, at up to 80 Mbit/s", "at up to 50 Mbit/s", "\n  up: at most 1 of 2 pairs at a time\n")
	must.Equal(t, file(t, out, "applied"), "applied: 1 group, 1 shared link\nh1: 1 host\nup: at most 1 of 2 pairs at a time\n")
	has(t, "operator", file(t, out, "operator"), "h1 measures nothing until ", "h1: it was drained", "h2 and h3 measure ", "this link may only look", "h1 measures again", "linerate agent --hub linerate://", "h3 is removed", "2 hosts, 0 silent")
	has(t, "metrics", file(t, out, "metrics"), "application/openmetrics-text", "linerate_hub_stores 1\n", `linerate_fleet_hosts{state="present"} 3`, `linerate_fleet_host_goodput_bytes_per_second{host="h2",direction="receives"} `, "# EOF")
	for _, name := range regexp.MustCompile(`linerate_\w+`).FindAllString(file(t, "..", "..", "deploy", "grafana", "linerate.json"), -1) {
		must.Contain(t, file(t, out, "metrics"), "\n"+name, "what the dashboard asks for")
	}
	must.Do(t, validate("linerate/fleet/v1", file(t, out, "json")))
	db := must.Get(sqlite.OpenFleet(t.Context(), filepath.Join(out, "hub.db")))(t)
	ended := map[string]int{}
	for _, l := range must.Get(db.News(t.Context(), fleet.Mark{}))(t).Leases {
		ended[string(l.State)+" "+l.Reason]++
		for _, run := range l.Runs {
			ended[run.Part]++
			must.True(t, run.Goodput == nil || *run.Goodput < 85e6, "faster than its owners allow: %v", run.Goodput)
		}
	}
	must.Do(t, db.Close())
	done := len(regexp.MustCompile(`(?m)^look with h\d: .*runs$`).FindAllString(file(t, out, "h1")+file(t, out, "h2")+file(t, out, "h3"), -1))
	must.True(t, ended["done "] == done && done >= 3 && ended["packets"] >= done && ended["lost the agent ended while it measured"] == 1, "%d looks were measured, and stored are %v", done, ended)
	must.True(t, decode[fleet.Status](t, file(t, out, "json")).Hour[fleet.Done] <= done, "the hub counts more than the %d looks that were measured", done)
	must.Equal(t, strings.Count(file(t, out, "hub"), "has joined"), 3, "hosts that joined")
}

// TestSeveralHubs: two hubs share a PostgreSQL database, which one of them leaves while it plans.
// A host joins at the other one with an invitation for one host.
func TestSeveralHubs(t *testing.T) {
	t.Parallel()
	needRoot(t)
	server, err := postgrestest.Start(t.Context())
	must.SkipIf(t, errors.Is(err, postgrestest.ErrMissing), "%v", err)
	must.Do(t, err)
	defer func() { must.OK(t, server.Stop()) }()
	must.Do(t, os.Chmod(server.Dir, 0o755)) // hubs give up root
	dir, r := isolated(t, file(t, "testdata", "hubs.sh"), "DB="+must.Get(server.Database(t.Context()))(t))
	out := filepath.Join(dir, "out")
	r.succeeds(t)
	must.Contain(t, file(t, out, "init"), "has the key and the links of 10.77.0.4,10.77.0.5")
	must.Contain(t, file(t, out, "other"), "know their hub by another key")
	must.Contain(t, file(t, out, "invite"), "1 host may join with it until ")
	must.Contain(t, file(t, out, "late"), "the hub refuses")
	s := decode[fleet.Status](t, file(t, out, "json"))
	must.True(t, len(s.Hosts) == 3 && len(s.Faults) == 0 && s.Hour[fleet.Done] >= 3, "%+v", s)
	must.Equal(t, strings.Count(file(t, out, "hub4")+file(t, out, "hub5"), "has joined"), 3, "hosts that joined, as both hubs tell")
}
