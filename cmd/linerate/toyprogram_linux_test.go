package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/must"
)

// TestToyProgram: a folder and a line in the list make a program of another kind whose
// scheme works in test, run, plan files, JSON, the store and the report, and whose
// clients serve answers, writes down and keeps.
func TestToyProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, log := filepath.Join(dir, "results.db"), filepath.Join(dir, "audit.log")
	try := func(args ...string) result {
		cmd := command(t, args...)
		cmd.Path = os.Args[0]
		cmd.Env = append(cmd.Env, "LINERATE_TEST_MAIN=1", toyVar+"=1")
		return run(t, cmd)
	}
	do := func(code int, args ...string) result {
		t.Helper()
		r := try(args...)
		must.Need(t, r.code == code, "%s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.err)
		return r
	}
	serve, served := keeping(t, "--toy=127.0.0.1:0", "--audit", log, "--unconfined") // where the test was built with cgo
	serve.Path = os.Args[0]
	serve.Env = append(serve.Env, "LINERATE_TEST_MAIN=1", toyVar+"=1")
	v := serveJSON(t, serve)
	far := "toy://" + v.Foreign["toy"]
	if _, _, err := net.SplitHostPort(strings.TrimPrefix(far, "toy://")); err != nil {
		t.Fatalf("%s is no address: %s", far, v.p.said())
	}
	// Its scheme, its flag, its lines of the report.
	has(t, "toy", do(0, "test", far, "--toy-rounds", "5", "--to", "--db", db).out, "5 toy bytes came back")
	// The store, the report made from it, and JSON.
	has(t, "toy", do(0, "show", "last", "--db", db).out, "5 toy bytes came back")
	has(t, "toy", strings.Join(strings.Fields(do(0, "show", "last", "--json=full", "--db", db).out), ""),
		`"engine":"toybytes"`, `"metric":"goodput","value":5`, `"own":["5toybytescameback"]`)
	// What it refuses, and what is said of it.
	has(t, "toy", do(2, "test", far, "--bytes", "1M", "--db", db).err, far+" counts no bytes", "leave out --bytes")
	has(t, "toy", do(2, "test", far, "--toy-rounds", "many", "--db", db).err, `--toy-rounds: "many" is not a number`)
	has(t, "toy", do(2, "test", "iperf3://127.0.0.1:1", "--toy-rounds", "5", "--db", db).err, "--toy-rounds: belongs to toy:// hosts")
	has(t, "toy", do(2, "test", "toy://", "--db", db).err, "not the address of an toy server", "toy://nas:5999")
	has(t, "toy", do(3, "test", "toy://127.0.0.1:1", "--db", db).err, "start it with: linerate serve --toy")
	has(t, "toy", do(0, "test", "--help").out, "--toy-rounds")
	has(t, "toy", strings.Join(strings.Fields(do(0, "serve", "--help").out), " "), "--toy answer", "--toy-mute", "at most 1000 bytes")
	// Plan files.
	plan := filepath.Join(dir, "plan.yaml")
	text := "far: " + far + "\nblocks: 6\nsettle: 0s\ntwin: false\nflow: {duration: 10ms}\nfactors: [{knob: window, levels: [64KiB]}]\n"
	must.Do(t, os.WriteFile(plan, []byte(text), 0o600))
	has(t, "toy", do(0, "run", plan, "--db", db).out, "3 toy bytes came back")
	// What the server kept and wrote down.
	eventually(t, patience, "a served result", func() bool {
		r := try("list", "--kind", "served", "--json", "--db", served)
		return strings.Count(r.out, `"toy client"`) > 1
	})
	has(t, "toy", do(0, "show", "last", "--db", served).out, "toy bytes came back")
	lineOf(t, log, "event=run-begin protocol=toy address=127.0.0.1 engine=toybytes")
	lineOf(t, log, "event=run-end protocol=toy address=127.0.0.1 engine=toybytes outcome=ok")
	// Who has not the line knows nothing of it.
	fails(t, 2, []string{"test", far}, "no way to reach toy:// hosts")
	fails(t, 2, []string{"serve", "--toy"}, "unknown flag: --toy")
}
