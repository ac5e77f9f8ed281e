package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/ui/config"
)

// articles holds profiles with the settings of old articles, see the README there.
const articles = "../../internal/host/persist/native/testdata/articles"

// TestArticlesExported reads every article's profile as a user does, and compares the exported
// files with handwritten ones.
func TestArticlesExported(t *testing.T) {
	t.Parallel()
	wants := must.Get(filepath.Glob(filepath.Join(articles, "*.want")))(t)
	must.Need(t, len(wants) >= 12, "%d expectations", len(wants))
	for _, want := range wants {
		parts := strings.Split(filepath.Base(want), ".") // NAME.ROLE.FORMAT.want
		name, role, format := parts[0], parts[1], parts[2]
		t.Run(strings.Join(parts[:3], " "), func(t *testing.T) {
			link := map[string]string{"gigabit": "em0", "fileshare": "en0", "crossed": "eth0", "virtio2": "vtnet0", "virtio3": "vtnet0", "oldpc": "xl0"}[name]
			if strings.HasPrefix(format, "windows") {
				link = "LAN"
			}
			profile := filepath.Join(articles, name+".yaml")
			args := []string{"export", "--json", "--quiet", "--for", format, "--role", role, "--interface", link, profile}
			if format == "windows-reg" {
				args = append(args, "--adapter-key", "0007")
			}
			r := run(t, exec.CommandContext(t.Context(), binary, args...))
			if name == "virtio3" {
				must.Need(t, r.code == 2 && strings.Contains(r.err, "is above 8/9 of socket.buffer_max 4000000, which is 3555555 (C-02: ") && strings.Contains(r.err, "--anyway"), "exit code %d\n%s%s", r.code, r.out, r.err)
				r = run(t, exec.CommandContext(t.Context(), binary, append(args, "--anyway")...))
			}
			var doc struct {
				Files []struct{ Path, Encoding, Content string }
			}
			err := json.Unmarshal([]byte(r.out), &doc)
			must.Need(t, err == nil && r.code == 0 && len(doc.Files) != 0, "exit code %d, %v\n%s%s", r.code, err, r.out, r.err)
			b := must.Get(os.ReadFile(want))(t)
			files := map[string]string{}
			for _, f := range doc.Files {
				files[f.Path] = f.Content
			}
			if doc.Files[0].Encoding != "utf-8" { // decoded by the package's own test
				return
			}
			path := ""
			for l := range strings.Lines(string(b)) {
				text, isLine := strings.CutPrefix(strings.TrimSuffix(l, "\n"), "\t")
				if !isLine {
					path = text
					continue
				}
				content, ok := files[path]
				must.True(t, !ok || strings.Contains(strings.ReplaceAll(content, "\r\n", "\n"), text+"\n"), "%s has no line %q\n%s", path, text, content)
			}
			paths := slices.Sorted(maps.Keys(files))
			must.True(t, strings.Contains(string(b), paths[0]), "nobody expected %q", paths)
		})
	}
}

// TestArticlesSet really sets the articles' values, on two hosts at once, if Linux has them, and
// undoes them.
func TestArticlesSet(t *testing.T) {
	t.Parallel()
	type state struct{ rmem, wmem, mtu string }
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	read := func(t *testing.T, n *netns, host string) state {
		t.Helper()
		file := func(name string) string { return words(n.read(t, host, "/proc/sys/net/ipv4/"+name)) }
		return state{file("tcp_rmem"), file("tcp_wmem"), n.mtu(t, host)}
	}
	// with replaces a number of a triple.
	with := func(triple string, i int, number string) string {
		all := strings.Fields(triple)
		all[i] = number
		return strings.Join(all, " ")
	}
	cases := map[string]func(*testing.T){}
	for name, c := range map[string]struct {
		set   string
		holds func(state) state
	}{
		"crossed":   {"link.mtu=9000", func(s state) state { return state{s.rmem, s.wmem, "9000"} }},
		"gigabit":   {"link.mtu=9014 tcp.recv_buffer_initial=262144 tcp.send_buffer_initial=262144", func(s state) state { return state{with(s.rmem, 1, "262144"), with(s.wmem, 1, "262144"), "9014"} }},
		"fileshare": {"tcp.recv_buffer_initial=524288 tcp.send_buffer_initial=524288", func(s state) state { return state{with(s.rmem, 1, "524288"), with(s.wmem, 1, "524288"), "1500"} }},
		"virtio":    {"tcp.recv_buffer_max=16777216 tcp.send_buffer_max=16777216", func(s state) state { return state{with(s.rmem, 2, "16777216"), with(s.wmem, 2, "16777216"), "1500"} }},
	} {
		cases[name] = func(t *testing.T) {
			n := newNetns(t)
			was := [2]state{read(t, n, "near"), read(t, n, "far")}
			held(t, n.inside(t, "near", append(append([]string{"set"}, strings.Fields(c.set)...), "--both", "--for", "10m", n.agent("far"))...), func() bool {
				return read(t, n, "near") == c.holds(was[0]) && read(t, n, "far") == c.holds(was[1])
			})
			must.Equal(t, [2]state{read(t, n, "near"), read(t, n, "far")}, was, "was %v,", was)
		}
	}
	// The sysctls belong to the whole machine: two hosts of a test cannot have them, and
	// nothing of the change may be left.
	cases["crossed, with what is the machine's"] = func(t *testing.T) {
		n := newNetns(t)
		was := [2]state{read(t, n, "near"), read(t, n, "far")}
		args := []string{"set", "link.mtu=9000"}
		for _, way := range []string{"recv", "send"} {
			args = append(args, fmt.Sprintf("socket.%s_buffer_max=262144", way), fmt.Sprintf("socket.%s_buffer_default=262144", way))
		}
		run(t, n.inside(t, "near", append(args, "--both", "--for", "3s", n.agent("far"))...)).ends(t, 4, "net.core.")
		must.Equal(t, [2]state{read(t, n, "near"), read(t, n, "far")}, was, "was %v,", was)
	}
	beside(t, cases)
}

// told is one command of a story, with the output shown.
type told struct {
	shown
	lines []string
}

// storyOf returns the commands of a page with their output, which shownIn omits.
func storyOf(text string) []told {
	var all []told
	for _, b := range blocks(text) {
		for _, line := range b.lines {
			switch one := shownIn("```console\n" + line + "\n```\n"); {
			case b.language != "console":
			case len(one) == 1:
				all = append(all, told{shown: one[0]})
			case len(all) > 0 && strings.TrimSpace(line) != "":
				all[len(all)-1].lines = append(all[len(all)-1].lines, line)
			}
		}
	}
	return all
}

var (
	numbers = regexp.MustCompile(`\d+(\.\d+)?`)
	scales  = regexp.MustCompile(`\b(N [kMG]?bit/s|N [KM]iB|N [mµ]?s)\b`)
)

// shape returns a text without its numbers, their units, and its line breaks.
func shape(text string) string {
	return scales.ReplaceAllString(numbers.ReplaceAllString(strings.Join(strings.Fields(text), " "), "N"), "N")
}

// TestStoriesAreUnderstood: the program knows every command and flag of the stories, and each
// story shows the output of its commands. TestTruthOfStories runs them.
func TestStoriesAreUnderstood(t *testing.T) {
	t.Parallel()
	for page, story := range stories(t) {
		lines := 0
		for _, c := range story {
			lines += len(c.lines)
			example(t, c.command)
		}
		must.True(t, lines >= 5, "%s: %d lines of output on the page", page, lines)
	}
}

// stories returns the commands of each story, by the name of its page.
func stories(t testing.TB) map[string][]told {
	t.Helper()
	pages := must.Get(filepath.Glob(filepath.Join("..", "..", "docs", "stories", "*.md")))(t)
	must.Need(t, len(pages) >= 2, "%v", pages)
	all := map[string][]told{}
	for _, page := range pages {
		text := must.Get(os.ReadFile(page))(t)
		all[filepath.Base(page)] = storyOf(string(text))
	}
	return all
}

// TestShape: numbers and line breaks do not count, words do.
func TestShape(t *testing.T) {
	t.Parallel()
	a, b := shape("to far  122.3 Mbit/s  at\n  5.56 ms"), shape("to far 1.1 Gbit/s at 7 s")
	must.True(t, a == b, "%q and %q", a, b)
	must.True(t, shape("back to 9000 B") != shape("stays 9000 B"), "words are lost")
}

// TestPresetsInALab runs some presets in a lab, with short runs, from plan to page: all settings
// are measured and undone. A setting that a lab lacks is refused by name, with what is needed.
// TestSlowPresetsInALab runs all presets.
func TestPresetsInALab(t *testing.T) {
	t.Parallel()
	carryOut(t, func(p config.Preset) bool { return slices.Contains([]string{"polling", "windows"}, p.Name) })
}

// TestPresetWithoutJumboFrames: a path that loses packets of 9000 bytes is detected before the
// first run. The other settings are measured if any are left to compare.
func TestPresetWithoutJumboFrames(t *testing.T) {
	labBeside(t)
	run(t, command(t, "run", "lab:rate=100mbit,rtt=2ms", "--preset", "mtu", "--blocks", "1", "-t", "100ms")).ends(t, 4, "preset mtu cannot be measured here: packets of 9000 bytes do not arrive to far")
	r := run(t, command(t, "run", "lab:rate=100mbit,rtt=2ms", "--preset", "share", "--blocks", "1", "--no-twin", "--settle", "0s", "-n", "256KiB")).succeeds(t)
	must.Contain(t, r.err, "left out jumbo and both: packets of 9000 bytes do not arrive to far")
	must.Contain(t, r.out, "goodput from far, against as it is")
}

func carryOut(t *testing.T, chosen func(config.Preset) bool) {
	t.Helper()
	needLab(t)
	for _, p := range config.Presets() {
		if !chosen(p) {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "results.db")
			args := []string{"run", "lab:rate=100mbit,rtt=2ms,mtu=9000", "--preset", p.Name, "--settle", "0s", "--blocks", "1", "--no-twin", "--db", db}
			if p.Copies {
				args = append(args, "-n", "256KiB")
			} else {
				args = append(args, "-t", "100ms", "--omit", "0s")
			}
			r := run(t, command(t, args...))
			if p.Name == "polling" {
				r.ends(t, 4, "preset polling cannot be measured here: FreeBSD and macOS: ", "; Linux: ", "it needs ")
				return
			}
			r.succeeds(t)
			must.True(t, p.Name != "cards" || strings.Contains(r.err, "not as for cards with media to choose: nic.media.speed of the near host: eth0 is of kind veth"), "does not say why not by media:\n%s", r.err)
			j := decode[document](t, succeed(t, "show", "last", "--json", "--db", db).out).Session
			// An invalid run, on a busy machine, has its whole block repeated.
			j.Runs = slices.DeleteFunc(j.Runs, func(r model.Run) bool { return r.State == model.RunEqualLoad })
			n, repeats := len(j.Plan.Settings)*len(j.Plan.Directions), slices.ContainsFunc(j.Runs, func(r model.Run) bool { return r.Attempt > 1 })
			must.True(t, len(j.Runs) >= n && (len(j.Runs) <= n || repeats), "%d runs of %d", len(j.Runs), n)
			for _, c := range j.Changes {
				must.Equal(t, c.State, model.ChangeUndone, "%+v", c)
			}
			page := filepath.Join(t.TempDir(), "report.html")
			succeed(t, "report", "last", "--format", "html", "-o", page, "--db", db)
			text := must.Get(os.ReadFile(page))(t)
			must.Need(t, strings.Contains(string(text), j.Title), "%d bytes", len(text))
			for _, s := range j.Plan.Settings {
				must.Contain(t, string(text), s.Name, "the page has")
			}
		})
	}
}

// TestDryRun prints what the same command then does: its order by the seed, its runs, and the
// bytes on a link of a known rate. It measures, changes and stores nothing.
func TestDryRun(t *testing.T) {
	labBeside(t)
	db := filepath.Join(t.TempDir(), "results.db")
	args := []string{
		"run", "lab:rate=100mbit,rtt=1ms", "--factor", "far.tcp.recv_buffer_max=256KiB", "--before", "far:exit 9", "-t", "1s", "--omit", "0", "--settle", "0",
		"--blocks", "2", "--no-twin", "--seed", "7", "--db", db,
	}
	shown := succeed(t, append(args, "--dry-run", "--json")...).out
	must.Do(t, validate("linerate/dryrun/v1", shown))
	var d report.DryRun
	orPanic(json.Unmarshal([]byte(shown), &d))
	must.True(t, d.Seed == 7 && d.Blocks == 2 && d.Runs == 4 && d.Time.Or(0).Seconds() == 4 && len(d.First) == 2, "%+v", d)
	const bytes = 4 * 94.15e6 / 8 // at MTU 1500 with timestamps
	got := float64(d.Bytes.Or(0))
	must.True(t, math.Abs(got/bytes-1) <= 0.001, "%.0f bytes, want %.0f", got, float64(bytes))
	must.True(t, d.Assumed && strings.Contains(d.Noise.Source(), "assumed") && !d.LeastChange.IsKnown(), "noise %+v, least %+v: two blocks show nothing", d.Noise, d.LeastChange)
	must.True(t, len(d.Changes) == 2 && strings.Contains(d.Changes[0].Risk, "memory") && d.Changes[1].What == "exit 9" && d.Changes[1].Undo == "exit 0", "%+v", d.Changes)
	must.Contain(t, succeed(t, "list", "--json", "--db", db).out, `"sessions": []`, "kept")
	text := succeed(t, append(args, "--dry-run")...).out
	for _, want := range []string{"nothing is measured", "4 runs, 4 s", "(seed 7)", "47.1 MB of payload", "assumed", "tcp.recv_buffer_max=262144: may waste memory", `command "exit 9"`} {
		must.Contain(t, text, want)
	}
	args[5] = "far:exit 0"
	succeed(t, append(args, "-t", "50ms", "-q")...) // the last one counts
	s := decode[document](t, succeed(t, "show", "last", "--json", "--db", db).out)
	must.Equal(t, fmt.Sprint(s.Session.Plan.Order), fmt.Sprint(d.First), "told %v, done %v", d.First, s.Session.Plan.Order)
}

// TestDataBudgetOfATest: of a hundred runs in each direction no more are begun once the payload
// is sent, on an idle machine after the first two, and the report says why.
func TestDataBudgetOfATest(t *testing.T) {
	labBeside(t)
	r := succeed(t, "test", "lab:rate=50mbit,rtt=1ms", "-t", "200ms", "-i", "200ms", "--omit", "0", "--idle", "0s", "--repeat", "100", "--data", "2MB", "--json=full", "--db", filepath.Join(t.TempDir(), "results.db"))
	must.OK(t, validate("linerate/session/v1", r.out))
	s := decode[document](t, r.out).Session
	last := slices.IndexFunc(s.Runs, func(r model.Run) bool { return r.Block == s.Runs[len(s.Runs)-1].Block })
	before, all := plan.Payload(s.Runs[:last]), plan.Payload(s.Runs)
	must.True(t, before < 2e6 && all >= 2e6 && len(s.Runs) <= 8 && strings.Contains(s.Reason, "the data budget of 2 MB is spent: "+all.Decimal()), "%d runs, %v before the last block, %v in all: %q", len(s.Runs), before, all, s.Reason)
}
