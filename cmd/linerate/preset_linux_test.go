package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/ui/config"
)

// TestPresetsInALab carries some presets out in a lab, with short runs, from plan to page:
// all settings are measured and undone. What a lab does not have is refused by name, with
// what would be needed. TestSlowPresetsInALab carries out all of them.
func TestPresetsInALab(t *testing.T) {
	t.Parallel()
	carryOut(t, func(p config.Preset) bool { return slices.Contains([]string{"polling", "windows"}, p.Name) })
}

// TestPresetWithoutJumboFrames: a path that loses packets of 9000 bytes is found before the first
// run. What they were to be compared with is measured, where anything is left.
func TestPresetWithoutJumboFrames(t *testing.T) {
	t.Parallel()
	needLab(t)
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
			// A run that does not count, on a busy machine, has its whole block done again.
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
