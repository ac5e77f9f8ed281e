package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/measure/engine"
	"linerate/internal/measure/engines"
	"linerate/internal/measure/enginetest/toy"
	"linerate/internal/measure/enginetest/toyprogram"
	programs "linerate/internal/measure/foreign"
	"linerate/internal/measure/program"
	"linerate/internal/must"
)

// toyVar has the test binary, as linerate, know one engine more.
const toyVar = "LINERATE_TEST_TOY"

// withToy is the list of engines with one line more.
func withToy(o engines.Options) []engine.Engine { return append(engines.All(o), toy.Engine{}) }

// TestToyEngine: a folder and a line in the list make an engine that test, run, plan
// files, JSON, the store and the report know, at both ends.
func TestToyEngine(t *testing.T) {
	t.Parallel()
	far := "exec:127.0.0.1 " + os.Args[0] + " agent"
	dir := t.TempDir()
	db := filepath.Join(dir, "results.db")
	do := func(code int, args ...string) result {
		t.Helper()
		cmd := command(t, append(args, "--db", db)...)
		cmd.Path = os.Args[0]
		cmd.Env = append(slices.Clone(cmd.Env), "LINERATE_TEST_MAIN=1", toyVar+"=1")
		r := run(t, cmd)
		must.Need(t, r.code == code, "%s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.err)
		return r
	}
	// Its flags, its judge, its lines and its section of the report.
	has(t, "toy", do(0, "test", far, "--engine", "toy", "--rounds", "5", "--shout", "--to", "-q").out, "the byte came back 5 times")
	has(t, "toy", do(2, "test", far, "--engine", "toy", "--rounds", "many").err, `--rounds: "many" is not a number of rounds; write it like 3`)
	has(t, "toy", do(2, "test", far, "--rounds", "5").err, "--rounds: rounds belongs to the toy, not to engine tcpbulk; add --engine toy")
	has(t, "toy", do(2, "test", far, "--engine", "toy", "--rounds", "1001").err, "1001 rounds: not between 1 and 1000")
	has(t, "toy", do(2, "test", far, "--engine", "toyy").err, "loaded, toy")
	// The store, the report made from it, and JSON.
	has(t, "toy", do(0, "show", "last").out, "the byte came back 5 times", "the toy to ", "run  rounds\n", "1       5\n")
	has(t, "toy", strings.Join(strings.Fields(do(0, "show", "last", "--json=full").out), ""),
		`"engine":"toy"`, `"params":{"rounds":5,"shout":true}`, `"metric":"toy_rounds","value":5`, `"own":["thebytecameback5times"]`, `"toy":{"rounds":[5]}`)
	// Plan files.
	plan := filepath.Join(dir, "plan.yaml")
	write := func(flow string) {
		t.Helper()
		text := "far: \"" + far + "\"\nblocks: 6\nsettle: 0s\ntwin: false\nflow: {" + flow + ", duration: 10ms}\n" +
			"factors: [{knob: window, levels: [64KiB]}]\n"
		must.Do(t, os.WriteFile(plan, []byte(text), 0o600))
	}
	write("engine: toy, rounds: 7, shout: off")
	has(t, "toy", do(0, "run", plan, "--allow-exec", "-q").out, "the byte came back 7 times")
	write("engine: toy, rounds: 7, shout: loud")
	has(t, "toy", do(2, "run", plan, "--allow-exec").err, `"loud" is neither on nor off; write on or off`)
	write("engine: tcpbulk, rounds: 7")
	has(t, "toy", do(2, "run", plan, "--allow-exec").err, "rounds belongs to the toy, not to engine tcpbulk; write engine: toy")
	// What it may vary is a factor, in files and by flag; the rest, and what is of
	// another engine, is not.
	write("engine: toy")
	text := must.Get(os.ReadFile(plan))(t)
	vary := func(factor string) {
		t.Helper()
		must.Do(t, os.WriteFile(plan, []byte(strings.Replace(string(text), "{knob: window, levels: [64KiB]}", factor, 1)), 0o600))
	}
	vary("{knob: rounds, levels: [9]}")
	do(0, "run", plan, "--allow-exec", "-q")
	has(t, "toy", strings.Join(strings.Fields(do(0, "show", "last", "--json=full").out), ""),
		`{"knob":"rounds","value":"9"}`, `"params":{"rounds":9}`, `"metric":"toy_rounds","value":3`, `"metric":"toy_rounds","value":9`)
	byFlag := func(more ...string) []string {
		return append([]string{"run", far, "-t", "60ms", "--omit", "0s", "-i", "60ms", "--settle", "0s", "--blocks", "6", "--no-twin", "-q"}, more...)
	}
	do(0, byFlag("--requests", "0", "-l", "64", "--factor", "reply=64KiB")...)
	has(t, "toy", strings.Join(strings.Fields(do(0, "show", "last", "--json=full").out), ""),
		`{"knob":"reply","value":"65536"}`, `"params":{}`, `"params":{"reply":65536}`)
	vary("{knob: rounds, levels: [9, many]}")
	has(t, "toy", do(2, "run", plan, "--allow-exec").err, `"many" is not a number of rounds; write it like 3`)
	vary("{knob: shout, levels: [on, off]}")
	has(t, "toy", do(2, "run", plan, "--allow-exec").err, "shout is the same in all runs of a plan; say it of the flow")
	vary("{knob: reply, levels: [1KiB, 1024]}")
	has(t, "toy", do(2, "run", plan, "--allow-exec").err, `level "1024" has the same value as "1KiB"`, "reply belongs to engine reqresp, not to engine toy; write engine: reqresp")
	vary("{knob: far.reply, levels: [1KiB]}")
	has(t, "toy", do(2, "run", plan, "--allow-exec").err, "reply belongs to the flow, not to the far host; write reply without a host")
	has(t, "toy", do(2, byFlag("--engine", "toy", "--factor", "rounds=1001")...).err, "setting 1001: 1001 rounds: not between 1 and 1000")
	has(t, "toy", do(2, byFlag("--factor", "reply=1KiB")...).err, "reply belongs to engine reqresp, not to engine tcpbulk; add --requests")
	// Who has not the line knows nothing of it.
	run(t, command(t, "test", far, "--engine", "toy", "--db", db)).ends(t, 2, `"toy" is not one of`)
}

// withToyProgram is the list of foreign programs with one line more.
func withToyProgram() program.List { return append(programs.All(), toyprogram.Program()) }
