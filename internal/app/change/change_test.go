package change

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
	"linerate/internal/core/profile"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// linked is a host whose driver takes MTUs to most.
func linked(h model.Host, system string, now, most int) *app.Host {
	known := func(n int) fact.Of[string] { return fact.Known(strconv.Itoa(n), "test") }
	f := model.HostFacts{OS: system, Knobs: map[model.KnobID]fact.Of[string]{"link.mtu": known(now), "link.mtu_min": known(68), "link.mtu_max": known(most)}}
	if system == "windows" { // there the range is in the driver's registry key
		f.Interface = fact.Known("e0", "test")
		f.NICs = []model.NIC{{Name: "e0", MTUMax: fact.Known(most, "*JumboPacket")}}
		f.Knobs = map[model.KnobID]fact.Of[string]{"link.mtu": known(now), "link.frame_mtu": known(1500)}
	}
	return &app.Host{Side: h, Name: map[model.Host]string{model.Near: "bsd", model.Far: "xp"}[h], Facts: f}
}

// recorder records events, and answers no questions.
type recorder struct {
	app.NoUser
	events []app.Event
}

func (r *recorder) Observe(e app.Event) { r.events = append(r.events, e) }

// planned returns a change of two hosts that is not carried out.
func planned(near, far *app.Host, wanted ...model.Assignment) (*change, *recorder) {
	r := &recorder{}
	c := &change{Env: app.Env{Now: time.Now, Asker: r, Observer: r}, hosts: Hosts{Near: near, Far: far, Both: true, Named: "root@nas"}}
	for _, h := range c.hosts.changed() {
		e := &end{Host: h}
		for _, w := range wanted {
			w.Host = h.Side
			e.wanted = append(e.wanted, w)
		}
		c.ends = append(c.ends, e)
	}
	return c, r
}

// TestMTURanges uses the hosts of an article whose drivers disagree: frames of 9014 bytes on
// Windows, packets of 4088 on the other one.
func TestMTURanges(t *testing.T) {
	try := func(value string) (*change, *recorder, error) {
		c, r := planned(linked(model.Near, "linux", 1500, 4088), linked(model.Far, "windows", 1500, 9000), model.Assignment{Knob: mtuKnob, Value: value})
		if err := c.settleMTU(); err != nil {
			return c, r, err
		}
		for _, e := range c.changing() {
			for _, f := range c.faults(e) {
				return c, r, c.hintMTU(fault.WithKind(fault.Usage, f))
			}
		}
		return c, r, nil
	}
	c, r, err := try(LargestMTU)
	must.True(t, err == nil && c.end(model.Near).wants(mtuKnob) == "4088" && c.end(model.Far).wants(mtuKnob) == "4088" && c.end(model.Far).wants(frameKnob) == "4088", "max: %+v, %+v, %v", c.end(model.Near).wanted, c.end(model.Far).wanted, err)
	must.True(t, len(r.events) == 3 && slices.Contains(r.events, app.Event(app.FrameMTU{Host: "xp", Value: "4088"})), "told %+v", r.events)
	for _, value := range []string{"9000", "9014"} {
		_, _, err := try(value)
		must.True(t, fault.KindOf(err) == fault.Usage && strings.Contains(fault.HintOf(err), "link.mtu=4088 is the largest that can be had (bsd takes 576 to 4088; xp takes 576 to 9000)"), "%s: %v, hint %q", value, err, fault.HintOf(err))
	}
}

// TestMTUOfABridge: the largest MTU of a bridge is limited by its ports and their parts.
func TestMTUOfABridge(t *testing.T) {
	h := linked(model.Near, "linux", 1500, 65535)
	h.Facts.Interface = fact.Known("br0", "test")
	h.Facts.NICs = []model.NIC{
		{Name: "br0", MTUMax: fact.Known(65535, "test"), Below: []string{"bond0", "tap0"}}, {Name: "tap0", MTUMax: fact.Known(65521, "test")},
		{Name: "bond0", MTUMax: fact.Known(0, "test"), Below: []string{"eno1", "eno2"}}, {Name: "eno1", MTUMax: fact.Known(9216, "test")}, {Name: "eno2", MTUMax: fact.Known(4088, "test")},
	}
	got := side(h)
	must.True(t, got.Max == 4088, "%+v", got)
}

// TestOrderOfHosts: the far host is changed only while the near one holds the
// smaller of its two MTUs.
func TestOrderOfHosts(t *testing.T) {
	for _, one := range []struct {
		from  int
		to    string
		first model.Host
	}{{1500, "9000", model.Far}, {9000, "1500", model.Near}} {
		c, _ := planned(linked(model.Near, "linux", one.from, 9000), linked(model.Far, "linux", one.from, 9000), model.Assignment{Knob: mtuKnob, Value: one.to})
		got := c.order()
		must.True(t, len(got) == 2 && got[0].Side == one.first, "%d to %s: %s first", one.from, one.to, got[0].Side)
	}
}

func TestMTUsThatDiffer(t *testing.T) {
	c, r := planned(linked(model.Near, "linux", 1500, 9000), linked(model.Far, "linux", 1500, 9000), model.Assignment{Knob: mtuKnob, Value: "9000"})
	c.ends[1].wanted = nil // the near one keeps its own
	c.noteOneSided()
	must.True(t, len(r.events) == 1 && strings.Contains(r.events[0].(app.OtherMTU).Text, "9000"), "told %+v", r.events)
	alone := &change{Env: c.Env, hosts: Hosts{Near: c.hosts.Near}, ends: []*end{{Host: c.hosts.Near, wanted: c.ends[0].wanted}}}
	alone.noteOneSided()
	must.Equal(t, r.events[len(r.events)-1], app.Event(app.OtherMTU{MTU: 9000}), "alone")
}

func TestLostCanaryHint(t *testing.T) {
	l := lostCanary{&end{Host: linked(model.Near, "linux", 1500, 9000)}, probe.Path{Host: "example.net", Address: "2001:db8::1", Asked: 9000, Passes: 1480}}
	l.end.wanted = []model.Assignment{{Knob: "link.mtu", Value: "9000"}}
	must.Contain(t, aroundHint([]lostCanary{l}), "route.mtu=1480 or route.advmss=1420 for the route to example.net, and tcp.mtu_probing=1")
	l.path.Passes = 0 // it answers no probes: only the old size is known to work
	must.Equal(t, l.size(), 1500)
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
				time.Sleep(100 * time.Millisecond) // on the test's fake clock
				if d := time.Since(began); c.arrive(d) {
					arrived.Store(int64(d))
				}
			}
			must.Is(t, context.Cause(ctx), c.want, "%s", name)
		})
	}
}

func TestCanariesOfAHost(t *testing.T) {
	e := end{Host: &app.Host{Peer: "10.0.0.1", Facts: model.HostFacts{Route: &model.Route{Gateway: fact.Known("10.0.0.254", "test")}}}}
	must.Equal(t, strings.Join(e.canaries([]string{"https://x/", "10.0.0.1"}), " "), "10.0.0.254 10.0.0.1 https://x/")
	e.Peer, e.Facts.Route.Gateway = "127.0.0.1", fact.Known("", "test")
	must.Len(t, e.canaries(nil), 0, "this machine by itself")
}

// TestHalfConfirmed: a change that was kept on one host only is reported.
func TestHalfConfirmed(t *testing.T) {
	dir := t.TempDir()
	c, r := planned(linked(model.Near, "linux", 1500, 9000), linked(model.Far, "linux", 9000, 9000), model.Assignment{Knob: mtuKnob, Value: "9000"})
	c.hosts.State = dir
	told := func() []app.Event {
		defer func() { r.events = nil }()
		return r.events
	}
	note := func() func() { return must.Get(c.notePairNote())(t) }
	note() // and killed
	alone := &change{Env: c.Env, hosts: Hosts{Near: c.hosts.Near, State: dir}}
	alone.tellPairNote()
	if got := told(); len(got) != 1 || !got[0].(app.PartlyKept).Gone || got[0].(app.PartlyKept).Named != "root@nas" {
		t.Errorf("here: %+v", got)
	}
	elsewhere := &change{Env: c.Env, hosts: Hosts{Near: c.hosts.Near, Far: c.hosts.Far, Named: "root@other", State: dir}}
	elsewhere.tellPairNote()
	got := told()
	must.True(t, len(got) == 1 && len(got[0].(app.PartlyKept).Holds) == 0, "with another host: %+v", got)
	TellUndone(c.Env, "", dir)
	got = told()
	must.True(t, len(got) == 1 && !got[0].(app.PartlyKept).Gone, "after an undo here: %+v", got)
	c.tellPairNote()
	got = told()
	must.True(t, len(got) == 1 && got[0].(app.PartlyKept).Far == "xp" && len(got[0].(app.PartlyKept).Holds) == 1, "with that host: %+v", got)
	c.tellPairNote()
	must.True(t, len(told()) == 0, "told again")
	note()
	TellUndone(c.Env, "root@nas", dir) // the undo removes it there
	c.tellPairNote()
	must.True(t, len(told()) == 0, "told after that host was undone")
	note() // and killed after both have confirmed
	c.hosts.Near.Facts = linked(model.Near, "linux", 9000, 9000).Facts
	c.tellPairNote()
	must.True(t, len(told()) == 0, "both keep it")
	note()()
	entries, _ := os.ReadDir(dir)
	must.True(t, len(entries) == 0, "the note is left")
	must.Do(t, os.WriteFile(filepath.Join(dir, PairNoteName), []byte("torn"), 0o600))
	c.tellPairNote()
	got = told()
	must.True(t, len(got) == 1 && strings.Contains(got[0].(app.Trouble).Err.Error(), "damaged: one of them may hold it"), "a damaged note: %+v", got)
	c.tellPairNote()
	must.True(t, len(told()) == 0, "it reports a damaged note again")
}

// TestRequestsThatCannotBeMeant: invalid requests are refused before any host is asked.
func TestRequestsThatCannotBeMeant(t *testing.T) {
	minute := Request{Within: time.Minute}
	must.OK(t, minute.Check(false, false))
	for says, r := range map[string]Request{
		"want 1s to 24h":           {Within: time.Millisecond},
		"at most 14":               {Within: time.Minute, Canaries: slices.Repeat([]string{"nas"}, MaxCanaries+1)},
		"want a URL of http":       {Within: time.Minute, Canaries: []string{"path://nas/1500"}},
		"want an address":          {Within: time.Minute, Canaries: []string{"a b"}},
		"far.tcp.sack: no HOST is": {Within: time.Minute, Wanted: []model.Assignment{{Host: model.Far, Knob: "tcp.sack", Value: "0"}}},
	} {
		err := r.Check(false, false)
		must.True(t, fault.KindOf(err) == fault.Usage && strings.Contains(err.Error(), says), "%s: %v", says, err)
	}
	r := Request{Within: time.Minute, Wanted: []model.Assignment{{Host: model.Near, Knob: "tcp.sack", Value: "0"}}}
	err := r.Check(true, false)
	must.True(t, fault.KindOf(err) == fault.Usage && fault.HintOf(err) == "add --both", "%v", err)
	must.OK(t, r.Check(true, true))
}

// TestCastProfile gives each host its part, whatever the profile's names for them.
func TestCastProfile(t *testing.T) {
	of := func(roles ...profile.Role) profile.Profile {
		var p profile.Profile
		for _, r := range roles {
			p.Hosts = append(p.Hosts, profile.Host{Role: r, Settings: []profile.Setting{{Knob: model.KnobID(r), Value: "1"}}})
		}
		return p
	}
	for name, c := range map[string]struct {
		p                 profile.Profile
		role              string
		far, both         bool
		wantNear, wantFar string // knobs of each, named after the roles; "" for none
		bad               bool
	}{
		"pair":               {p: of("near", "far"), far: true, both: true, wantNear: "near", wantFar: "far"},
		"pair, turned":       {p: of("near", "far"), role: "near", far: true, both: true, wantNear: "far", wantFar: "near"},
		"pair, far alone":    {p: of("near", "far"), far: true, wantFar: "far"},
		"pair, here":         {p: of("near", "far"), role: "near", wantNear: "near"},
		"pair, here unsaid":  {p: of("near", "far"), bad: true},
		"either end, both":   {p: of("both"), far: true, both: true, wantNear: "both", wantFar: "both"},
		"either end, here":   {p: of("both"), wantNear: "both"},
		"either end, far":    {p: of("both"), far: true, wantFar: "both"},
		"far only":           {p: of("far"), far: true, both: true, wantFar: "far"},
		"roles unsaid":       {p: of("sender", "receiver"), far: true, both: true, bad: true},
		"HOST receives":      {p: of("sender", "receiver"), role: "receiver", far: true, both: true, wantNear: "sender", wantFar: "receiver"},
		"receiver and both":  {p: of("both", "receiver"), role: "sender", far: true, both: true, wantNear: "both receiver", wantFar: "both"},
		"wrong kind of role": {p: of("sender", "receiver"), role: "near", far: true, both: true, bad: true},
		"no such role":       {p: of("near", "far"), role: "middle", far: true, both: true, bad: true},
		"role without part":  {p: of("near"), role: "far", bad: true},
	} {
		parts, err := CastProfile(c.p, c.role, c.far, c.both)
		must.True(t, (err != nil) == c.bad && (!c.bad || fault.KindOf(err) == fault.Usage), "%s: %v", name, err)
		knobs := func(h model.Host) (text string) {
			for _, s := range parts[h].Settings {
				if text != "" {
					text += " "
				}
				text += string(s.Knob)
			}
			return text
		}
		near, far := knobs(model.Near), knobs(model.Far)
		must.True(t, near == c.wantNear && far == c.wantFar, "%s: near %q, far %q", name, near, far)
	}
}
