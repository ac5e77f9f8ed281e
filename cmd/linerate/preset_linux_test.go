package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/lab/labtest"
	"linerate/internal/ui/config"
)

// TestPresetsInALab carries every preset out in a lab, with short runs, from its plan to
// the page: all settings are measured and undone. What a lab does not have is refused by
// name, with what would be needed.
func TestPresetsInALab(t *testing.T) {
	needLab(t)
	t.Parallel()
	for _, p := range config.Presets() {
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
				if r.code != 4 || !strings.Contains(r.err, "preset polling cannot be measured here: FreeBSD and macOS: ") || !strings.Contains(r.err, "; Linux: ") || !strings.Contains(r.err, "it needs ") {
					t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
				}
				return
			}
			if r.code != 0 {
				t.Fatalf("exit code %d\n%s%s", r.code, r.out, r.err)
			}
			if p.Name == "cards" && !strings.Contains(r.err, "not as for cards with media to choose: nic.media.speed of the near host: eth0 is of kind veth") {
				t.Errorf("does not say why not by media:\n%s", r.err)
			}
			j := decode[struct {
				Session model.Session `json:"session"`
			}](t, succeed(t, "show", "last", "--json", "--db", db).out).Session
			// A run that does not count, on a busy machine, has its whole block done again.
			n, repeats := len(j.Plan.Settings)*len(j.Plan.Directions), slices.ContainsFunc(j.Runs, func(r model.Run) bool { return r.Attempt > 1 })
			if len(j.Runs) < n || len(j.Runs) > n && !repeats {
				t.Errorf("%d runs of %d", len(j.Runs), n)
			}
			for _, c := range j.Changes {
				if c.State != model.ChangeUndone {
					t.Errorf("%+v", c)
				}
			}
			page := filepath.Join(t.TempDir(), "report.html")
			succeed(t, "report", "last", "--format", "html", "-o", page, "--db", db)
			text, err := os.ReadFile(page)
			if err != nil || !strings.Contains(string(text), j.Title) {
				t.Fatalf("%d bytes, %v", len(text), err)
			}
			for _, s := range j.Plan.Settings {
				if !strings.Contains(string(text), s.Name) {
					t.Errorf("the page has no %s", s.Name)
				}
			}
		})
	}
}

// TestWindowsPresetFindsTheWindow: the plateau of windows begins where the window holds
// rate times round trip, within one level.
func TestWindowsPresetFindsTheWindow(t *testing.T) {
	needLab(t)
	const goodput, rtt = 20e6 * 1448 / 1538, 40e-3 // diagnosis.md 2.1, MTU 1500 with timestamps
	levels := []units.Bytes{64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 1536 << 10}
	enough := slices.IndexFunc(levels, func(w units.Bytes) bool { return float64(w) >= goodput*rtt/8 })
	labtest.Try(t, func() string {
		r := run(t, command(t, "run", "lab:rate=20mbit,rtt=40ms", "--preset", "windows", "-C", "cubic", "-t", "300ms", "--omit", "300ms",
			"--settle", "0s", "--blocks", "4", "--tolerance", "10%", "--no-twin", "--guard", "none", "--json", "-q"))
		j := decode[struct {
			Session struct {
				Plateaus []model.Plateau `json:"plateaus"`
			} `json:"session"`
		}](t, r.out)
		if r.code != 0 || len(j.Session.Plateaus) != 1 {
			t.Fatalf("exit code %d, %+v\n%s", r.code, j, r.err)
		}
		p := j.Session.Plateaus[0]
		found := slices.IndexFunc(levels, func(w units.Bytes) bool { return strings.ReplaceAll(w.String(), " ", "") == p.Level })
		if !p.Decided || math.Abs(float64(found-enough)) > 1 {
			return fmt.Sprintf("level %d, want %d: %+v", found, enough, p)
		}
		return ""
	})
}
