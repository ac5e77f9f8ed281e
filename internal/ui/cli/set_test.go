package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
)

func TestParseSet(t *testing.T) {
	for _, host := range []string{"", "root@nas", "lab:rate=1gbit", "linerate://nas:5299/?pin=x&secret=y", "exec:10.0.0.2 env A=b linerate agent"} {
		args := []string{"tcp.sack=off", "tcp.recv_buffer_max=64KiB"}
		if host != "" {
			args = slices.Insert(args, 1, host)
		}
		wanted, got, err := parseSet(args)
		if err != nil || got != host || len(wanted) != 2 || wanted[0] != (model.Assignment{Knob: "tcp.sack", Value: "0"}) || wanted[1].Value != "65536" {
			t.Errorf("%q: %+v, %q, %v", args, wanted, got, err)
		}
	}
	_, _, err := parseSet([]string{"net.ipv4.tcp_sack=0", "tcp.sack=x", "nas"})
	if exitCode(err) != exitUsage || !strings.Contains(err.Error(), "did you mean tcp.sack?") || !strings.Contains(err.Error(), "want on or off") || hintOf(err) == "" {
		t.Errorf("%v, hint %q", err, hintOf(err))
	}
}

func TestCanariesOfAHost(t *testing.T) {
	e := setEnd{peer: "10.0.0.1", facts: model.HostFacts{Route: &model.Route{Gateway: fact.Known("10.0.0.254", "test")}}}
	if got := strings.Join(e.canaries([]string{"https://x/", "10.0.0.1"}), " "); got != "10.0.0.254 10.0.0.1 https://x/" {
		t.Errorf("%s", got)
	}
	e = setEnd{peer: "127.0.0.1", facts: model.HostFacts{Route: &model.Route{Gateway: fact.Known("", "test")}}}
	if got := e.canaries(nil); len(got) > 0 {
		t.Errorf("this machine by itself: %q", got)
	}
	e.before = []probe.Result{{Target: "x", OK: true, Detail: "yes"}, {Target: "x", Full: true, Bytes: 1500}}
	if d := e.canaryDocs(); len(d) != 2 || !d[0].Before || d[0].After || d[0].Detail != "yes" {
		t.Errorf("%+v", d)
	}
	e.after = []probe.Result{{Target: "x", OK: true}, {Target: "x", Full: true, Bytes: 9000, Detail: "no"}}
	if d := e.canaryDocs(); !d[0].After || d[1].Bytes != 9000 || d[1].Detail != "no" {
		t.Errorf("%+v", d)
	}
}

func TestKnobRows(t *testing.T) {
	h := hostKnobValues{
		name: "nas", system: "linux", kernel: "6.18.1",
		values: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known("65536", "net.ipv4.tcp_rmem"), "link.mtu": fact.Unknown[string]("no link")},
		origins: map[model.KnobID]model.FileLine{
			"tcp.recv_buffer_max": {File: "/etc/sysctl.d/90-x.conf", Number: 4, Text: "4096 131072 6291456"}, "tcp.sack": {File: "/etc/sysctl.conf", Number: 1, Text: "what"},
		},
	}
	find := func(rows []knobRow, id model.KnobID) *knobRow {
		if i := slices.IndexFunc(rows, func(r knobRow) bool { return r.Knob == id }); i >= 0 {
			return &rows[i]
		}
		return nil
	}
	rows := knobRows(h, knobsFlags{})
	r := find(rows, "tcp.recv_buffer_max")
	if r == nil || r.Default != "32 MiB" || r.Theme != "socket and TCP buffers" || r.setBy("65536") != "/etc/sysctl.d/90-x.conf:4 says 6 MiB" || r.setBy("6291456") != "/etc/sysctl.d/90-x.conf:4" {
		t.Fatalf("%+v", r)
	}
	if r := find(rows, "tcp.sack"); r == nil || r.SetBy == nil || r.SetBy.Value != "what" || r.Value.Reason() != "not read" || r.Default != "on" {
		t.Errorf("%+v", r)
	}
	if r := find(rows, "link.mtu_max"); r == nil || r.Range != "" || r.limits() != "read-only" {
		t.Errorf("%+v", r)
	}
	if r := find(rows, "tcp.ecn"); r == nil || r.limits() != "0, 1, 2, 3, 4, 5" {
		t.Errorf("%+v", r)
	}
	if find(rows, "socket.buffer_max") != nil || find(knobRows(h, knobsFlags{all: true}), "socket.buffer_max") == nil {
		t.Error("settings of other systems are shown without --all, or hidden with it")
	}
	if rows := knobRows(h, knobsFlags{match: "NET/ipv4/tcp_rmem"}); len(rows) != 3 {
		t.Errorf("%d rows match", len(rows))
	}
	if n := len(knobRows(h, knobsFlags{all: true})); n != len(knob.Catalogue()) {
		t.Errorf("%d of %d rows", n, len(knob.Catalogue()))
	}
}

func TestParseSetOfOneHost(t *testing.T) {
	wanted, host, err := parseSet([]string{"a.tcp.sack=off", "b.link.mtu=max", "link.mtu=9000", "nas"})
	want := []model.Assignment{{Host: model.Near, Knob: "tcp.sack", Value: "0"}, {Host: model.Far, Knob: "link.mtu", Value: "max"}, {Knob: "link.mtu", Value: "9000"}}
	if err != nil || host != "nas" || !slices.Equal(wanted, want) {
		t.Errorf("%+v, %q, %v", wanted, host, err)
	}
	for text, says := range map[string]string{
		"far.link.mtu=9000": `far.link.mtu: unknown host "far": write a. (near) or b. (far)`, "b.link.mut=9000": "link.mut", "a.tcp.sack=max": "want on or off",
	} {
		if _, _, err := parseSet([]string{text}); exitCode(err) != exitUsage || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// linked is a host whose driver takes MTUs to most.
func linked(h model.Host, system string, now, most int) *setEnd {
	known := func(n int) fact.Of[string] { return fact.Known(strconv.Itoa(n), "test") }
	f := model.HostFacts{OS: system, Knobs: map[model.KnobID]fact.Of[string]{"link.mtu": known(now), "link.mtu_min": known(68), "link.mtu_max": known(most)}}
	if system == "windows" { // where the range is one of the driver's registry key
		f.Interface = fact.Known("e0", "test")
		f.NICs = []model.NIC{{Name: "e0", MTUMax: fact.Known(most, "*JumboPacket")}}
		f.Knobs = map[model.KnobID]fact.Of[string]{"link.mtu": known(now), "link.frame_mtu": known(1500)}
	}
	return &setEnd{host: h, name: map[model.Host]string{model.Near: "bsd", model.Far: "xp"}[h], facts: f}
}

// TestMTURanges has the hosts of an article whose drivers disagree: frames of 9014
// bytes on Windows, packets of 4088 on the other one.
func TestMTURanges(t *testing.T) {
	change := func(text string) (*setting, error) {
		a := &console{Env: Env{Err: io.Discard}}
		near, far := linked(model.Near, "linux", 1500, 4088), linked(model.Far, "windows", 1500, 9000)
		s := &setting{app: a, ends: []*setEnd{far, near}, pair: &ends{hosts: []model.HostFacts{near.facts, far.facts}}}
		wanted, _, err := parseSet([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		s.hand(wanted)
		if err := s.settleMTU(); err != nil {
			return s, err
		}
		for _, e := range s.changing() {
			for _, f := range e.faults() {
				return s, s.hintMTU(app.WithKind(app.Usage, f))
			}
		}
		return s, nil
	}
	s, err := change("link.mtu=max")
	if err != nil || s.end(model.Near).wants("link.mtu") != "4088" || s.end(model.Far).wants("link.mtu") != "4088" || s.end(model.Far).wants("link.frame_mtu") != "4088" {
		t.Errorf("max: %+v, %+v, %v", s.end(model.Near).wanted, s.end(model.Far).wanted, err)
	}
	for _, text := range []string{"link.mtu=9000", "link.mtu=9014"} {
		_, err := change(text)
		if exitCode(err) != exitUsage || !strings.Contains(hintOf(err), "link.mtu=4088 is the largest that can be had (bsd takes 576 to 4088; xp takes 576 to 9000)") {
			t.Errorf("%s: %v, hint %q", text, err, hintOf(err))
		}
	}
}

// TestOrderOfHosts: the far host is changed only while the near one holds the
// smaller of its two MTUs.
func TestOrderOfHosts(t *testing.T) {
	for _, c := range []struct {
		from, to string
		first    model.Host
	}{{"1500", "9000", model.Far}, {"9000", "1500", model.Near}} {
		from, _ := strconv.Atoi(c.from)
		s := &setting{ends: []*setEnd{linked(model.Far, "linux", from, 9000), linked(model.Near, "linux", from, 9000)}}
		s.hand([]model.Assignment{{Knob: "link.mtu", Value: c.to}})
		if got := s.order(); len(got) != 2 || got[0].host != c.first {
			t.Errorf("%s to %s: %s first", c.from, c.to, got[0].host)
		}
	}
}

func TestLostCanaryHint(t *testing.T) {
	l := lostCanary{linked(model.Near, "linux", 1500, 9000), probe.Path{Host: "example.net", Address: "2001:db8::1", Asked: 9000, Passes: 1480}}
	l.end.wanted = []model.Assignment{{Knob: "link.mtu", Value: "9000"}}
	if got := aroundHint([]lostCanary{l}); !strings.Contains(got, "route.mtu=1480 or route.advmss=1420 for the route to example.net, and tcp.mtu_probing=1") {
		t.Error(got)
	}
	l.path.Passes = 0 // it answers no probes: what it was before is known to work
	if l.size() != 1500 {
		t.Error(l.size())
	}
}

// TestTransferWatch ends transfers that stall, go on, or never begin.
func TestTransferWatch(t *testing.T) {
	for name, c := range map[string]struct {
		arrive func(time.Duration) bool // in this tenth of a second
		want   error
	}{
		"stall":   {func(d time.Duration) bool { return d < time.Second }, errStalled},
		"slow":    {func(time.Duration) bool { return true }, errLongTransfer},
		"nothing": {func(time.Duration) bool { return false }, errNoTransfer},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var arrived atomic.Int64
			began := time.Now()
			go watchTransfer(ctx, cancel, began, &arrived)
			for ctx.Err() == nil {
				time.Sleep(100 * time.Millisecond) // of the test's own clock
				if d := time.Since(began); c.arrive(d) {
					arrived.Store(int64(d))
				}
			}
			if got := context.Cause(ctx); !errors.Is(got, c.want) {
				t.Errorf("%s: %v", name, got)
			}
		})
	}
}

// TestHalfConfirmed tells of a change that was kept on one host only.
func TestHalfConfirmed(t *testing.T) {
	var said strings.Builder
	dir := t.TempDir()
	far := linked(model.Far, "linux", 9000, 9000)
	s := &setting{app: &console{Env: Env{Err: &said, Now: time.Now}}, flags: setFlags{state: dir}, pair: &ends{farText: "root@nas"},
		ends: []*setEnd{far, linked(model.Near, "linux", 1500, 9000)}}
	s.pair.hosts = []model.HostFacts{s.ends[1].facts, far.facts}
	s.hand([]model.Assignment{{Knob: "link.mtu", Value: "9000"}})
	if _, err := s.noteHalf(); err != nil { // and killed
		t.Fatal(err)
	}
	here := &setting{app: s.app, flags: s.flags, ends: s.ends[1:]}
	here.tellHalf()
	if !strings.Contains(said.String(), "root@nas may hold it: linerate undo root@nas") {
		t.Errorf("here: %s", said.String())
	}
	said.Reset()
	s.tellHalf()
	if !strings.Contains(said.String(), "xp still holds link.mtu=") {
		t.Errorf("with that host: %s", said.String())
	}
	said.Reset()
	if s.tellHalf(); said.Len() > 0 {
		t.Errorf("told again: %s", said.String())
	}
	if _, err := s.noteHalf(); err != nil { // and killed after both were told
		t.Fatal(err)
	}
	s.ends[1] = linked(model.Near, "linux", 9000, 9000)
	if s.tellHalf(); said.Len() > 0 {
		t.Errorf("both keep it: %s", said.String())
	}
	done, err := s.noteHalf()
	if err != nil {
		t.Fatal(err)
	}
	done()
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Error("the note is left")
	}
}
