package main

import (
	"regexp"
	"strings"
	"testing"

	"linerate/internal/must"
)

// TestFactsOfALab reads a host over a session: what the agent there knows, in
// the published form, with the interface that leads here first.
func TestFactsOfALab(t *testing.T) {
	t.Parallel()
	needLab(t)
	out := succeed(t, "facts", "lab:rate=100mbit,mtu=1400", "--json").out
	must.OK(t, validate("linerate/facts/v1", out))
	type text struct {
		Value string `json:"value"`
	}
	type number struct {
		Value float64 `json:"value"`
	}
	doc := decode[struct {
		Facts struct {
			Host    string `json:"host"`
			Machine struct {
				Threads number `json:"threads"`
				Memory  number `json:"memory"`
			} `json:"machine"`
			Route struct {
				Interface text `json:"interface"`
				Source    text `json:"source"`
			} `json:"route"`
			NICs []struct {
				Name     string `json:"name"`
				Kind     text   `json:"kind"`
				MTU      number `json:"mtu"`
				MTUMax   number `json:"mtu_max"`
				Offloads struct {
					Value []struct {
						Name string `json:"name"`
					} `json:"value"`
				} `json:"offloads"`
			} `json:"nics"`
		} `json:"facts"`
	}](t, out)
	f := doc.Facts
	must.True(t, f.Host == "far" && f.Machine.Threads.Value >= 1 && f.Machine.Memory.Value >= 1<<26 && f.Route.Source.Value != "", "%+v", f)
	must.True(t, len(f.NICs) != 0 && f.NICs[0].Name == f.Route.Interface.Value && f.NICs[0].Kind.Value != "" && f.NICs[0].MTU.Value >= 68 && f.NICs[0].MTUMax.Value >= 1500 && len(f.NICs[0].Offloads.Value) != 0, "%+v", f.NICs)
}

// TestFirstHour17KnobsOfTheDefaultRoute: without --interface the settings of a link are
// those of the interface that leads out.
func TestFirstHour17KnobsOfTheDefaultRoute(t *testing.T) {
	needRoot(t)
	t.Parallel()
	n := newNetns(t)
	ip(t, "-n", n.near, "route", "add", "default", "via", farAddr)
	for _, args := range [][]string{{"knobs", "-q"}, {"knobs", "-q", "--interface", "v0"}} {
		r := run(t, n.inside(t, "near", args...))
		if r.code != 0 || !strings.Contains(r.out, "link and route: v0 ") || !regexp.MustCompile(`(?m)^  link\.mtu +1500 B .* mtu of v0$`).MatchString(r.out) ||
			!regexp.MustCompile(`(?m)^  route\.mtu +unset .* mtu of default`).MatchString(r.out) {
			t.Errorf("%q: exit code %d\n%s%s", args, r.code, r.out, r.err)
		}
	}
	run(t, n.inside(t, "far", "knobs", "-q")).ends(t, 0).prints(t, "no way out of this host is known") // without a default route
}
