package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/must"
)

// block is one fenced block of a page.
type block struct {
	language string
	lines    []string
}

// blocks returns the fenced blocks of a Markdown text.
func blocks(text string) []block {
	var all []block
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch language, fence := strings.CutPrefix(line, "```"); {
		case fence && !inside:
			all = append(all, block{language: language})
			inside = true
		case fence:
			inside = false
		case inside:
			last := &all[len(all)-1]
			last.lines = append(last.lines, line)
		}
	}
	return all
}

// shown is one command on a page, and its exit code.
type shown struct {
	command string
	code    int
}

// expected matches the note after a command that does not exit with 0.
var expected = regexp.MustCompile(`^(.*\S) +# exit (\d+)$`)

// shownIn returns the commands of a page's console blocks.
func shownIn(text string) []shown {
	var all []shown
	for _, b := range blocks(text) {
		for _, line := range b.lines {
			command, ok := strings.CutPrefix(line, "$ ")
			if b.language != "console" || !ok {
				continue
			}
			s := shown{command: command}
			if m := expected.FindStringSubmatch(command); m != nil {
				s.command = m[1]
				s.code, _ = strconv.Atoi(m[2])
			}
			all = append(all, s)
		}
	}
	return all
}

// withLab matches commands that create a lab, or that show an earlier command's result.
var withLab = regexp.MustCompile(` lab[: ]| plan\.yaml| last`)

// files writes the files of a page, blocks whose first line is "# NAME.yaml", into dir.
func files(t testing.TB, text, dir string) {
	t.Helper()
	for _, b := range blocks(text) {
		if len(b.lines) == 0 {
			continue
		}
		name, ok := strings.CutPrefix(b.lines[0], "# ")
		if !ok || b.language != "yaml" || filepath.Ext(name) != ".yaml" {
			continue
		}
		must.Do(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(strings.Join(b.lines, "\n")+"\n"), 0o600))
	}
}

// TestDocumentedCommands runs every command on the pages, those of one page one after the other
// as a new user would. Measurements in a lab are as brief as possible. Of commands that take
// long anyway, only the words are checked. TestSlowDocumentedCommands runs them unchanged.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	documentedCommands(t, func(command string) string {
		switch {
		case longInLab.MatchString(command):
			return longInLab.ReplaceAllString(command, "linerate $1 --help $2")
		case !strings.Contains(command, " lab:"):
			return command
		}
		if strings.HasPrefix(command, "linerate test ") && !strings.Contains(command, "--idle ") {
			command = strings.Replace(command, " test ", " test --idle 0s ", 1)
		}
		command = costly.Replace(command)
		if farAway.MatchString(command) {
			return times.ReplaceAllString(command, "$1 1s")
		}
		return times.ReplaceAllString(command, "$1 60ms")
	})
}

var (
	longInLab = regexp.MustCompile(`^linerate (check|tune) (.*lab:.*)`)
	farAway   = regexp.MustCompile(`rtt=\d{3}ms`)
	// costly are more packets and runs than are needed to see that a command works.
	costly = strings.NewReplacer("rate=1gbit", "rate=100mbit", "--blocks 6", "--blocks 2", "--blocks 3", "--blocks 2")
	// times matches the times of a measurement.
	times = regexp.MustCompile(`( -t| --omit| -i| --settle) [0-9.]+m?s`)
)

func documentedCommands(t *testing.T, as func(command string) string) {
	t.Helper()
	root := filepath.Join("..", "..")
	pages := must.Get(filepath.Glob(filepath.Join(root, "docs", "*.md")))(t)
	makefile := must.Get(os.ReadFile(filepath.Join(root, "Makefile")))(t)
	ran := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text := must.Get(os.ReadFile(page))(t)
		all := shownIn(string(text))
		ran += len(all)
		if len(all) == 0 {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			files(t, string(text), dir)
			for _, s := range all {
				t.Run(s.command, func(t *testing.T) {
					if withLab.MatchString(s.command) {
						needLab(t)
					}
					short := shown{as(s.command), s.code}
					if strings.Contains(short.command, " --help ") {
						short.code = 0
					}
					documented(t, short, dir, string(makefile))
				})
			}
		})
	}
	must.True(t, ran >= 20, "%d commands found in all pages", ran)
}

// documented runs one command of a page.
func documented(t testing.TB, s shown, dir, makefile string) {
	t.Helper()
	if words, ok := strings.CutPrefix(s.command, "make "); ok {
		target, _, _ := strings.Cut(words, " ") // variables and a remark may follow
		must.True(t, regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(target)+`:`).MatchString(makefile), "the Makefile has no target %s", target)
		return
	}
	switch {
	case !strings.HasPrefix(s.command, "linerate "):
		t.Fatal("neither linerate nor make: a test cannot know what it does")
	case s.command == "linerate demo":
		t.Skip("takes two minutes: make demo runs it whole, TestInterruptedLabLeavesNothing begins it")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", s.command)
	cmd.Dir = dir
	cmd.Env = os.Environ()
	for key, value := range userEnv(dir) {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	r := run(t, cmd)
	if brief := strings.Contains(s.command, " 60ms"); r.code == 5 && s.code == 0 && (brief || strings.HasPrefix(s.command, "linerate run ")) {
		t.Logf("this machine was too busy for a result, and the session says so:\n%s", r.err)
		return
	}
	r.ends(t, s.code)
}

// TestShownIn checks that the test above does not run nothing.
func TestShownIn(t *testing.T) {
	t.Parallel()
	got := shownIn("```sh\n$ linerate no\n```\n\n```console\n$ linerate list\nid\n$ linerate show x   # exit 6\n```\n$ linerate out\n")
	must.True(t, len(got) == 2 && got[0] == (shown{"linerate list", 0}) && got[1] == (shown{"linerate show x", 6}), "%+v", got)
}

// oldEnds matches a or b in place of near or far: before a knob, as a host in a document, in a
// metric's name, or as a direction of a lab's link.
var oldEnds = regexp.MustCompile(`(?:^|[\s"'=,` + "`" + `])[ab]\.(?:tcp|link|udp|socket|nic|shape|KNOB)|"(?:host|sender|connect_from)": ?"[ab]"|cpu(?:_per_gbit)?[_-][ab]\b|\b(?:ab|ba)\.[A-Za-z]|\b(?:host|to|from|on|of) b\b|--on-b|\ba -> b\b`)

// TestFirstHour19NearAndFar: the output of a session, a check, a search and a change in a lab, as
// text and as documents, their suggestions, all help texts and all pages say near and far.
func TestFirstHour19NearAndFar(t *testing.T) {
	t.Parallel()
	t.Run("pages", func(t *testing.T) {
		pages := []string{"../../README.md", "../../docs/demo.svg"}
		must.Do(t, filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
			if err == nil && (filepath.Ext(path) == ".md" || filepath.Ext(path) == ".json") && !strings.Contains(path, "reference") {
				pages = append(pages, path)
			}
			return err
		}))
		scripts := must.Get(filepath.Glob("testdata/script/*.txtar"))(t)
		for _, page := range slices.Concat(pages, scripts) {
			text := must.Get(os.ReadFile(page))(t)
			for i, line := range strings.Split(string(text), "\n") {
				must.True(t, !oldEnds.MatchString(line), "%s:%d: %s", page, i+1, line)
			}
		}
	})
	const lab = "lab:rate=50mbit,rtt=10ms,to.queue=100KiB,far.tcp.recv_buffer_max=32KiB"
	for _, line := range []string{
		"test " + lab + " --idle 0s -t 400ms --omit 0s",
		"test " + lab + " --idle 0s -t 400ms --omit 0s --json=full",
		"run " + lab + " --factor far.tcp.recv_buffer_max=64KiB,1MiB --settle 10ms --blocks 1 --no-twin --cooldown 0s -t 400ms --omit 0s",
		"tune " + lab + " --direction to --dry-run --quick -t 1s --omit 0s",
		"check " + lab + " --quick --json",
		"facts " + lab + " --json",
		"set near.tcp.sack=off far.tcp.sack=off --both " + lab + " --for 5s",
		"set near.tcp.sack=off far.tcp.sack=off --both " + lab + " --for 5s --json",
		"lab " + lab + " -- sh -c 'hostname; grep far /etc/hosts; echo $FAR_ADDR'",
	} {
		t.Run(line, func(t *testing.T) {
			labBeside(t)
			r := run(t, command(t, shellWords(line)...))
			said := strings.ReplaceAll(r.out+r.err, lab, "")
			found := oldEnds.FindString(said)
			must.True(t, (r.code == 0 || r.code == 8) && found == "", "exit code %d, says %q\n%s", r.code, found, said)
			must.Contain(t, said, "far", "it does not name the far host")
		})
	}
}
