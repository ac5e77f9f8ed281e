package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/must"
	"linerate/internal/report/watch"
)

// TestWatch looks twice at a host that answers and at one that does not, as a timer would: the
// announcement, the screen, the list, and the --exec command's input.
func TestWatch(t *testing.T) {
	t.Parallel()
	db, events := filepath.Join(t.TempDir(), "results.db"), filepath.Join(t.TempDir(), "events")
	_, host, _ := strings.Cut(meshHosts(t, 1)[0], "=")
	for i := range 2 {
		cmd := command(t, "watch", host, "exec:127.0.0.9 false", "--once", "--probe-only", "--db", db, "--exec", "cat >> "+events)
		cmd.Env = append(cmd.Env, "LINERATE_RETENTION=5m")
		r := run(t, cmd)
		r.ends(t, 3, "127.0.0.2: a look every 1 h sends 500 kB, 12 MB a day", "127.0.0.2: round trip ", "no look at 127.0.0.9: ", "linerate: no look at 127.0.0.9: ", "LINERATE_RETENTION: \"5m\" is no time")
		must.Equal(t, strings.Contains(r.out, "127.0.0.9 could not be reached at 2 looks in a row"), i == 1, "look %d: %s", i, r.out)
	}
	text := string(must.Get(os.ReadFile(events))(t))
	must.Do(t, validate(watch.EventSchema, text))
	must.Equal(t, decode[watch.Event](t, text).Kind, "away", "told")
	text = succeed(t, "watch", "--json", "--db", db).out
	must.Do(t, validate(watch.Schema, text))
	d := decode[watch.Document](t, text)
	must.True(t, len(d.Hosts) == 2 && d.Hosts[0].Looks == 2 && len(d.Hosts[0].Streams) == 3 && d.Hosts[1].Missed == 2, "%s", text)
	has(t, "show", succeed(t, "show", d.Hosts[0].Session, "--db", db).out, "latency ")
	has(t, "watch", succeed(t, "watch", host, "--show", "--db", db).out, "127.0.0.2   2 looks", "round trip    ", "too few looks")
	run(t, command(t, "list", "--db", db)).ends(t, 0, "no sessions in")
	must.Equal(t, strings.Count(succeed(t, "list", "--kind", "watch", "--db", db).out, "  watch  "), 4, "looks in the list")
	cmd := command(t, "watch", host, "--probe-only", "--wait", "0s", "--db", db)
	said := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	for lines := bufio.NewScanner(said); lines.Scan() && !strings.Contains(lines.Text(), "127.0.0.2: round trip"); {
	}
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	must.Fail(t, cmd.Wait())
	must.Equal(t, cmd.ProcessState.ExitCode(), 130, "exit code of Ctrl-C")
	has(t, "after Ctrl-C", succeed(t, "watch", host, "--show", "--db", db).out, "127.0.0.2   3 looks")
	for args, says := range map[string]string{
		"nas nas": "named twice", "nas --every 5s": "--every: 5 s is shorter", "nas --margin 0.1%": "--margin: ", "nas -t 10ms": "--time: ", "nas -P 0": "--parallel: ", "iperf3://nas": "runs linerate", "nas --through ssh": "--through ssh",
	} {
		run(t, command(t, append([]string{"watch", "--once"}, strings.Fields(args)...)...)).ends(t, 2, says)
	}
	run(t, command(t, "watch", "--install")).ends(t, 2, "there is nothing to look at")
	run(t, command(t, "watch", "nas", "--print-unit", "--json")).ends(t, 2, "leave out --json")
}
