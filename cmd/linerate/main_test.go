package main

import (
	"bytes"
	"context"
	endian "encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/build"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/control/session"
	"linerate/internal/control/wire/stdio"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/ui/cli"
)

// rootVar names the root of the system's files for LINERATE_TEST_MAIN.
const rootVar = "LINERATE_TEST_ROOT"

// binary is the program, built once for all tests.
var binary string

// TestMain builds linerate. If a test started this test binary, it is linerate with crash points
// (crash_linux_test.go) or plays another role (roles_test.go).
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(play(role))
	}
	if os.Getenv("LINERATE_TEST_MAIN") != "" {
		env := cli.OS("test")
		env.AfterStep = crashPoint()
		env.Root = os.Getenv(rootVar)
		if os.Getenv(toyVar) != "" {
			env.Engines, env.Programs = withToy, withToyProgram()
		}
		if die := keepPoint(); die != nil {
			env.AfterStep = die
		}
		os.Exit(cli.Main(context.Background(), env, os.Args[1:]))
	}
	if signal.Ignored(os.Interrupt) { // in the background of a script: programs would inherit it
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		_ = p.Value.Set(strconv.Itoa(8 * runtime.NumCPU())) // tests mostly wait for other processes
	}
	_ = os.Setenv("LINERATE_MDNS", "off") // tests use a network only in namespaces of their own
	_ = os.Setenv("LINERATE_WAIT", "0s")  // no measurement of a test depends on other programs
	dir, err := os.MkdirTemp("", "linerate-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	_ = os.Setenv("LINERATE_CONFIG", filepath.Join(dir, "config")) // tests' hosts are not remembered
	binary = filepath.Join(dir, "linerate")
	program := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir+string(filepath.Separator), ".", "../linerate-agent")
	program.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := program.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build linerate and its agent: %v\n%s", err, out)
		return 1
	}
	if cache, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" {
		_ = os.Setenv("GOCACHE", filepath.Join(cache, "go-build")) // it was below the home that is replaced now
	}
	if os.Getenv("GOPATH") == "" {
		_ = os.Setenv("GOPATH", build.Default.GOPATH)
	}
	for key, value := range userEnv(dir) { // for programs that commands in this process start
		if key != "PATH" && key != "TERM" {
			_ = os.Setenv(key, value)
		}
	}
	return m.Run()
}

// result is the outcome of a program.
type result struct {
	out, err string
	code     int
}

// succeeds ends t unless the exit code is 0.
func (r result) succeeds(t must.TB) result {
	t.Helper()
	must.Need(t, r.code == 0, "exit code %d\n%s%s", r.code, r.out, r.err)
	return r
}

// exits ends t at another exit code than code.
func (r result) exits(t must.TB, code int) result {
	t.Helper()
	must.Need(t, r.code == code, "exit code %d, want %d\n%s%s", r.code, code, r.out, r.err)
	return r
}

// ends reports another exit code than code and each text that stderr lacks.
func (r result) ends(t must.TB, code int, says ...string) result {
	t.Helper()
	must.True(t, r.code == code, "exit code %d, want %d\n%s%s", r.code, code, r.out, r.err)
	for _, text := range says {
		must.Contain(t, r.err, text, "stderr")
	}
	return r
}

// prints reports each text that stdout lacks.
func (r result) prints(t must.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		must.Contain(t, r.out, text, "stdout")
	}
}

// command prepares linerate with a store and a journal of the test's own.
func command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), "LINERATE_DB="+filepath.Join(t.TempDir(), "results.db"),
		"LINERATE_STATE="+t.TempDir(), "LINERATE_CONFIG="+t.TempDir(), "NO_COLOR=1")
	cmd.WaitDelay = patience
	return cmd
}

// run runs cmd to its end.
func run(t testing.TB, cmd *exec.Cmd) result {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	must.Need(t, err == nil || errors.As(err, &exit), "%s: %v", strings.Join(cmd.Args, " "), err)
	return result{out.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// succeed runs linerate and demands exit code 0.
func succeed(t testing.TB, args ...string) result {
	t.Helper()
	return run(t, command(t, args...)).succeeds(t)
}

// decode reads one JSON document.
func decode[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	err := json.Unmarshal([]byte(text), &v)
	must.Need(t, err == nil, "no JSON: %v\n%s", err, text)
	return v
}

// patience is the timeout for what happens at once on an idle machine. It only matters if the
// program is broken.
const patience = must.Patience

// needRoot skips a test that makes network namespaces by name.
func needRoot(t testing.TB) {
	t.Helper()
	must.SkipIf(t, os.Geteuid() != 0, "needs root for network namespaces by name; the lab's tests run without")
	must.SkipIf(t, must.Err(exec.LookPath("ip")) != nil, "needs ip from iproute2")
}

// needLab skips a test if no lab is possible.
func needLab(t testing.TB) {
	t.Helper()
	r := run(t, command(t, "lab", "lan", "--", "true"))
	must.SkipIf(t, r.code == 4, "no lab here: %s", r.err)
	r.succeeds(t) // the lab does not start
}

// rootBeside is needRoot for a test that runs beside others.
func rootBeside(t *testing.T) {
	t.Helper()
	t.Parallel()
	needRoot(t)
}

// labBeside is needLab for a test that runs beside others.
func labBeside(t *testing.T) {
	t.Helper()
	t.Parallel()
	needLab(t)
}

// has requires that text contains all of want.
func has(t testing.TB, what, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		must.Contain(t, text, w, "%s:", what)
	}
}

// mismatched requires the error that names both sides and says what to do.
func mismatched(t testing.TB, text, mine, other string) {
	t.Helper()
	for _, want := range []string{
		"versions do not fit", otherVersion, "install the same linerate on both hosts",
		fmt.Sprintf("%s is linerate", mine), fmt.Sprintf("speaks session protocol %d", session.Protocol),
		fmt.Sprintf("%s is linerate %s and speaks %d", other, otherVersion, session.Protocol+1),
	} {
		must.Contain(t, text, want)
	}
}

// TestControllerRefusesAnotherProtocol: the agent speaks a later protocol and would accept the
// controller.
func TestControllerRefusesAnotherProtocol(t *testing.T) {
	t.Parallel()
	cmd := command(t, "test", "exec:127.0.0.1 "+os.Args[0]+" agent", "-t", "1s")
	cmd.Env = append(cmd.Env, roleVar+"=future-agent") // for the agent; linerate itself does not look
	mismatched(t, run(t, cmd).ends(t, 3).err, "the controller", "the agent")
}

// TestAgentRefusesAnotherProtocol is the reverse: the controller speaks a later protocol, and the
// agent is the installed one.
func TestAgentRefusesAnotherProtocol(t *testing.T) {
	t.Parallel()
	peer := must.Get(stdio.Start(t.Context(), []string{binary, "agent", "--state", t.TempDir()}, stdio.Options{}))(t)
	b := must.Get(json.Marshal(session.Hello{Protocol: session.Protocol + 1, Version: otherVersion, Host: model.Far}))(t)
	hello := endian.BigEndian.AppendUint16([]byte("lr-hello"), uint16(len(b)))
	must.Get(peer.Control.Write(append(hello, b...)))(t)
	said := must.Get(greeting(peer.Control, len("lr-reply?")))(t)
	mismatched(t, string(said), "the agent", "the controller")
	must.OK(t, peer.Close())
	why := peer.Why() // cleanly, and without a message
	must.True(t, why != nil && strings.HasSuffix(why.Error(), "ended"), "the agent: %v", why)
}
