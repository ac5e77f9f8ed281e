package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/app"
	"linerate/internal/app/inspect"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/must"
	"linerate/internal/report/reporttest"
	"linerate/internal/report/term"
	"linerate/internal/ui/config"
)

// TestExactlySoManyBlocks: a plan has exactly as many blocks as requested, including those that
// compare the baseline with itself, or is refused with the possible number.
func TestExactlySoManyBlocks(t *testing.T) {
	const (
		one    = "{knob: window, levels: [64KiB]}"
		two    = "{knob: window, levels: [64KiB, 1MiB]}"
		grid   = two + ", {knob: streams, levels: [1, 2]}"
		many   = "{knob: congestion, levels: [a, b, c, d, e, f, g]}"
		some   = "incomplete: true\n"
		refuse = 0
	)
	for _, c := range []struct {
		factors, blocks string
		want            int
	}{
		{two, "blocks: 1", 1}, {two, "blocks: 2", 2}, {two, "blocks: 6", 6}, {two, "max_blocks: 10", 10},
		{one, "blocks: 1", 1}, {one, "blocks: 5", 5}, {one, "blocks: 6", 6}, {one, "blocks: 8", 8}, {one, "blocks: 20", 20}, {one, "max_blocks: 12", 12},
		{grid, "blocks: 1", 1}, {grid, "blocks: 6", 6}, {grid, "max_blocks: 10", 10},
		{many, "blocks: 8", 8}, {many, some + "blocks: 7", 7}, {many, some + "blocks: 8", refuse}, {many, some + "blocks: 14", 14},
	} {
		text := fmt.Sprintf("far: lab:lan\nfactors: [%s]\n%s\n", c.factors, c.blocks)
		file, err := config.Parse("plan.yaml", []byte(text), knobChecker{}, app.Env{}.Kinds())
		must.Dof(t, err, "%s", text)
		file.Directions, file.Flow = []model.Direction{model.To}, model.Flow{Engine: "tcpbulk", Direction: model.To, Streams: 1, Duration: time.Second}
		p, err := question{File: file}.plan(fact.Unknown[time.Duration]("not measured"))
		switch {
		case c.want == refuse:
			must.True(t, exitCode(err) == exitUsage && strings.Contains(err.Error(), "this plan has 7 or 21") && strings.Contains(fault.HintOf(err), "each block holds"), "%s%d blocks, %v (%s)", text, len(p.Order), err, fault.HintOf(err))
		case err != nil || len(p.Order) != c.want:
			t.Errorf("%s%d blocks, want %d, %v", text, len(p.Order), c.want, err)
		case c.factors == one && (plan.Comparisons(p) != min(c.want, max(c.want-4, 6)) || p.MaxBlocks != plan.Comparisons(p)):
			t.Errorf("%s%d of %d blocks hold the candidate", text, plan.Comparisons(p), c.want)
		}
	}
}

// TestRequestsFactor: the number of requests can be a factor in plan files, and each level
// reaches the flow of its runs.
func TestRequestsFactor(t *testing.T) {
	kinds := app.Env{}.Kinds()
	text := "far: nas\nflow: {engine: reqresp, block: 64, requests: 50}\nfactors: [{knob: requests, levels: [500/s, 0]}]\n"
	file := must.Get(config.Parse("plan.yaml", []byte(text), knobChecker{knob.NewIndex(), kinds, nil}, kinds))(t)
	settings, _ := file.Settings()
	must.Need(t, len(settings) == 3, "settings %+v", settings)
	for i, rate := range []float64{50, 500, 0} {
		flow, err := knob.WithSetting(file.Complete().Flow, settings[i], kinds...)
		got, ok := requests.Of(flow)
		must.True(t, err == nil && ok && got.Rate == rate, "%s: %v requests per second, %v; want %v", settings[i].Name, got.Rate, err, rate)
	}
}

// TestDataOfAResumedSession: the data budget may be changed only together with more blocks.
func TestDataOfAResumedSession(t *testing.T) {
	for _, c := range []struct {
		flags string
		bad   bool
	}{{"data", true}, {"data max-blocks", false}, {"margin max-blocks", true}} {
		err := onlyResume(func(flag string) bool { return strings.Contains(" "+c.flags+" ", " "+flag+" ") })
		must.Equal(t, (err != nil), c.bad, "%s: %v", c.flags, err)
	}
}

// TestCopyProgress: a copy that takes longer than two seconds reports how much is done, how fast
// that goes and how long it will take; a short one is one line.
func TestCopyProgress(t *testing.T) {
	run := func(terminal bool, took time.Duration) string {
		var out strings.Builder
		a := &console{Env: Env{Err: &out, ErrTerminal: terminal, Getenv: func(string) string { return "" }, Width: func() int { return 80 }}}
		const bytes, steps = 10 << 20, 40
		for i := range steps + 1 {
			a.copying(app.Copying{Host: "nas", Done: bytes / steps * i, Bytes: bytes, Elapsed: took / steps * time.Duration(i)})
		}
		return out.String()
	}
	for _, terminal := range []bool{false, true} {
		must.Equal(t, run(terminal, time.Second), "copying linerate to nas (10 MiB)\n", "a short copy")
		long := run(terminal, 40*time.Second)
		for _, want := range []string{"nas (10 MiB)\n", "of 10 MiB, ", "Mbit/s, ", "s left"} {
			must.Contain(t, long, want, "does not say")
		}
		n := strings.Count(long, "\n")
		must.True(t, (!terminal || n == 1) && (terminal || n >= 4 && n <= 12), "%d lines: %q", n, long)
	}
}

// TestPresets: presets are plans without mistakes, with a baseline, and listed in the help; those
// with one factor have a plateau. Knobs that change together are one factor.
func TestPresets(t *testing.T) {
	t.Parallel()
	check := knobChecker{knob.NewIndex(), app.Env{}.Kinds(), nil}
	for _, p := range config.Presets() {
		must.True(t, strings.Contains(presetHelp(), "\n  "+p.Name) && p.Summary != "", "%s is not in the help", p.Name)
		files := must.Get(p.Files(check, check.kinds))(t)
		must.Need(t, len(files) == len(p.Variants), "%s:", p.Name)
		for _, f := range files {
			o := f.Complete()
			o.Directions, o.Flow.Direction = f.Directions, model.To
			if o.Flow.Engine == "" {
				o.Flow.Engine, o.Flow.Duration = "tcpbulk", 1e9
			}
			made := must.Get(plan.New(o))(t)
			must.True(t, len(plan.Candidates(made)) != 0, "%s:", p.Name)
			must.Equal(t, p.Name == "windows" || p.Name == "buffers", len(made.Levels) == 6, "%s has the levels %v", p.Name, made.Levels)
			must.True(t, p.Name != "buffers" || len(made.Settings[1].Assignments) == 4, "%+v", made.Settings[1])
		}
	}
	_, err := config.ByPresetName("window")
	must.True(t, err != nil && slices.ContainsFunc(strings.Split(err.Error(), "\n"), func(l string) bool { return strings.HasPrefix(l, "  windows ") }), "a name that is none: %v", err)
}

// TestPresetNeeds: a host that lacks a setting says which, and why.
func TestPresetNeeds(t *testing.T) {
	t.Parallel()
	speed := []model.Setting{{Name: "slow", Assignments: []model.Assignment{{Host: model.Near, Knob: "nic.media.speed", Value: "100"}}}}
	host := func(kind string, modes []string, value fact.Of[string]) model.HostFacts {
		return model.HostFacts{
			Host: model.Near, Interface: fact.Known("em0", "test"), Knobs: map[model.KnobID]fact.Of[string]{"nic.media.speed": value},
			NICs: []model.NIC{{Name: "em0", Kind: fact.Known(kind, "test"), Media: model.Media{Supported: fact.Known(modes, "test")}}},
		}
	}
	known := fact.Known("1000", "test")
	for name, c := range map[string]struct {
		host model.HostFacts
		says string
	}{
		"a card":     {host("device", []string{"100baseT/Full"}, known), ""},
		"virtual":    {host("veth", nil, known), "em0 is of kind veth"},
		"no modes":   {host("device", nil, known), "em0 has no media to choose"},
		"not there":  {host("device", nil, fact.Unknown[string]("no such setting")), "nic.media.speed of the near host: no such setting"},
		"unreported": {model.HostFacts{Host: model.Near}, "not reported"},
		"other host": {model.HostFacts{Host: model.Far}, ""},
	} {
		got := config.Lacking(speed, []model.HostFacts{c.host})
		must.True(t, (got == "") == (c.says == "") && strings.Contains(got, c.says), "%s: %q, want %q", name, got, c.says)
	}
}

// TestPresetOfSharesRaises: values that the hosts already have are no alternatives, and settings
// that become equal are compared once.
func TestPresetOfSharesRaises(t *testing.T) {
	t.Parallel()
	check := knobChecker{knob.NewIndex(), app.Env{}.Kinds(), nil}
	share := must.Get(must.Get(config.ByPresetName("share"))(t).Files(check, check.kinds))(t)[0]
	for name, c := range map[string]struct{ mtu, buffer, want, out string }{
		"an old host":   {"1500", "6291456", "as it is, jumbo, buffers, both", ""},
		"large buffers": {"1500", "33554432", "as it is, jumbo", "buffers: the hosts have that already; both: but for what the hosts have already, it is jumbo"},
		"large packets": {"9000", "6291456", "as it is, buffers", "jumbo: the hosts have that already; both: but for what the hosts have already, it is buffers"},
		"both":          {"9000", "16777216", "as it is", "jumbo: the hosts have that already; buffers: the hosts have that already; both: the hosts have that already"},
	} {
		var hosts []model.HostFacts
		for _, h := range []model.Host{model.Near, model.Far} {
			hosts = append(hosts, model.HostFacts{Host: h, Knobs: map[model.KnobID]fact.Of[string]{
				"link.mtu": fact.Known(c.mtu, "test"), "tcp.recv_buffer_max": fact.Known(c.buffer, "test"), "tcp.send_buffer_max": fact.Known(c.buffer, "test"),
			}})
		}
		var names []string
		left, out := config.Raising(share.Named, hosts)
		for _, s := range left {
			names = append(names, s.Name)
		}
		must.Equal(t, strings.Join(names, ", "), c.want, name)
		must.Equal(t, strings.Join(out, "; "), c.out, name)
	}
}

// TestCopiesAreVariedInTheirEnds: a factor of copies makes the traffic copies, with a file as
// large as a preset's.
func TestCopiesAreVariedInTheirEnds(t *testing.T) {
	t.Parallel()
	check := knobChecker{knob.NewIndex(), app.Env{}.Kinds(), nil}
	f := runFlags{factors: []string{"sink=memory,/srv/disk", "link.mtu=1500,9000"}}
	var file config.File
	var bad faults
	f.factorsOver(&file, check, &bad)
	must.Do(t, bad.err())
	settings, _ := file.Settings()
	flow := must.Get(knob.WithSetting(file.Flow, settings[len(settings)-1], check.kinds...))(t)
	p, ok := files.Of(flow)
	must.True(t, ok && p.Sink == "/srv/disk" && p.Mode == files.Copy && flow.Bytes == 256<<20, "%+v of %+v", p, flow)
	file.FitCopies(fact.Known(units.BitRate(10e9), "test"))
	must.Equal(t, file.Flow.Bytes, units.Bytes(256<<20))
	file.FitCopies(fact.Known(units.BitRate(100e6), "test"))
	must.Equal(t, file.Flow.Bytes, units.Bytes(26843545), "2 s of 100 Mbit/s")
	f.factors = []string{"sink=srv"}
	f.factorsOver(&file, check, &bad)
	must.Say(t, bad.err(), "not disk, memory or a path")
}

func TestFactsPage(t *testing.T) {
	f := reporttest.Cases()[0].Session.Hosts[0]
	f.Knobs["nic.ring.rx"], f.Knobs["nic.ring.rx_max"] = fact.Known("256", "ethtool"), fact.Known("4096", "ethtool")
	f.Knobs["nic.coalesce.adaptive_rx"] = fact.Known("1", "ethtool")
	var b bytes.Buffer
	p := term.NewPage(term.Options{Width: term.AnyWidth})
	writeFacts(p, nil, f)
	must.Do(t, p.Print(&b))
	must.Golden(t, filepath.Join("testdata", "facts.golden"), b.String())
	must.Fail(t, p.Print(full{}), "a page that was not written is no error")
}

// full is a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestFactsOfBuses(t *testing.T) {
	known := func(v string) fact.Of[string] { return fact.Known(v, "sysfs") }
	for want, b := range map[string]model.Bus{
		"  bus         PCI 0000:02:01.0, runs at 32 bit 33 MHz made for 64 bit 133 MHz\n" +
			"  bus allows  1.067 Gbit/s (133 MB/s) both ways together, less packet headers, the device alone 8.533 Gbit/s\n": {
			Kind: known("pci"), Address: known("0000:02:01.0"), Width: fact.Known(32, ""), Clock: fact.Known(33.0, ""),
			WidthMax: fact.Known(64, ""), ClockMax: fact.Known(133.0, ""), Allows: fact.Known[units.BitRate](32e8/3, ""), AllowsMax: fact.Known[units.BitRate](64*400e6/3, ""),
		},
		"  bus         PCI 0000:02:01.0, made for 66 MHz\n": {Kind: known("pci"), Address: known("0000:02:01.0"), ClockMax: fact.Known(66.0, "")},
		"  bus         USB 1-1.2, device 0bda:8153\n  bus allows  480 Mbit/s both ways together, less packet headers\n": {
			Kind: known("usb"), Address: known("1-1.2"), Device: known("0bda:8153"), Allows: fact.Known[units.BitRate](480e6, ""),
		},
		"  bus         virtual\n": {Kind: known("virtual")},
		"  bus         virtual 0000:00:04.0, says of itself 32 bit 33 MHz, which limits no emulated card\n": {
			Kind: known("virtual"), Address: known("0000:00:04.0"), Width: fact.Known(32, ""), Clock: fact.Known(33.0, ""),
		},
	} {
		must.NoDiff(t, cmp.Diff(want, factsText(t, func(p *page) { p.bus(b) })), "-want +got")
	}
}

// factsText returns what write writes on a page.
func factsText(t *testing.T, write func(*page)) string {
	var text strings.Builder
	p := &page{Page: term.NewPage(term.Options{Width: term.AnyWidth}), knobs: knob.NewIndex()}
	write(p)
	must.Do(t, p.Print(&text))
	return text.String()
}

// TestFactsOfModes: a delay that the driver treats as a mode is shown as a mode.
func TestFactsOfModes(t *testing.T) {
	for source, want := range map[string]string{"coalesce.rx-usecs of eth0 (e1000e)": "coalesce.rx_usecs 3 (mode dynamic, conservative)", "coalesce.rx-usecs of eth0": "coalesce.rx_usecs 3 µs"} {
		text := factsText(t, func(p *page) {
			p.settings(map[model.KnobID]fact.Of[string]{"nic.coalesce.rx_usecs": fact.Known("3", source)})
		})
		must.Contain(t, text, want+"\n", "%s", source)
	}
}

func TestFactsCommand(t *testing.T) {
	w := newWorld(t)
	if code := w.main(t, "facts", "--to", "127.0.0.1", "--json"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, w.err.String())
	}
	var doc struct {
		Schema string          `json:"schema"`
		Facts  model.HostFacts `json:"facts"`
	}
	must.Do(t, json.Unmarshal(w.out.Bytes(), &doc))
	must.True(t, doc.Schema == "linerate/facts/v1" && doc.Facts.Host == model.Near && doc.Facts.Machine != nil && doc.Facts.Address == "127.0.0.1", "%+v", doc)
	if code := w.main(t, "facts", "--to", "name.invalid"); code != exitUsage || !strings.Contains(w.err.String(), "name.invalid") {
		t.Errorf("exit code %d: %s", code, w.err.String())
	}
	code := w.main(t, "facts", "--to", "192.0.2.1", "lab:lan")
	must.True(t, code == exitUsage, "exit code %d: %s", code, w.err.String())
}

// TestChangesOfAnotherSystem: old values of a far host are parsed in the format of its own
// system, not of this one.
func TestChangesOfAnotherSystem(t *testing.T) {
	a := &console{}
	for _, c := range []struct{ system, raw, want string }{
		{"linux", "4096 131072 6291456", "6 MiB"},
		{"freebsd", "2097152", "2 MiB"},
		{"darwin", "4194304", "4 MiB"},
		{"freebsd", "4096 131072 6291456", "4096 131072 6291456"},
	} {
		must.Equal(t, a.readable(c.system, "tcp.recv_buffer_max", c.raw), c.want, "%s: %q", c.system, c.raw)
	}
	must.Equal(t, a.undoneText("freebsd", model.Change{Knob: "tcp.recv_buffer_max", State: model.ChangeUndone, Old: "2097152"}), "back to 2 MiB")
}

// TestFirstHour17KnobsPage: for a host without a default route no table is empty, unknown
// settings take one line per reason, and everything fits in 80 columns.
func TestFirstHour17KnobsPage(t *testing.T) {
	h := inspect.Host{HostFacts: model.HostFacts{Name: "nas", OS: "linux", Kernel: fact.Known("6.18.1", "uname"), Knobs: map[model.KnobID]fact.Of[string]{
		"tcp.recv_buffer_max": fact.Known("65536", "net.ipv4.tcp_rmem"),
		"tcp.timestamps":      fact.Known("1", "net.ipv4.tcp_timestamps"),
		"cpu.governor":        fact.Coded[string](string(knob.NotInKernel), "read cpu.governor: this machine has no scaling_governor here: unsupported operation"),
	}}, Origins: map[model.KnobID]model.FileLine{
		"tcp.recv_buffer_max": {File: "/etc/sysctl.d/90-buffers-of-the-storage.conf", Number: 4, Text: "4096 131072 6291456"},
	}}
	for _, k := range knob.Catalogue() {
		if k.Scope == knob.ScopeLink || k.Scope == knob.ScopeRoute {
			h.Knobs[k.ID] = fact.Coded[string](string(knob.NoPath), "find "+string(k.ID)+": the interface of the data path is not known: unsupported operation")
		}
	}
	rows := h.Settings("", false)
	whole := knobsText(h, rows, term.AnyWidth)
	must.True(t, !strings.Contains(whole, "offloads") && !strings.Contains(whole, "network card"), "themes without a value are shown:\n%s", whole)
	_, unknown, _ := strings.Cut(whole, "\nnot known")
	n := strings.Count(unknown, "data path is not known")
	must.True(t, n == 1 && strings.Contains(unknown, "  1: this kernel, network namespace or machine has none: cpu.governor\n"), "want one line for each reason:\n%s", unknown)
	must.True(t, strings.Contains(whole, "no way out of this host is known") &&
		strings.Contains(whole, "90-buffers-of-the-storage.conf:4 says 6 MiB"), "%v", whole)
	h.Link = "eth0"
	narrow := knobsText(h, rows, 80)
	for line := range strings.Lines(narrow) {
		must.True(t, utf8.RuneCountInString(line) <= 81, "%d columns: %s", utf8.RuneCountInString(line), line)
	}
	for _, want := range []string{
		"link and route: eth0 (--interface NAME", "\n    set by /etc/sysctl.d/90-buffers-of-the-storage.conf:4 says 6 MiB\n", "linerate knobs explain NAME shows all",
	} {
		must.Contain(t, narrow, want)
	}
}

func knobsText(h inspect.Host, rows []inspect.Setting, width int) string {
	p := term.NewPage(term.Options{Width: width})
	knobsPage(p, h, rows)
	var b strings.Builder
	_ = p.Print(&b)
	return b.String()
}

func TestKnobRows(t *testing.T) {
	h := inspect.Host{
		HostFacts: model.HostFacts{Name: "nas", OS: "linux", Kernel: fact.Known("6.18.1", "uname"), Knobs: map[model.KnobID]fact.Of[string]{"tcp.recv_buffer_max": fact.Known("65536", "net.ipv4.tcp_rmem"), "link.mtu": fact.Unknown[string]("no link")}},
		Origins: map[model.KnobID]model.FileLine{
			"tcp.recv_buffer_max": {File: "/etc/sysctl.d/90-x.conf", Number: 4, Text: "4096 131072 6291456"}, "tcp.sack": {File: "/etc/sysctl.conf", Number: 1, Text: "what"},
		},
	}
	find := func(rows []inspect.Setting, id model.KnobID) *inspect.Setting {
		if i := slices.IndexFunc(rows, func(r inspect.Setting) bool { return r.Knob == id }); i >= 0 {
			return &rows[i]
		}
		return nil
	}
	rows := h.Settings("", false)
	r := find(rows, "tcp.recv_buffer_max")
	must.Need(t, r != nil && r.Default == "32 MiB" && r.Theme == "socket and TCP buffers" && setByText(*r, "65536") == "/etc/sysctl.d/90-x.conf:4 says 6 MiB" && setByText(*r, "6291456") == "/etc/sysctl.d/90-x.conf:4", "%+v", r)
	r = find(rows, "tcp.sack")
	must.True(t, r != nil && r.SetBy != nil && r.SetBy.Value == "what" && r.Value.Reason() == "not read" && r.Default == "on", "%+v", r)
	r = find(rows, "link.mtu_max")
	must.True(t, r != nil && r.Range == "" && rangeText(*r) == "read-only", "%+v", r)
	r = find(rows, "tcp.ecn")
	must.True(t, r != nil && rangeText(*r) == "0, 1, 2, 3, 4, 5", "%+v", r)
	must.True(t, find(rows, "socket.buffer_max") == nil && find(h.Settings("", true), "socket.buffer_max") != nil,
		"settings of other systems are shown without --all, or hidden with it")
	must.Len(t, h.Settings("NET/ipv4/tcp_rmem", false), 3, "rows that match")
	must.Equal(t, len(h.Settings("", true)), len(knob.Catalogue()), "rows")
}
