package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/app/inspect"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/report/reporttest"
	"linerate/internal/report/term"
)

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
		"cpu.governor":        fact.Unknown[string]("read cpu.governor: this machine has no scaling_governor here: unsupported operation"),
	}}, Origins: map[model.KnobID]model.FileLine{
		"tcp.recv_buffer_max": {File: "/etc/sysctl.d/90-buffers-of-the-storage.conf", Number: 4, Text: "4096 131072 6291456"},
	}}
	for _, k := range knob.Catalogue() {
		if k.Scope == knob.ScopeLink || k.Scope == knob.ScopeRoute {
			h.Knobs[k.ID] = fact.Unknown[string]("find " + string(k.ID) + ": the interface of the data path is not known: unsupported operation")
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
		"link and route: eth0 (--interface NAME", "\n    set by /etc/sysctl.d/90-buffers-of-the-storage.conf:4 says 6 MiB\n", "linerate knobs explain NAME tells all",
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
