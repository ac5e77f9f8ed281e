package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// oldEnds is a or b where near or far is meant: before a knob, as a host in a document,
// in a metric's name, or as a direction of a lab's wire.
var oldEnds = regexp.MustCompile(`(?:^|[\s"'=,` + "`" + `])[ab]\.(?:tcp|link|udp|socket|nic|shape|KNOB)|"(?:host|sender|connect_from)": ?"[ab]"|cpu(?:_per_gbit)?[_-][ab]\b|\b(?:ab|ba)\.[A-Za-z]|\b(?:host|to|from|on|of) b\b|--on-b|\ba -> b\b`)

// TestFirstHour19NearAndFar: what a session, a check, a search and a change of a lab
// print, in words and as documents, what they suggest, all help texts and all pages say
// near and far.
func TestFirstHour19NearAndFar(t *testing.T) {
	t.Run("pages", func(t *testing.T) {
		pages := []string{"../../README.md", "../../docs/demo.svg"}
		err := filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
			if err == nil && (filepath.Ext(path) == ".md" || filepath.Ext(path) == ".json") && !strings.Contains(path, "reference") {
				pages = append(pages, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		scripts, err := filepath.Glob("testdata/script/*.txtar")
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range slices.Concat(pages, scripts) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				if oldEnds.MatchString(line) {
					t.Errorf("%s:%d: %s", page, i+1, line)
				}
			}
		}
	})
	t.Run("a lab", func(t *testing.T) {
		needLab(t)
		db := filepath.Join(t.TempDir(), "db")
		const lab = "lab:rate=50mbit,rtt=10ms,to.queue=100KiB,far.tcp.recv_buffer_max=32KiB"
		quick := []string{"--db", db, "-t", "200ms", "--omit", "100ms"}
		for _, args := range [][]string{
			slices.Concat([]string{"test", lab, "--idle", "0s"}, quick),
			slices.Concat([]string{"run", lab, "--factor", "far.tcp.recv_buffer_max=64KiB,1MiB", "--settle", "10ms", "--blocks", "2", "--cooldown", "0s"}, quick),
			{"show", "last", "--json=full", "--db", db},
			{"tune", lab, "--direction", "to", "--dry-run", "--quick", "--db", db},
			{"check", lab, "--quick", "--db", db, "--json"},
			{"facts", lab, "--json"},
			{"set", "near.tcp.sack=off", "far.tcp.sack=off", "--both", lab, "--for", "1s"},
			{"set", "near.tcp.sack=off", "far.tcp.sack=off", "--both", lab, "--for", "1s", "--json"},
			{"lab", lab, "--", "sh", "-c", "hostname; grep far /etc/hosts; echo $FAR_ADDR"},
		} {
			r := run(t, command(t, args...))
			said := r.out + r.err
			if found := oldEnds.FindString(said); r.code != 0 && r.code != 8 || found != "" {
				t.Errorf("%q: exit code %d, says %q\n%s", args, r.code, found, said)
			}
			if args[0] != "show" && !strings.Contains(said, "far") {
				t.Errorf("%q does not name the far host\n%s", args, said)
			}
		}
	})
}
