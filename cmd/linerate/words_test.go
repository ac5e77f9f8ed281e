package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"linerate/internal/must"
)

// oldEnds is a or b where near or far is meant: before a knob, as a host in a document,
// in a metric's name, or as a direction of a lab's wire.
var oldEnds = regexp.MustCompile(`(?:^|[\s"'=,` + "`" + `])[ab]\.(?:tcp|link|udp|socket|nic|shape|KNOB)|"(?:host|sender|connect_from)": ?"[ab]"|cpu(?:_per_gbit)?[_-][ab]\b|\b(?:ab|ba)\.[A-Za-z]|\b(?:host|to|from|on|of) b\b|--on-b|\ba -> b\b`)

// TestFirstHour19NearAndFar: what a session, a check, a search and a change of a lab
// print, in words and as documents, what they suggest, all help texts and all pages say
// near and far.
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
			t.Parallel()
			needLab(t)
			r := run(t, command(t, shellWords(line)...))
			said := strings.ReplaceAll(r.out+r.err, lab, "")
			found := oldEnds.FindString(said)
			must.True(t, (r.code == 0 || r.code == 8) && found == "", "exit code %d, says %q\n%s", r.code, found, said)
			must.Contain(t, said, "far", "it does not name the far host")
		})
	}
}
