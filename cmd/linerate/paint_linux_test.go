package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/must"
	"linerate/internal/store/sqlite"
	"linerate/internal/ui/cli"
)

// unpainted requires that a command's output is safe to look at: no terminal commands, nothing
// that reverses text, no line made by another host.
func unpainted(t testing.TB, args []string, r result) {
	t.Helper()
	for stream, text := range map[string]string{"stdout": r.out, "stderr": r.err} {
		must.True(t, plain.Clean([]byte(text)), "%q: %s holds escapes: %q", args, stream, text)
		for line := range strings.Lines(text) {
			must.True(t, !strings.HasPrefix(line, "linerate: everything is fine"), "%q: %s holds a forged line:\n%s", args, stream, text)
		}
	}
	doc := strings.TrimSpace(r.out)
	must.True(t, !strings.HasPrefix(doc, "{") || json.Valid([]byte(doc)), "%q: not JSON:\n%s", args, doc)
}

// paintedStore makes a malicious database: escapes in every text.
func paintedStore(t testing.TB) string {
	t.Helper()
	db := filepath.Join(t.TempDir(), "painted.db")
	cmd := command(t, "test", "exec:127.0.0.1 "+binary+" agent", "--to", "-t", "100ms", "--omit", "0", "--db", db)
	run(t, cmd).succeeds(t)
	st := must.Get(sqlite.Open(t.Context(), db))(t)
	defer st.Close()
	s := must.Get(st.Session(t.Context(), "last"))(t)
	s.ID, s.Title, s.Reason, s.Note = s.ID+"x", "title"+paintRaw, "reason"+paintRaw, "note"+paintRaw
	s.Near, s.Far, s.Version = "near"+paintRaw, "far"+paintRaw, "v"+paintRaw
	s.State = model.SessionInterrupted
	s.Command, s.Warnings = []string{"linerate" + paintRaw}, []string{"warning" + paintRaw}
	for i := range s.Hosts {
		s.Hosts[i].Name, s.Hosts[i].OS = "host"+paintRaw, "linux"+paintRaw
	}
	for i := range s.Plan.Settings {
		s.Plan.Settings[i].Assignments = append(s.Plan.Settings[i].Assignments, model.Assignment{Host: model.Far, Knob: "tcp.sack", Value: "on" + paintRaw})
	}
	runs := s.Runs
	s.Runs, s.Changes = nil, nil
	must.Do(t, st.CreateSession(t.Context(), s))
	for _, r := range runs {
		r.Reason, r.Warnings = paintRaw, []string{"run" + paintRaw}
		for i := range r.Ends {
			r.Ends[i].Waiting, r.Ends[i].Warnings = "w"+paintRaw, []string{"end" + paintRaw}
			r.Ends[i].Counters = append(r.Ends[i].Counters, model.Counter{Name: "c" + paintRaw, Of: paintRaw, Value: 1})
		}
		change := model.Change{Run: r.Number, Host: model.Far, Knob: "tcp.sack", Native: "n" + paintRaw, Old: `"a` + paintRaw, New: `"b` + paintRaw, State: model.ChangeForeign, Detail: "d" + paintRaw}
		must.Do(t, st.AddRun(t.Context(), s.ID, r, nil, []model.Change{change}))
	}
	return db
}

// paintingSSH makes a program that pretends to be ssh.
func paintingSSH(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	words := filepath.Join(dir, "words")
	must.Do(t, os.WriteFile(words, []byte(paintRaw), 0o600))
	ssh := filepath.Join(dir, "ssh")
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = -G ] && { echo hostname 127.0.0.1; exit 0; }\ncat %s; cat %s >&2; exit 255\n", words, words)
	must.Do(t, os.WriteFile(ssh, []byte(script), 0o700))
	return ssh
}

// paintingServer answers every connection with escapes.
func paintingServer(t testing.TB) string {
	t.Helper()
	return listenAs(t, func(c net.Conn) {
		_, _ = c.Write([]byte(paintRaw + paintRaw))
		_ = c.Close()
	})
}

// paintedArgs returns for each command the arguments with which it meets malicious input; %s is
// the host. A command without foreign input has an empty list: it is run with --help.
func paintedArgs(file, db string) map[string][][]string {
	hosts := func(lines ...string) (all [][]string) {
		for _, l := range lines {
			all = append(all, strings.Fields(l))
		}
		return all
	}
	return map[string][][]string{
		"linerate test":             hosts("HOST --to -t 200ms --omit 0", "HOST --to -t 200ms --omit 0 --json"),
		"linerate mesh":             hosts("HOST --without-here --json", "HOST NAME=HOST -t 200ms"),
		"linerate watch":            hosts("HOST --once --probe-only --json", "HOST HOST --once", "--db "+db, "--show HOST --db "+db),
		"linerate sweep":            hosts("HOST --max 8 -t 1ms", "HOST --max 8 -t 1ms --json"),
		"linerate copy":             hosts("HOST:/nowhere", "HOST /nowhere", "/nowhere HOST"),
		"linerate run":              hosts("HOST --factor window=64KiB --blocks 1 -t 100ms --omit 0 --settle 0", "--resume last --db "+db, "--resume last --allow-exec --db "+db, file),
		"linerate check":            hosts("HOST --quick --json"),
		"linerate recheck":          hosts("--look", "HOST --look --db "+db),
		"linerate tune":             hosts("HOST --dry-run -t 1s --omit 0 --direction to --db " + db),
		"linerate annotate":         hosts("last x --db " + db),
		"linerate rm":               hosts("last --dry-run --db "+db, "-2 --db "+db),
		"linerate prune":            hosts("--dry-run --db " + db),
		"linerate limits":           nil,
		"linerate selftest":         hosts("--db "+file+" -o "+file+".txt", "-o "+file),
		"linerate docs":             hosts("HOST", "--search HOST"),
		"linerate demo":             nil,
		"linerate lab":              nil,
		"linerate list":             hosts("--db "+db, "--json --db "+db),
		"linerate show":             hosts("last --db "+db, "last --json --db "+db, "-2 --db "+db),
		"linerate report":           hosts("last --json --force -o "+file+".html --db "+db, "last --format markdown --db "+db, "last --format csv --db "+db, "last --format openmetrics --db "+db, "last --format benchstat --db "+db, "last --ticket --force --pictures "+filepath.Dir(db)+" --db "+db, "-2 --db "+db),
		"linerate ui":               hosts("--db "+file, "--port 70000 --db "+db),
		"linerate import":           hosts(file+" --db "+db, file+" --format csv --column setting="+file+" --column goodput=x:Mbit/s --db "+db),
		"linerate compare":          hosts("-2 -1 --db "+db, "-1 -2 --db "+db+" --json"),
		"linerate profile":          nil,
		"linerate profile save":     hosts("last - --db "+db, "last - --setting nothing --db "+db),
		"linerate profile show":     hosts(file),
		"linerate profile diff":     hosts(file, file+" HOST"),
		"linerate profile apply":    hosts(file+" --role near", file+" HOST --role far"),
		"linerate export":           hosts("last --db "+db, file+" --format sysctl"),
		"linerate facts":            hosts("HOST", "HOST --json"),
		"linerate knobs":            hosts("HOST", "HOST --json"),
		"linerate knobs explain":    nil,
		"linerate set":              hosts("tcp.sack=on HOST --for 1s", "tcp.sack=on HOST --for 1s --json"),
		"linerate keep":             hosts("last --db "+db, file+" HOST --dry-run", "HOST --list"),
		"linerate undo":             hosts("HOST", "HOST --json", "HOST --kept"),
		"linerate serve":            nil,
		"linerate serve key":        nil,
		"linerate serve key add":    hosts("a\x1b[2Jb --state "+file, "painted --host \x1b]0;x\x07nas"),
		"linerate serve key list":   hosts("--state " + file),
		"linerate serve key revoke": hosts("a\x1b[2Jb"),
		"linerate serve link":       hosts("--state " + file),
		"linerate fleet":            hosts("--hub HOST", "--hub HOST --json", "--hub @"+file),
		"linerate fleet matrix":     hosts("--hub HOST"),
		"linerate fleet queue":      hosts("--hub HOST"),
		"linerate fleet plan":       hosts("--hub HOST"),
		"linerate fleet drain":      hosts("a\x1b[2Jb --hub HOST"),
		"linerate fleet resume":     hosts("a\x1b[2Jb --hub HOST"),
		"linerate fleet remove":     hosts("a\x1b[2Jb --hub HOST"),
		"linerate fleet test":       hosts("a\x1b[2Jb nas --hub HOST"),
		"linerate fleet invite":     hosts("--hub HOST"),
		"linerate fleet apply":      hosts("/dev/null --hub HOST", file+" --hub HOST"),
		"linerate hub":              nil,
		"linerate tuner":            nil,
		"linerate agent":            nil,
		"linerate version":          nil,
		"linerate completion":       nil,
		"linerate completion bash":  nil, "linerate completion zsh": nil, "linerate completion fish": nil, "linerate completion powershell": nil,
		"linerate watchdog":   nil,
		"linerate lab-init":   nil,
		"linerate exit-codes": nil,
		"linerate help":       nil,
	}
}

// TestNobodyPaints runs every command against an agent, a server, an ssh, a file and a database
// with escapes everywhere.
func TestNobodyPaints(t *testing.T) {
	t.Parallel()
	db, ssh, server := paintedStore(t), paintingSSH(t), paintingServer(t)
	file := filepath.Join(t.TempDir(), "painted.yaml")
	must.Do(t, os.WriteFile(file, []byte("title: \""+strings.ReplaceAll(paintFair, "\n", `\n`)+`\e[2J"`+"\nfar: \"exec:1 \\e[2J\"\n"+strings.ToValidUTF8(paintFair, "")), 0o600))
	argument := strings.ReplaceAll(paintRaw, "\x00", "") // which an argument cannot contain
	hosts := []string{
		hostileTarget(paints), hostileTarget(paintsRaw), "root@painted", "iperf3://" + server, "iperf2://" + server,
		"netpipe://" + server, "linerate://uP2W8hvl0QyUPsbPpt7JYhtjzyVTAmKDCJOIOCmeqzk.c2VjcmV0IG9mIHRoZSB0ZXN0IGFuZCBub3RoaW5nIGVsc2U@" + server,
		"exec:127.0.0.1 " + argument, argument, "lab:" + argument,
	}
	known := paintedArgs(file, db)
	for _, path := range commandPaths(t) {
		all, ok := known[path]
		if !ok {
			t.Errorf("%s: say in paintedArgs how it meets what others say", path)
			continue
		}
		if len(all) == 0 {
			all = [][]string{{"--help"}}
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			for _, args := range all {
				visit := hosts
				if !strings.Contains(strings.Join(args, " "), "HOST") {
					visit = hosts[:1]
				}
				for _, host := range visit {
					words := strings.Fields(path)[1:]
					for _, arg := range args {
						words = append(words, strings.ReplaceAll(arg, "HOST", host))
					}
					cmd := command(t, words...)
					cmd.Env = append(cmd.Env, "LINERATE_SSH="+ssh)
					cmd.Stdin = strings.NewReader("")
					unpainted(t, words, run(t, cmd))
				}
			}
		})
	}
}

// commandPaths returns all of the program's commands, including hidden ones.
func commandPaths(t testing.TB) []string {
	t.Helper()
	var all []string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.HasParent() {
			all = append(all, c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cli.Commands())
	must.Need(t, len(all) >= 20, "only %q", all)
	return all
}
