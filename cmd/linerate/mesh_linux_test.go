package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report/watch"
)

// meshHosts returns hosts of a mesh on the loopback addresses 127.0.0.2 and up, each with its own
// agents.
func meshHosts(t testing.TB, n int) (hosts []string) {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		hosts = append(hosts, fmt.Sprintf("h%d=exec:127.0.0.%d %s agent --state %s", i+1, i+2, binary, filepath.Join(dir, fmt.Sprint(i))))
	}
	return hosts
}

// mesh prepares linerate mesh; for root the loopback of its hosts carries 200 Mbit/s.
func mesh(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, append([]string{"mesh"}, args...)...)
	if os.Geteuid() == 0 {
		n := fastNetns(t)
		n.limit(t, "lo")
		cmd.Path, cmd.Args = must.Get(exec.LookPath("ip"))(t), append([]string{"ip", "netns", "exec", n.near}, cmd.Args...)
	}
	return cmd
}

// meshReport is the part of a document that only a mesh has.
type meshReport struct {
	Session model.Session `json:"session"`
	Report  struct {
		Mesh struct {
			Hosts []string `json:"hosts"`
			Ways  []struct {
				From, To string
				Goodput  *float64
				Why      string
			} `json:"ways"`
			Odd []struct{ Name, Text string } `json:"odd"`
		} `json:"mesh"`
	} `json:"report"`
}

// runsOfWays counts the runs of each way; a run spoilt by a busy machine is repeated.
func runsOfWays(s model.Session) map[string]int {
	n := map[string]int{}
	for _, r := range s.Runs {
		n[r.Setting]++
	}
	return n
}

// TestMesh: all pairs of three hosts are measured in both directions, in every round; an
// unreachable host is named and ends nothing; every format shows the session.
func TestMesh(t *testing.T) {
	t.Parallel()
	db, dir := filepath.Join(t.TempDir(), "results.db"), t.TempDir()
	list := filepath.Join(dir, "hosts.txt")
	must.Do(t, os.WriteFile(list, []byte("# the lab\n"+strings.Join(meshHosts(t, 3), "\n")+"\ngone=exec:127.0.0.9 false # not there\n\n"), 0o600))
	r := run(t, mesh(t, "--hosts", list, "--without-here", "--rounds", "2", "-t", "200ms", "-P", "1", "--fail-on", "odd", "--db", db, "--json"))
	r.ends(t, 8, "gone takes no part", "6 pairs in 6 rounds", "6 of 6: h", "odd: gone")
	d := decode[meshReport](t, r.out)
	must.True(t, d.Session.State == model.SessionDone && len(d.Report.Mesh.Ways) == 12, "%s: %d ways", d.Session.Reason, len(d.Report.Mesh.Ways))
	runs := runsOfWays(d.Session)
	for _, w := range d.Report.Mesh.Ways {
		n, there := runs[w.From+" -> "+w.To], w.From != "gone" && w.To != "gone"
		must.True(t, (n >= 2) == there && (n == 0) != there && (w.Goodput == nil || there), "%s -> %s: %d runs, %v %s", w.From, w.To, n, w.Goodput, w.Why)
	}
	must.Equal(t, d.Report.Mesh.Odd[0].Name, "gone", "odd")
	has(t, "list", succeed(t, "list", "--kind", "mesh", "--db", db).out, "h1, h2, h3, gone", "odd: gone")
	has(t, "show", succeed(t, "show", "last", "--db", db).out, "to h2", "h3 sends", "gone could not be measured")
	for format, want := range map[string][]string{
		"html": {"Every host with every other", "gone could not be measured"}, "markdown": {"gone could not be measured"},
		"openmetrics": {`linerate_mesh_goodput_bytes_per_second{session="`, `sender="h1",receiver="h2"`, `linerate_mesh_odd{`},
	} {
		file := filepath.Join(dir, format)
		succeed(t, "report", "last", "--format", format, "-o", file, "--db", db)
		has(t, format, string(must.Get(os.ReadFile(file))(t)), want...)
	}
	rows := must.Get(csv.NewReader(strings.NewReader(succeed(t, "report", "last", "--format", "csv", "--db", db).out)).ReadAll())(t)
	has(t, "csv", fmt.Sprint(rows), "h1 -> h2", "h3 -> h1")
}

// afterTwoPairs starts a mesh, calls f after two of its pairs are measured, and returns its
// stderr.
func afterTwoPairs(t testing.TB, cmd *exec.Cmd, f func()) (said string) {
	t.Helper()
	stderr := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	called, buffer := false, make([]byte, 4096)
	for {
		n, err := stderr.Read(buffer)
		said += string(buffer[:n])
		if strings.Contains(said, "\n2 of ") && !called {
			called = true
			f()
		}
		if err != nil {
			return said
		}
	}
}

// TestMeshLosesAHost: agents of a host that die midway are restarted; a host whose agents
// cannot be restarted takes no further part, and the others are measured.
func TestMeshLosesAHost(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]bool{"for a moment": true, "for good": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loseAHost(t, back)
		})
	}
}

// loseAHost kills the agents of the second of three hosts during a mesh; back says that they
// may be restarted.
func loseAHost(t *testing.T, back bool) {
	t.Helper()
	dir := t.TempDir()
	hosts := meshHosts(t, 3)
	script := filepath.Join(dir, "agent")
	must.Do(t, os.WriteFile(script, []byte("#!/bin/sh\n[ -e "+dir+"/gone ] && exit 1\necho $$ >> "+dir+"/pids\nexec \"$@\"\n"), 0o755)) //nolint:gosec // it is run
	hosts[1] = strings.Replace(hosts[1], " ", " "+script+" ", 1)
	cmd := mesh(t, append([]string{"--without-here", "--rounds", "2", "-t", "200ms", "-P", "1", "--json"}, hosts...)...)
	var out strings.Builder
	cmd.Stdout = &out
	said := afterTwoPairs(t, cmd, func() {
		if !back {
			must.Do(t, os.WriteFile(filepath.Join(dir, "gone"), nil, 0o600))
		}
		for pid := range strings.FieldsSeq(string(must.Get(os.ReadFile(filepath.Join(dir, "pids")))(t))) {
			_ = syscall.Kill(must.Get(strconv.Atoi(pid))(t), syscall.SIGKILL) // one may have ended by itself
		}
	})
	must.OK(t, cmd.Wait(), "%s", said)
	d := decode[meshReport](t, out.String())
	runs, gone := runsOfWays(d.Session), d.Session.Mesh.Hosts[1].Problem != ""
	must.True(t, gone != back && strings.Contains(said, "h2 takes no part") != back, "%q\n%s", d.Session.Mesh.Hosts[1].Problem, said)
	must.True(t, runs["h1 -> h3"] >= 2 && runs["h3 -> h1"] >= 2, "%v", runs)
}

// TestMeshKeepsWhatIsDone: Ctrl-C during a mesh keeps the finished pairs.
func TestMeshKeepsWhatIsDone(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "results.db")
	cmd := mesh(t, append([]string{"--without-here", "--rounds", "90", "-t", "200ms", "-P", "1", "--db", db}, meshHosts(t, 3)...)...)
	var out strings.Builder
	cmd.Stdout = &out
	said := afterTwoPairs(t, cmd, func() { must.Do(t, cmd.Process.Signal(syscall.SIGINT)) })
	must.Fail(t, cmd.Wait())
	must.Equal(t, cmd.ProcessState.ExitCode(), 130, "exit code; %s", said)
	has(t, "stdout", out.String(), "to h2", "interrupted by the user after ")
	s := decode[meshReport](t, succeed(t, "show", "last", "--json", "--db", db).out).Session
	must.True(t, s.State == model.SessionInterrupted && len(s.Runs) >= 4, "%s with %d runs", s.State, len(s.Runs))
}

// TestMeshOfSlurm: the nodes of an allocation take part, each with an agent that srun starts.
// This srun is a stand-in that runs the command on this machine.
func TestMeshOfSlurm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := "#!/bin/sh\n[ \"$1 $2 $3 $4\" = '--overlap -N1 -n1 -w' ] || exit 9\nLINERATE_STATE=" + dir + "/$5; export LINERATE_STATE\nshift 5\nexec \"$@\"\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "srun"), []byte(script), 0o755)) //nolint:gosec // it is run
	slurm := func(list string) result {
		cmd := mesh(t, "--hosts", "slurm", "-t", "200ms", "-P", "1", "--db", filepath.Join(dir, "results.db"), "--json")
		cmd.Env = append(cmd.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SLURM_JOB_NODELIST="+list)
		return run(t, cmd)
	}
	d := decode[meshReport](t, slurm("127.0.0.[2-3]").succeeds(t).out)
	must.Same(t, d.Report.Mesh.Hosts, []string{"127.0.0.2", "127.0.0.3"}, "hosts")
	must.True(t, len(runsOfWays(d.Session)) == 2 && d.Session.State == model.SessionDone, "%d runs: %s", len(d.Session.Runs), d.Session.Reason)
	slurm("").ends(t, 2, "SLURM_JOB_NODELIST is not set", "salloc")
	slurm("n[1-").ends(t, 2, "a bracket is not closed")
}

// TestMeshOfServers: two servers measure with each other if their owners name peers, and
// otherwise do not.
func TestMeshOfServers(t *testing.T) {
	t.Parallel()
	meet := func(code int, flags ...string) result {
		args := []string{"mesh", "--without-here", "-t", "200ms", "-P", "1", "--json"}
		for i := range 2 {
			p := start(t, command(t, append([]string{"serve", "--open", "--announce=false", "--json", "--listen", fmt.Sprintf("127.0.0.%d:0", i+2), "--state", t.TempDir()}, flags...)...))
			must.Until(t, "the server's document", func() bool { return strings.HasSuffix(strings.TrimSpace(p.said()), "}") })
			args = append(args, fmt.Sprintf("s%d=%s", i+1, decode[struct{ Link string }](t, p.said()).Link))
		}
		return run(t, command(t, args...)).ends(t, code)
	}
	must.Equal(t, len(runsOfWays(decode[meshReport](t, meet(0, "--peers", "127.0.0.0/8").out).Session)), 2, "ways between peers")
	meet(3).ends(t, 3, "nothing was measured", "only where its --peers names them")
}

// TestMeshMistakes: an impossible mesh is refused before any host is contacted.
func TestMeshMistakes(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	must.Do(t, os.WriteFile(empty, []byte("# no host\n"), 0o600))
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "takes HOST..., or --hosts"},
		{[]string{"root@nas", "--without-here"}, "2 to 256 hosts"},
		{[]string{"root@nas", "root@nas"}, "root@nas is named twice"},
		{[]string{"lab:lan"}, "every host of a mesh runs linerate by itself"},
		{[]string{"iperf3://nas"}, "every host of a mesh runs linerate by itself"},
		{[]string{"root@nas", "--rounds", "0", "--at-once", "-1"}, "--at-once: -1 is not between"},
		{[]string{"root@nas", "--fail-on", "evil"}, `--fail-on: "evil" is unknown`},
		{[]string{"--hosts", empty}, "names no host"},
		{[]string{"--hosts", empty + "2"}, "one HOST a line"},
	} {
		run(t, command(t, append([]string{"mesh"}, c.args...)...)).ends(t, 2, c.says)
	}
	r := run(t, command(t, "mesh", "exec:127.0.0.8 false", "exec:127.0.0.9 false", "--without-here"))
	r.ends(t, 3, "of 2 hosts none could be reached")
}

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

// TestFleetSays: the hub prints commands that work, and an agent says that it has not joined, that
// its link is one for people, that its name is taken, and what a copy of a disk does.
func TestFleetSays(t *testing.T) {
	t.Parallel()
	dir := openFolder(t)
	of := func(name string) string { return filepath.Join(dir, name) }
	agent := func(name, state, link string) *process {
		return start(t, command(t, "agent", "--hub", link, "--name", name, "--listen", "127.0.0.1:0", "--host", "127.0.0.1", "--state", of(state)))
	}
	says := func(p *process, text string) {
		t.Helper()
		must.Until(t, text, func() bool { return strings.Contains(strings.Join(strings.Fields(p.complaints()), " "), text) })
	}
	hub := start(t, command(t, "hub", "--listen", "127.0.0.1:0", "--state", of("hub")))
	says(hub, "linerate fleet --state "+of("hub")+".")
	must.Until(t, "a link", func() bool { return strings.HasSuffix(hub.said(), "\n") })
	link := strings.Trim(strings.Fields(hub.said())[3], "'")
	succeed(t, "fleet", "--state", of("hub"))

	early := agent("nas", "early", "linerate://abc.abcd@"+closedPort(t))
	says(early, "connection refused; this host has not joined yet; trying again")
	must.True(t, !strings.Contains(early.complaints(), "serve:") && !strings.Contains(early.complaints(), "https://"), "%s", early.complaints())
	early.signal(t, os.Interrupt)
	early.wait(t, patience)
	agent("desk", "eyes", "@"+must.Get(filepath.Glob(of("hub/hub/view.link")))(t)[0]).wait(t, patience).ends(t, 3, "this is the link in view.link, for people")
	first := agent("nas", "nas", link)
	says(first, "nas is a host of the fleet")
	second := agent("nas", "nas2", link)
	says(second, "nas is taken; this host is nas-2")
	must.Do(t, exec.CommandContext(t.Context(), "cp", "-a", of("nas"), of("copy")).Run())
	twin := agent("nas", "copy", link)
	first.wait(t, patience).ends(t, 3, "started later", "start linerate agent there once with", "same flags and --rejoin")
	for _, p := range []*process{second, twin, hub} {
		p.signal(t, syscall.SIGTERM)
		p.wait(t, patience)
	}
	must.Equal(t, strings.Count(hub.complaints(), "use the key of"), 1, "%s", hub.complaints())
}
