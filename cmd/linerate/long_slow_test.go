//go:build slow && linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"linerate/internal/control/wire/ssh/sshtest"
	"linerate/internal/host/referee"
	"linerate/internal/must"
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
func TestSlowPresetsInALab(t *testing.T) {
	carryOut(t, func(config.Preset) bool { return true })
}

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
