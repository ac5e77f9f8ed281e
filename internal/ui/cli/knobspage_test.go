package cli

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"linerate/internal/app/inspect"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report/term"
)

// TestFirstHour17KnobsPage: of a host without a way out no table is empty and what is
// not known takes a line for each reason; and at 80 columns everything fits.
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
	if !strings.Contains(whole, "no way out of this host is known") || !strings.Contains(whole, "90-buffers-of-the-storage.conf:4 says 6 MiB") {
		t.Error(whole)
	}
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
	if r := find(rows, "tcp.sack"); r == nil || r.SetBy == nil || r.SetBy.Value != "what" || r.Value.Reason() != "not read" || r.Default != "on" {
		t.Errorf("%+v", r)
	}
	if r := find(rows, "link.mtu_max"); r == nil || r.Range != "" || rangeText(*r) != "read-only" {
		t.Errorf("%+v", r)
	}
	if r := find(rows, "tcp.ecn"); r == nil || rangeText(*r) != "0, 1, 2, 3, 4, 5" {
		t.Errorf("%+v", r)
	}
	must.True(t, find(rows, "socket.buffer_max") == nil && find(h.Settings("", true), "socket.buffer_max") != nil,
		"settings of other systems are shown without --all, or hidden with it")
	if rows := h.Settings("NET/ipv4/tcp_rmem", false); len(rows) != 3 {
		t.Errorf("%d rows match", len(rows))
	}
	n := len(h.Settings("", true))
	must.True(t, n == len(knob.Catalogue()), "%d of %d rows", n, len(knob.Catalogue()))
}
