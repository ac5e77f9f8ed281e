package main

import (
	bits "encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/must"
)

// fails runs linerate and requires an exit code and texts on stderr, and nothing on stdout.
func fails(t testing.TB, code int, args []string, want ...string) result {
	t.Helper()
	r := run(t, command(t, args...))
	must.True(t, r.code == code, "linerate %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.err)
	must.Equal(t, r.out, "", "linerate %s: on stdout", strings.Join(args, " "))
	for _, w := range want {
		must.True(t, strings.Contains(r.err, w), "linerate %s: no %q in\n%s", strings.Join(args, " "), w, r.err)
	}
	return r
}

// write makes a file and returns its path.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// tenMistakes is a plan with one mistake on each line named in mistakes.
const tenMistakes = `far: lab:rate=1gbit,rtt=10ms
titel: receive ceiling
flow:
  direction: forth
  duration: -3s
  mss: 10
factors:
  - knob: far.tcp.recv_buffer_mx
    levels: [64KiB, 1MiB]
  - knob: window
    levels: [64KiB, 64K]
blocks: 0
margin: 200%
confidence: 1.5
seed: -1
`

// mistakes lists the lines of tenMistakes, with the hint for each.
var mistakes = []struct{ line, right string }{
	{"2", "did you mean title?"},
	{"4", "write to (near sends), from (far sends)"},
	{"5", "write it like 10s, 250ms or 1m30s"},
	{"6", "want 88 to 32767 bytes, or auto"},
	{"8", "did you mean tcp.recv_buffer_max"},
	{"11", "leave one of them out"},
	{"12", "write 1 to 10000"},
	{"13", "write it like 3%"},
	{"14", "write it like 0.95"},
	{"15", "write a whole number from 0"},
}

// TestPlanWithTenMistakes: all mistakes of a plan are reported at once, each with its position
// and a hint, and no others.
func TestPlanWithTenMistakes(t *testing.T) {
	t.Parallel()
	path := write(t, "plan.yaml", tenMistakes)
	r := fails(t, 2, []string{"run", path})
	lines := strings.Split(strings.TrimSpace(r.err), "\n")
	must.Need(t, len(lines) == len(mistakes), "%d mistakes of %d:\n%s", len(lines), len(mistakes), r.err)
	for i, m := range mistakes {
		place := regexp.MustCompile(`^linerate: ` + regexp.QuoteMeta(path) + `:` + m.line + `:\d+: `)
		must.True(t, place.MatchString(lines[i]) && strings.Contains(lines[i], m.right), "%q\nwant line %s and %q", lines[i], m.line, m.right)
	}
}

// TestLabSpecWithMistakes: all mistakes of a lab are reported at once.
func TestLabSpecWithMistakes(t *testing.T) {
	t.Parallel()
	const spec = "rate=fast,rtt=1h,loss=200%,colour=red,mtu=9,duplex=some,to.mtu=1500"
	for _, args := range [][]string{{"test", "lab:" + spec}, {"lab", spec, "--", "true"}} {
		r := fails(t, 2, args,
			"rate=fast: use a rate from 1kbit to 1tbit, for example 100mbit",
			"rtt=1h: use a time from 0s to 10s, for example 10ms",
			"loss=200%: use a share from 0% to 100%, for example 0.1%",
			"colour: unknown key: use rate, rtt, delay",
			"mtu=9: use a whole number from 576 to 65521",
			"duplex=some: use half or full",
			"to.mtu: belongs to the whole lab: use mtu=")
		n := strings.Count(r.err, "\n")
		must.True(t, n == 7, "%d lines for 7 mistakes:\n%s", n, r.err)
	}
}

func TestBadExperiments(t *testing.T) {
	t.Parallel()
	const lab = "lab:rate=100mbit"
	noFar := write(t, "nofar.yaml", "factors: [{knob: window, levels: [64KiB, 1MiB]}]\n")
	badFar := write(t, "badfar.yaml", "far: lab:rate=fast\nfactors: [{knob: window, levels: [64KiB, 1MiB]}]\n")
	for name, c := range map[string]struct {
		args, want []string
	}{
		"no host":        {[]string{"run", "--factor", "window=64KiB,1MiB"}, []string{"no host named", "linerate run HOST"}},
		"no far in plan": {[]string{"run", noFar}, []string{"no host named", "far: in the plan file"}},
		"bad far":        {[]string{"run", badFar}, []string{"rate=fast: use a rate"}},
		"no plan":        {[]string{"run", "missing.yaml"}, []string{"missing.yaml: no such file or directory"}},
		"nothing":        {[]string{"run", lab}, []string{"nothing to compare", "linerate run HOST --factor"}},
		"unknown knob":   {[]string{"run", lab, "--factor", "windwo=64KiB,1MiB"}, []string{`unknown knob "windwo"; did you mean window?`}},
		"native name":    {[]string{"run", lab, "--factor", "far.net.ipv4.tcp_rmem=64KiB,1MiB"}, []string{"did you mean tcp.recv_buffer_max"}},
		"mss":            {[]string{"run", lab, "--factor", "mss=10,1000"}, []string{`value "10" of mss: want 88 to 32767 bytes, or auto`}},
		"no levels":      {[]string{"run", lab, "--factor", "window"}, []string{`"window" has no levels; write it like`}},
		"same levels":    {[]string{"run", lab, "--factor", "window=64K,64KiB"}, []string{"leave one of them out"}},
		"host of flow":   {[]string{"run", lab, "--factor", "far.window=64K,1M"}, []string{"window belongs to the flow"}},
		"durations": {[]string{"run", lab, "--factor", "window=64K,1M", "-t", "-5s", "--settle", "soon", "--cooldown", "9999h"}, []string{
			`--time: duration "-5s" is negative`, `--settle: duration "soon" is not a length of time`, `--cooldown: "9999h" is longer than 24 h`}},
		"blocks":    {[]string{"run", lab, "--factor", "window=64K,1M", "--blocks", "0"}, []string{`--blocks: "0" is not a number of blocks`}},
		"direction": {[]string{"run", lab, "--factor", "window=64K,1M", "--direction", "up"}, []string{`--direction: unknown direction "up"`}},
		"baseline":  {[]string{"run", lab, "--factor", "window=64K,1M", "--baseline", "2M"}, []string{`baseline: "2M" is not a setting of this plan`}},
		"lab knob":  {[]string{"test", lab + ",far.tcp.recv_bufer_max=64KiB"}, []string{"did you mean tcp.recv_buffer_max"}},
		"lab value": {[]string{"test", lab + ",far.tcp.recv_buffer_max=1"}, []string{"want a size from 4 KiB"}},
		"two labs":  {[]string{"test", lab, "--from", lab}, []string{"a lab has both ends of its own", "leave out --from"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := fails(t, 2, c.args, c.want...)
			must.True(t, strings.HasPrefix(r.err, "linerate: "), "who says this? %s", r.err)
		})
	}
}

// TestForeignStores: a file that is no store of this program, or one of a newer program, is named
// and left unchanged.
func TestForeignStores(t *testing.T) {
	t.Parallel()
	newer := filepath.Join(t.TempDir(), "newer.db")
	succeed(t, "list", "--db", newer)
	b := must.Get(os.ReadFile(newer))(t)
	bits.BigEndian.PutUint32(b[60:], 99) // user_version, SQLite file format section 1.3.9
	for name, c := range map[string]struct{ text, want string }{
		"newer":   {string(b), "use the linerate that wrote it, or --db FILE for another place"},
		"no.db":   {"hello, this is no database at all", "not a store of linerate"},
		"half.db": {string(b[:1000]), "--db FILE for another place"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, name, c.text)
			for _, args := range [][]string{{"list"}, {"show", "last"}, {"test", "exec:127.0.0.1 false"}} {
				fails(t, 6, append(args, "--db", path), path, c.want)
			}
			must.Equal(t, string(must.Get(os.ReadFile(path))(t)), c.text, "the file was changed")
		})
	}
}

// TestShowIsTheReportAgain: from the stored session alone, even in a copied file, show prints
// what the experiment printed, with next commands that read the same file.
func TestShowIsTheReportAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := filepath.Join(dir, "results.db")
	env := os.Environ()
	for key, value := range userEnv(dir) {
		env = append(env, key+"="+value)
	}
	do := func(args ...string) string {
		t.Helper()
		cmd := command(t, args...)
		cmd.Env = env
		return run(t, cmd).succeeds(t).out
	}
	for _, form := range [][]string{nil, {"--json"}} {
		printed := do(append([]string{"run", "exec:127.0.0.1 linerate agent", "--factor", "window=16KiB",
			"-n", "1MiB", "-i", "50ms", "--omit", "0", "--settle", "0s", "--blocks", "2", "--no-twin", "--direction", "each"}, form...)...)
		must.Equal(t, do(append([]string{"show", "last"}, form...)...), printed, "show last %v prints", form)
		moved := write(t, "copy.db", string(must.Get(os.ReadFile(db))(t)))
		copied := do(append([]string{"show", "last", "--db", moved}, form...)...)
		must.Contain(t, copied, " --db "+moved)
		words := func(text string) string {
			return strings.Join(strings.Fields(strings.ReplaceAll(text, "\\\n", " ")), "")
		}
		must.Equal(t, strings.ReplaceAll(words(copied), "--db"+moved, ""), words(printed), "show last %v of a copied file prints", form)
		other := do(append([]string{"test", "exec:127.0.0.1 linerate agent", "--to", "-n", "1MiB", "--omit", "0", "--idle", "0s"}, form...)...)
		must.True(t, other != printed, "all reports are the same")
	}
}

// Variables for linerate keep when it runs as this test binary.
const (
	keepStepsVar = "LINERATE_KEEP_STEPS" // file to which the name of every step is appended
	keepKillVar  = "LINERATE_KEEP_KILL"  // N: it kills itself after step N, from 1
)

// keepPoint returns the function that this process calls after each step of writing files, nil
// without the variables.
func keepPoint() func(step string) {
	log := os.Getenv(keepStepsVar)
	at, _ := strconv.Atoi(os.Getenv(keepKillVar))
	if log == "" && at == 0 {
		return nil
	}
	n := 0
	return func(step string) {
		n++
		if log != "" {
			f, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			if err != nil {
				panic(err)
			}
			fmt.Fprintln(f, step)
			_ = f.Close()
		}
		if n != at {
			return
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil || self.Kill() != nil {
			panic("cannot kill itself")
		}
		select {} // until the signal arrives
	}
}

// TestKeepMistakes are refused before anything is opened.
func TestKeepMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"keep"}, "linerate: there is no terminal to ask on\n  show what would be written with --dry-run; write it with --yes\n"},
		{[]string{"keep", "--both", "--yes"}, "linerate: --both names no HOST\n  linerate keep [SOURCE] --both HOST\n"},
		{[]string{"keep", "a", "b", "c"}, "linerate: keep takes a profile or a session, and at most one HOST, got [\"a\" \"b\" \"c\"]\n  see linerate keep --help\n"},
		{[]string{"keep", "root@nas", "last", "--yes"}, "linerate: keep: \"root@nas\" is a host\n  the profile or session comes first: linerate keep last root@nas\n"},
		{[]string{"keep", "last", "root@nas", "--interface", "eth0", "--yes"}, "linerate: --interface is for this machine alone; with HOST the interface between the two is used\n"},
		{[]string{"keep", "last", "--for", "plan9", "--yes"}, "linerate: --for: \"plan9\" is no format that keep writes\n  known are linux-sysctl, systemd-networkd, netplan, networkmanager, ifupdown, freebsd, macos\n"},
		{[]string{"keep", "last", "--list"}, "linerate: --list names no profile or session\n  linerate keep --list [HOST]\n"},
		{[]string{"keep", "nosuch.yaml", "--yes"}, "linerate: nosuch.yaml: no such file or directory\n"},
		{[]string{"keep", "--setting", "x", "--yes"}, "linerate: --setting and --role are about a session or a profile\n  linerate keep SESSION --setting NAME\n"},
	} {
		r := run(t, command(t, c.args...))
		must.True(t, r.code == 2 && r.err == c.says, "%q: exit code %d\n%s", c.args, r.code, r.err)
	}
	for host, code := range map[string]int{"lab:lan": 4, "iperf3://127.0.0.1": 4} {
		run(t, command(t, "keep", host, "--yes")).ends(t, code)
		r := run(t, command(t, "undo", "--kept", host))
		must.True(t, r.code == code, "undo --kept %s: exit code %d\n%s", host, r.code, r.err)
	}
}
