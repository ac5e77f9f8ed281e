package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"

	"linerate/internal/core/lists"
	"linerate/internal/core/plain"
	"linerate/internal/must"
)

// TestScript runs the program as a user does, one behaviour per file.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: must.Updating(),
		Setup: func(env *testscript.Env) error {
			for key, value := range userEnv(env.WorkDir) {
				env.Setenv(key, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"document": documentCommand,
			"plain":    plainCommand,
			"code":     codeCommand,
		},
	})
}

// userEnv is the environment of a new user whose home is under dir.
func userEnv(dir string) map[string]string {
	return map[string]string{
		"PATH":           filepath.Dir(binary) + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME":           dir,
		"LINERATE_DB":    filepath.Join(dir, "results.db"),
		"LINERATE_STATE": filepath.Join(dir, "state"),
		"XDG_DATA_HOME":  "",
		"NO_COLOR":       "",
		"TERM":           "xterm",
		"LINERATE_MDNS":  "off",
		"LINERATE_WAIT":  "0s",
	}
}

// codeCommand runs a program and requires an exit code: code 2 linerate ...
func codeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program args...")
	}
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[1], args[2:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), &stdout, &stderr
	for _, key := range []string{"PATH", "HOME", "LINERATE_DB", "LINERATE_STATE", "NO_COLOR", "TERM", "LINERATE_MDNS", "LINERATE_WAIT", "LINERATE_SSH"} {
		cmd.Env = append(cmd.Env, key+"="+ts.Getenv(key))
	}
	cmd.Args[0] = args[1]
	if args[1] == "linerate" {
		cmd.Path, cmd.Err = binary, nil
	}
	_ = cmd.Run() // the exit code shows it
	_, _ = ts.Stdout().Write(stdout.Bytes())
	_, _ = ts.Stderr().Write(stderr.Bytes())
	transcribe(ts, args[1:], stdout.String()+stderr.String(), cmd.ProcessState)
	ts.Check(os.WriteFile(ts.MkAbs("out"), stdout.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), stderr.Bytes(), 0o600))
	state := cmd.ProcessState
	if state == nil {
		ts.Fatalf("%s did not start", args[1])
	}
	if want := args[0]; want != state.String()[len("exit status "):] {
		ts.Fatalf("%s: want exit code %s\n%s%s", state, want, stdout.String(), stderr.String())
	}
}

// transcribe appends a command, its output and its exit code to the file transcript, which a
// script may compare with its own.
func transcribe(ts *testscript.TestScript, args []string, said string, end *os.ProcessState) {
	f, err := os.OpenFile(ts.MkAbs("transcript"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	ts.Check(err)
	words := make([]string, len(args))
	for i, word := range args {
		words[i] = plain.ShellWord(word)
	}
	code := -1
	if end != nil {
		code = end.ExitCode()
	}
	text := fmt.Sprintf("$ %s\n%s[%d]\n\n", strings.Join(words, " "), said, code)
	_, err = f.WriteString(strings.ReplaceAll(text, ts.Getenv("WORK"), "/home/me"))
	ts.Check(errors.Join(err, f.Close()))
}

// documentCommand requires that a file (or stdout) is one JSON document of this schema: document
// linerate/list/v1 stdout
func documentCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: document SCHEMA FILE")
	}
	if err := validate(args[0], ts.ReadFile(args[1])); err != nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
}

// plainCommand requires that a file (or stdout, stderr) contains no terminal control characters.
func plainCommand(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		if i := strings.IndexAny(ts.ReadFile(name), "\x1b\r\b"); (i >= 0) != neg {
			ts.Fatalf("%s: control characters: %v", name, i >= 0)
		}
	}
}

// validate checks that text is exactly one document of the named format, and valid for its
// published schema.
func validate(format, text string) error {
	var doc map[string]any
	dec := json.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(&doc); err != nil {
		return err
	}
	var more any
	if err := dec.Decode(&more); err != io.EOF {
		return &json.SyntaxError{Offset: dec.InputOffset()}
	}
	file := strings.ReplaceAll(strings.TrimPrefix(format, "linerate/"), "/", "-") + ".schema.json"
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "schema", file))
	if err != nil {
		return err
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(b, &schema); err != nil {
		return err
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return err
	}
	return resolved.Validate(doc)
}

// commands returns the commands in the help.
func commands(t testing.TB) []string {
	t.Helper()
	names := lists.Each(regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`).FindAllStringSubmatch(succeed(t, "--help").out, -1), func(m []string) string { return m[1] })
	must.Need(t, len(names) >= 14 && slices.Contains(names, "test"), "commands of the help: %q", names)
	return names
}

// TestHelpHasExamples requires an example in the help of every command, and that the program
// knows every command and flag in it. A final --help ends a command before it does anything,
// but after its flags are parsed.
func TestHelpHasExamples(t *testing.T) {
	t.Parallel()
	for _, name := range commands(t) {
		t.Run(name, func(t *testing.T) {
			help := succeed(t, "help", name).out
			_, rest, ok := strings.Cut(help, "Examples:\n")
			must.Need(t, ok, "no examples:\n%s", help)
			examples, _, _ := strings.Cut(rest, "\n\n")
			for line := range strings.Lines(examples) {
				example(t, strings.TrimSpace(line))
			}
		})
	}
}

func example(t testing.TB, line string) {
	t.Helper()
	words, ok := strings.CutPrefix(line, "linerate ")
	if !ok {
		t.Errorf("%q does not begin with linerate", line)
		return
	}
	words, _, _ = strings.Cut(words, " > ")
	before, _, _ := strings.Cut(words, " -- ")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "linerate "+before+" --help")
	cmd.Env = os.Environ()
	for key, value := range userEnv(t.TempDir()) {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	run(t, cmd).ends(t, 0).prints(t, "Usage:")
}

// TestExampleWithUnknownFlag checks that the test above detects an unknown flag.
func TestExampleWithUnknownFlag(t *testing.T) {
	t.Parallel()
	run(t, command(t, "test", "nas", "--no-such-flag", "--help")).ends(t, 2) // a flag that does not exist, then --help
}

// TestServeDocument requires that a server with --json prints its link in one document before any
// client connects, and ends cleanly on request.
func TestServeDocument(t *testing.T) {
	t.Parallel()
	cmd := command(t, "serve", "--listen", "127.0.0.1:0", "--json")
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	var doc json.RawMessage
	must.Do(t, json.NewDecoder(out).Decode(&doc))
	must.OK(t, validate("linerate/serve/v1", string(doc)))
	if runtime.GOOS == "windows" {
		_ = cmd.Process.Kill() // there is no other way to end it
		_ = cmd.Wait()
		return
	}
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	must.OK(t, cmd.Wait(), "serve ended with")
}

// TestSchemasRefuse requires that no schema accepts another one's document, or an unknown field.
func TestSchemasRefuse(t *testing.T) {
	t.Parallel()
	paths := must.Get(filepath.Glob(filepath.Join("..", "..", "docs", "schema", "*.json")))(t)
	must.Need(t, len(paths) >= 9, "%d schemas", len(paths))
	version := succeed(t, "version", "--json").out
	must.OK(t, validate("linerate/version/v1", version))
	for _, p := range paths {
		name, number, _ := strings.Cut(strings.TrimSuffix(filepath.Base(p), ".schema.json"), "-")
		must.True(t, name == "version" || validate("linerate/"+name+"/"+number, version) != nil, "the schema of %s accepts a document of version", name)
	}
	more := strings.Replace(version, "{", `{"extra": 1,`, 1)
	must.True(t, validate("linerate/version/v1", more) != nil && validate("linerate/version/v1", version+version) != nil, "an unknown field, or a second document, is accepted")
}

// TestExitCodesInManual compares the manual's list with the program's.
func TestExitCodesInManual(t *testing.T) {
	t.Parallel()
	b := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "manual.md")))(t)
	lines := regexp.MustCompile(`(?m)^  (\d+) +(.*)$`).FindAllStringSubmatch(succeed(t, "help", "exit-codes").out, -1)
	must.Need(t, len(lines) == 11, "%d exit codes", len(lines))
	for _, l := range lines {
		must.Contain(t, string(b), "| "+l[1]+" | "+l[2]+" |", "docs/manual.md has no row")
	}
}
