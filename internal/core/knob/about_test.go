package knob

import (
	"errors"
	"strings"
	"testing"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

func TestThemesHoldTheCatalogue(t *testing.T) {
	n := 0
	for _, theme := range Themes() {
		must.True(t, theme.Name != "" && len(theme.Knobs) != 0, "empty: %+v", theme)
		n += len(theme.Knobs)
	}
	must.True(t, n == len(Catalogue()), "%d knobs in themes, %d in the catalogue", n, len(Catalogue()))
}

func TestDefaultOn(t *testing.T) {
	k := Knob{Scope: ScopeHost, Defaults: defaults("linux to 6.17", "old", "linux since 6.18", "new", "freebsd 12 to 15", "mid", "freebsd before 8", "small", "windows", "w")}
	for at, want := range map[[2]string]string{
		{"linux", "6.17.9"}: "old", {"linux", "6.18.2-arch1"}: "new", {"linux", "7.0"}: "new", {"linux", "5.4.0-100-generic"}: "old",
		{"linux", ""}: "old (to 6.17), or new (since 6.18)", {"freebsd", "13.2-RELEASE-p1"}: "mid", {"freebsd", "15.0-CURRENT"}: "mid",
		{"freebsd", "7.4"}: "small", {"freebsd", "9.1"}: "", {"windows", "10.0.19045"}: "w", {"darwin", "23.1"}: "",
	} {
		must.Equal(t, k.DefaultOn(at[0], at[1]), want, "%v", at)
	}
	mtu, _ := NewIndex().ByID("link.mtu")
	must.Equal(t, mtu.DefaultOn("linux", "6.1"), "1500", "link.mtu")
	for _, k := range Catalogue() {
		for _, d := range k.Defaults { // every text of a version has a meaning
			system, versions, _ := strings.Cut(d.System, " ")
			if system != "linux" && system != "freebsd" || versions == "" {
				continue
			}
			_, known := inVersions(versions, "6.1")
			must.True(t, known || versions == "newest", "%s: nobody understands %q", k.ID, d.System)
		}
	}
}

func TestRange(t *testing.T) {
	for id, want := range map[model.KnobID]string{
		"tcp.recv_buffer_max": "4 KiB to 2.15 GB", "link.mtu": "576 to 65535 bytes", "tcp.sack": "on or off",
		"route.initcwnd": "1 to 1000 segments, or unset",
	} {
		k, _ := NewIndex().ByID(id)
		must.Equal(t, k.Range("linux"), want, "%s", id)
	}
	k, _ := NewIndex().ByID("socket.buffer_max")
	a, b := k.Range("freebsd"), k.Range("darwin")
	must.True(t, a != b, "the systems' own ranges are the same: %q", a)
}

func TestRisky(t *testing.T) {
	for id, want := range map[model.KnobID]bool{
		"link.mtu": true, "nic.media.speed": true, "nic.offload.tso": true, "nic.ring.rx": true, "route.mtu": true,
		"tcp.sack": false, "tcp.recv_buffer_max": false, "qdisc": false,
	} {
		k, ok := NewIndex().ByID(id)
		must.True(t, ok && k.Risky() == want, "%s: %v, want %v", id, k.Risky(), want)
	}
}

func TestFaultsComeAllAtOnce(t *testing.T) {
	before := Values{"tcp.recv_buffer_min": "4096", "tcp.recv_buffer_initial": "131072", "tcp.recv_buffer_max": "6291456", "link.mtu": "1500", "link.mtu_min": "68", "link.mtu_max": "1500"}
	set := func(pairs ...string) (all []model.Assignment) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, model.Assignment{Knob: model.KnobID(pairs[i]), Value: pairs[i+1]})
		}
		return all
	}
	errs := NewIndex().Faults("linux", before, set("link.mtu", "9000", "tcp.recv_buffer_initial", "8388608", "streams", "2", "link.up", "1",
		"tcp.sack", "1", "tcp.sack", "0", "socket.buffer_max", "65536", "no.such", "1"))
	text := errors.Join(errs...).Error()
	for _, want := range []string{
		"link.mtu 9000 is above the driver's most, 1500 (C-07", "tcp.recv_buffer_initial 8388608 is above tcp.recv_buffer_max", "set streams: belongs to the test traffic",
		"set link.up: a fact of the machine", "tcp.sack is set twice", "set socket.buffer_max: linux has no such setting", `unknown knob "no.such"`,
	} {
		must.Contain(t, text, want)
	}
	must.True(t, errors.Is(errors.Join(errs...), ErrConstraint) && errors.Is(errors.Join(errs...), errors.ErrUnsupported), "kinds of %v", errs)
	must.Len(t, NewIndex().Faults("linux", before, set("tcp.recv_buffer_max", "1048576")), 0, "a good change")
	must.True(t, len(Advice("linux", before, set("tcp.recv_buffer_max", "1048576"))) != 0, "no advice about a ceiling below the running one")
	must.Len(t, NewIndex().Faults("windows", nil, set("tcp.sack", "0")), 1, "windows")
	errs = NewIndex().Faults("freebsd", nil, set("txqueuelen", "100"))
	must.True(t, len(errs) == 1 && strings.Contains(errs[0].Error(), "/boot/loader.conf"), "freebsd at boot: %v", errs)
}

func TestNeeds(t *testing.T) {
	for at, want := range map[[2]string]string{
		{"link.mtu", "linux"}: "root on that host; both ends, and all between them, agree; a pause of the link", {"tcp.sack", "linux"}: "root on that host; ",
		{"txqueuelen", "freebsd"}: "a restart of the machine", {"link.mtu", "windows"}: "an administrator",
	} {
		k, _ := NewIndex().ByID(model.KnobID(at[0]))
		must.Contain(t, strings.Join(k.Needs(at[1]), "; "), want, "%v", at)
	}
	for _, id := range []model.KnobID{"link.up", "streams"} {
		k, _ := NewIndex().ByID(id)
		must.True(t, len(k.Needs("linux")) <= 0, "%s needs %q", id, k.Needs("linux"))
	}
}

func TestCite(t *testing.T) {
	for in, want := range map[string]string{
		"[K]":                                    "not confirmed on a real machine yet",
		"[B13 kern_mbuf.c]":                      "FreeBSD 13 source (kern_mbuf.c)",
		"[B13, B14 uipc_sockbuf.c; tcp_input.c]": "FreeBSD 13 source and FreeBSD 15-CURRENT source (uipc_sockbuf.c; tcp_input.c)",
		"[L6.1 net/core/dev.c] [E18]":            "Linux 6.1 source (net/core/dev.c); an experiment on Linux 6.18",
		"RFC 9293 section 3.4.1 [X tcp_timer.c]; the ends are linerate's": "RFC 9293 section 3.4.1; macOS source, xnu-11417 (tcp_timer.c); the ends are linerate's",
		"no tag": "no tag",
	} {
		must.Equal(t, Cite(in), want, "%q became", in)
	}
	must.Equal(t, Cite("[Q7 x]"), "[Q7 x]", "an unknown tag became")
}

// TestEverySourceCanBeCited: readers can follow every source in the catalogue.
func TestEverySourceCanBeCited(t *testing.T) {
	all := lists.Each(Catalogue(), func(k Knob) string { return k.Source })
	for _, d := range DeadNames() {
		all = append(all, d.Source)
	}
	for _, c := range Constraints() {
		all = append(all, c.Source)
	}
	must.Need(t, len(all) >= 100, "only %d sources", len(all))
	for _, s := range all {
		words := Cite(s)
		must.True(t, !strings.ContainsAny(words, "[]\x00") && !strings.Contains(words, ";;"), "%q became %q", s, words)
	}
}

func TestModeUntold(t *testing.T) {
	const card = " (supported=10baseT/Half,100baseT/Full)"
	for _, c := range []struct {
		want, got string
		untold    bool
	}{
		{"autoneg=off speed=10 duplex=half", "autoneg=off" + card, true},
		{"autoneg=off speed=10 duplex=half" + card, "autoneg=off duplex=full" + card, true},
		{"autoneg=off speed=10 duplex=half", "autoneg=off speed=100 duplex=full" + card, false}, // it tells
		{"autoneg=off speed=10 duplex=half", "autoneg=on advertise=10baseT/Half" + card, false}, // it negotiates
		{"autoneg=on advertise=10baseT/Half", "autoneg=off" + card, false},                      // the other side did not force that
		{"1500", "1400", false},
	} {
		must.Equal(t, ModeUntold(c.want, c.got), c.untold, "%q for %q", c.got, c.want)
	}
}
