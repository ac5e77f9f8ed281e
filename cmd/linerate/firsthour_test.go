package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/must"
)

// A new user's first hour gave a list of 25 items. Each has at least one test with its number in
// this folder; go test -list FirstHour shows them. Their other tests, under the same names, are
// next to the code that they test.

// TestFirstHour00EveryItem requires a test in this folder for each item.
func TestFirstHour00EveryItem(t *testing.T) {
	t.Parallel()
	files := must.Get(filepath.Glob("*_test.go"))(t)
	of := map[int]bool{}
	for _, name := range files {
		text := must.Get(os.ReadFile(name))(t)
		for _, m := range regexp.MustCompile(`(?m)^func TestFirstHour(\d\d)[A-Z]\w*\(t \*testing\.T\)`).FindAllSubmatch(text, -1) {
			n, _ := strconv.Atoi(string(m[1]))
			of[n] = true
		}
	}
	for n := 1; n <= 25; n++ {
		must.True(t, of[n], "no test of item %d: TestFirstHour%02d...", n, n)
	}
}

// inStore runs linerate with a store that several commands share, and requires an exit code.
func inStore(t testing.TB, store string, code int, args ...string) result {
	t.Helper()
	cmd := command(t, args...)
	cmd.Env = append(cmd.Env, "LINERATE_DB="+store)
	return run(t, cmd).exits(t, code)
}

// storeOf returns the path of the test's own store.
func storeOf(t testing.TB) string { return filepath.Join(t.TempDir(), "results.db") }

// inSeconds returns the command line of an experiment that ends in seconds.
func inSeconds(args ...string) []string {
	return append([]string{"run", "lab:rate=100mbit,rtt=5ms", "-t", "200ms", "--omit", "100ms", "--settle", "0s"}, args...)
}

// begun returns the lines of text that begin with head.
func begun(text, head string) (all []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, head) {
			all = append(all, line)
		}
	}
	return all
}

// TestFirstHour03NamedHostsAreMeasured: a named host is measured, or it is an error.
func TestFirstHour03NamedHostsAreMeasured(t *testing.T) {
	t.Parallel()
	fails(t, 2, []string{"run", "lab:lan", "--far", "lab:wan", "--factor", "window=64K,1M"}, "two far ends", "the near end is --from")
	fails(t, 2, []string{"test", "nas", "laptop"}, "--from user@nas")
	plan := write(t, "plan.yaml", "far: nosuch.invalid\nfactors: [{knob: window, levels: [64KiB, 1MiB]}]\nblocks: 1\nflow: {duration: 200ms, omit: 100ms}\nsettle: 0s\n")
	needLab(t)
	r := succeed(t, "run", plan, "lab:rate=100mbit,rtt=5ms", "-q", "--json")
	must.Equal(t, decode[document](t, r.out).Session.Far, "lab:rate=100mbit,rtt=5ms", "measured")
}

// TestFirstHour04ValuesAreTakenOrRefused: values are used exactly as given, or refused with a
// hint.
func TestFirstHour04ValuesAreTakenOrRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, says string }{
		{"--blocks 0", "is not a number of blocks"}, {"--margin 0", "--margin"}, {"-n 1M -t 5", "leave one of them out"}, {"-l 0", "--length"},
	} {
		fails(t, 2, append([]string{"run", "lab:lan", "--factor", "window=64K"}, strings.Fields(c.line)...), c.says)
	}
	fails(t, 2, []string{"serve", "--max-sessions", "0"}, "--max-sessions")
	fails(t, 2, []string{"run", "--resume", "last", "--blocks", "5"}, "--blocks: a session goes on with the plan that it has")
	needLab(t)
	for _, n := range []int{1, 3} {
		r := succeed(t, inSeconds("--factor", "window=64KiB,1MiB", "--blocks", strconv.Itoa(n), "--no-twin", "-q", "--json")...)
		must.Equal(t, len(decode[document](t, r.out).Session.Plan.Order), n, "blocks, asked")
	}
}

// TestFirstHour06OneSentenceEach: test ends with exactly one sentence for each direction, even if
// nothing limits.
func TestFirstHour06OneSentenceEach(t *testing.T) {
	labBeside(t)
	r := succeed(t, "test", "lab:rate=100mbit,rtt=2ms", "-t", "500ms", "--omit", "300ms", "-q")
	for _, head := range []string{"  to far: ", "  from far: "} {
		n := len(begun(r.out, head)) - len(begun(r.out, head+"also: ")) // on a busy machine
		must.True(t, n == 1, "%d sentences %q:\n%s", n, head, r.out)
	}
}

// TestFirstHour07Grid: a grid has a legend, the effect of each setting, one conclusion and no
// table twice, and fits in 80 columns.
func TestFirstHour07Grid(t *testing.T) {
	labBeside(t)
	r := succeed(t, inSeconds("--factor", "window=8KiB,1MiB", "--factor", "streams=1,2", "--blocks", "6", "--details", "-q")...)
	has(t, "the grid", r.out, "\n  window: 8 KiB, 1 MiB\n", "\n  streams: 1 stream, 2 streams\n",
		"what each setting does", "window=1MiB against window=8KiB", "streams=2 against streams=1")
	for _, once := range []string{"goodput to far, against current\n", "what each setting does", "what else changed"} {
		n := strings.Count(r.out, once)
		must.True(t, n == 1, "%q %d times:\n%s", once, n, r.out)
	}
	n := strings.Count(r.out, "no combination") + strings.Count(r.out, "linerate keep ")
	must.True(t, n == 1, "%d conclusions:\n%s", n, r.out)
	for line := range strings.Lines(r.out) {
		must.True(t, !strings.ContainsAny(line, "…"), "cut: %s", line)
	}
}

// TestFirstHour09LongerByResume: a finished session with an open question goes on with more
// blocks; a session of another kind says what to do instead.
func TestFirstHour09LongerByResume(t *testing.T) {
	labBeside(t)
	store := storeOf(t)
	inStore(t, store, 0, inSeconds("--factor", "block=65KiB", "--max-blocks", "6", "--no-twin", "--data", "10MB", "-q")...)
	r := inStore(t, store, 0, "run", "--resume", "last", "--max-blocks", "7", "--data", "1GB", "-q", "--json")
	must.Equal(t, len(decode[document](t, r.out).Session.Plan.Order), 7, "blocks, asked for 7")
	inStore(t, store, 0, "test", "lab:rate=100mbit", "--to", "-t", "200ms", "--omit", "0s", "--idle", "0s", "-q")
	r = inStore(t, store, 2, "run", "--resume", "last", "--max-blocks", "9")
	has(t, "the refusal", r.err, "is of kind test and has no blocks to add to", "linerate test HOST -t 30s")
}

// TestFirstHour10EstimatesInAPipe: after each block a pipe gets the state of every setting.
func TestFirstHour10EstimatesInAPipe(t *testing.T) {
	labBeside(t)
	r := succeed(t, inSeconds("--factor", "window=8KiB,1MiB", "--blocks", "3", "--no-twin")...)
	n := strings.Count(r.err, "so far, against current:")
	must.True(t, n == 3, "estimates %d times after 3 blocks:\n%s", n, r.err)
	has(t, "the estimates", r.err, "block 1/3 done", "  8KiB: ", "  1MiB: ", " to ")
}

// TestFirstHour11ExitCodes: an unknown congestion control is refused with the available ones
// before anything is measured, at either end and as a factor; so are a program that is no
// agent, and a link without its pin.
func TestFirstHour11ExitCodes(t *testing.T) {
	t.Parallel()
	fails(t, 3, []string{"test", "exec:127.0.0.1 nosuchprogram"}, "no such program", "linerate agent")
	fails(t, 3, []string{"test", "exec:127.0.0.1 false"}, "false ended with exit code 1", "linerate agent")
	fails(t, 2, []string{"test", "linerate://nas"}, "the link has no pin", "use the whole link")
	needLab(t)
	store := storeOf(t)
	for _, line := range []string{"test lab:rate=100mbit -C nosuch", "test lab:rate=100mbit -R -C nosuch", "run lab:rate=100mbit --factor congestion=cubic,nosuch"} {
		r := inStore(t, store, 2, strings.Fields(line)...)
		has(t, line, r.err, "congestion control nosuch: this linux has ", "cubic")
	}
	r := inStore(t, store, 0, "list", "--json")
	must.True(t, !strings.Contains(r.out, `"id"`), "something was measured:\n%s", r.out)
}

// TestFirstHour12ListAndRemove: a failed session is listed as failed, with its age, and can be
// removed.
func TestFirstHour12ListAndRemove(t *testing.T) {
	t.Parallel()
	store := storeOf(t)
	inStore(t, store, 3, "test", "iperf3://"+closedPort(t))
	has(t, "the list", inStore(t, store, 0, "list").out, "age", "state", "goodput", "failed")
	inStore(t, store, 0, "rm", "last", "--yes")
	r := inStore(t, store, 6, "show", "last")
	must.True(t, strings.Contains(r.err, "no session is stored yet"), "after rm: %s", r.err)
	inStore(t, store, 0, "prune", "--older-than", "30d", "--yes")
}

// TestFirstHour13SilentHosts: for a silent host the output names the host that linerate waits
// for, and the timeout; for other programs and for joins too.
func TestFirstHour13SilentHosts(t *testing.T) {
	t.Parallel()
	silent := listenAs(t, func(net.Conn) {})
	for _, host := range []string{"iperf3://" + silent, "linerate://uP2W8hvl0QyUPsbPpt7JYhtjzyVTAmKDCJOIOCmeqzk@" + silent, "exec:127.0.0.1 sleep 60"} {
		t.Run(strings.Fields(host)[0], func(t *testing.T) {
			t.Parallel()
			fails(t, 3, []string{"test", host, "--timeout", "4s"}, "waiting for the far host, at most 4 s in all", "no answer in")
		})
	}
}

// TestFirstHour14SentAndAsked: for UDP the report shows the sent rate beside the requested one.
func TestFirstHour14SentAndAsked(t *testing.T) {
	labBeside(t)
	r := succeed(t, "test", "lab:rate=10mbit,rtt=2ms", "--udp", "-b", "1tbit", "--to", "-t", "2s", "--omit", "0s", "--idle", "0s", "-q")
	m := regexp.MustCompile(`([\d.]+) ([MG])bit/s sent \(1 Tbit/s\s+asked\s+for\)`).FindStringSubmatch(r.out)
	must.Need(t, m != nil, "not what was sent, with what was asked:\n%s", r.out)
	v, _ := strconv.ParseFloat(m[1], 64)
	must.True(t, m[2] != "G" || v <= 200, "%s Gbit/s were not sent here", m[1])
}

// TestFirstHour20CompletionOfTheProgram: the program itself completes commands, settings, values
// and sessions.
func TestFirstHour20CompletionOfTheProgram(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{{"tes", "test"}, {"run --factor requ", "requests="}, {"set tcp.sack=o", "tcp.sack=off"}, {"export --for netp", "netplan"}} {
		r := succeed(t, append([]string{"__complete"}, strings.Fields(c.args)...)...)
		must.True(t, slices.ContainsFunc(strings.Split(r.out, "\n"), func(s string) bool { text, _, _ := strings.Cut(s, "\t"); return text == c.want }), "%q offers no %q:\n%s", c.args, c.want, r.out)
	}
}

// TestFirstHour24FourQuestions: the start page asks four questions with at most three commands
// each; TestDocumentedCommands runs them. The manual's long tables have pages of their own, and
// all links of the documents lead somewhere.
func TestFirstHour24FourQuestions(t *testing.T) {
	t.Parallel()
	docs := filepath.Join("..", "..", "docs")
	text := func(name string) string { return string(must.Get(os.ReadFile(filepath.Join(docs, name)))(t)) }
	parts := strings.Split(text("start.md"), "\n## ")[1:]
	must.Equal(t, len(parts), 4, "questions")
	for _, p := range parts {
		n := len(shownIn(p))
		must.True(t, n >= 1 && n <= 3, "%d commands: %.40q", n, p)
	}
	rows := 0
	for line := range strings.Lines(text("manual.md")) {
		if rows++; !strings.HasPrefix(line, "|") {
			rows = 0
		}
		must.True(t, rows <= 15, "a long table in the manual: %s", line) // the exit codes are 13
	}
	pages := must.Get(filepath.Glob(filepath.Join(docs, "*.md")))(t)
	must.Need(t, len(pages) >= 8, "%v", len(pages))
	for _, page := range pages {
		name := filepath.Base(page)
		for _, m := range regexp.MustCompile(`\]\(([\w./-]*)(#[\w-]+)?\)`).FindAllStringSubmatch(text(name), -1) {
			to := name
			if m[1] != "" {
				to = m[1]
			}
			if _, err := os.Stat(filepath.Join(docs, to)); err != nil {
				t.Errorf("%s leads to %s, which is not there", name, m[1])
			} else if m[2] != "" && !slices.Contains(anchors(text(to)), m[2]) {
				t.Errorf("%s leads to %s%s: no such heading", name, to, m[2])
			}
		}
	}
}

// anchors returns the links to the headings of a page, as in Markdown.
func anchors(page string) (all []string) {
	for line := range strings.Lines(page) {
		if head := strings.TrimLeft(line, "#"); head != line {
			head = regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(head)), "")
			all = append(all, "#"+strings.ReplaceAll(head, " ", "-"))
		}
	}
	return all
}

// TestFirstHour25Transcript: the scripted first hour has at least 60 mistakes, none of which
// exits with 0; TestScript/firsthour runs it and compares every word.
func TestFirstHour25Transcript(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("testdata", "script", "firsthour.txtar")))(t)
	steps, _, found := strings.Cut(string(text), "-- want --")
	n := len(begun(steps, "code "))
	must.True(t, n >= 60 && found, "%d steps", n)
	bad := begun(steps, "code 0 ")
	must.True(t, len(bad) == 0, "no mistakes: %s", fmt.Sprint(bad))
}
