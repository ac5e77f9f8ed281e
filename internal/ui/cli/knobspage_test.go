package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// TestFirstHour17KnobsPage: of a host without a way out no table is empty and what is
// not known takes a line for each reason; and at 80 columns everything fits.
func TestFirstHour17KnobsPage(t *testing.T) {
	h := hostKnobValues{name: "nas", system: "linux", kernel: "6.18.1", values: map[model.KnobID]fact.Of[string]{
		"tcp.recv_buffer_max": fact.Known("65536", "net.ipv4.tcp_rmem"),
		"tcp.timestamps":      fact.Known("1", "net.ipv4.tcp_timestamps"),
		"cpu.governor":        fact.Unknown[string]("read cpu.governor: this machine has no scaling_governor here: unsupported operation"),
	}, origins: map[model.KnobID]model.FileLine{
		"tcp.recv_buffer_max": {File: "/etc/sysctl.d/90-buffers-of-the-storage.conf", Number: 4, Text: "4096 131072 6291456"},
	}}
	for _, k := range knob.Catalogue() {
		if k.Scope == knob.ScopeLink || k.Scope == knob.ScopeRoute {
			h.values[k.ID] = fact.Unknown[string]("find " + string(k.ID) + ": the interface of the data path is not known: unsupported operation")
		}
	}
	rows := knobRows(h, knobsFlags{})
	whole := knobsText(h, rows, 0)
	if strings.Contains(whole, "offloads") || strings.Contains(whole, "network card") {
		t.Errorf("themes without a value are shown:\n%s", whole)
	}
	_, unknown, _ := strings.Cut(whole, "\nnot known")
	if n := strings.Count(unknown, "data path is not known"); n != 1 || !strings.Contains(unknown, "  1: this kernel, network namespace or machine has none: cpu.governor\n") {
		t.Errorf("want one line for each reason:\n%s", unknown)
	}
	if !strings.Contains(whole, "no way out of this host is known") || !strings.Contains(whole, "90-buffers-of-the-storage.conf:4 says 6 MiB") {
		t.Error(whole)
	}
	h.link = "eth0"
	narrow := knobsText(h, rows, 80)
	for line := range strings.Lines(narrow) {
		if utf8.RuneCountInString(line) > 81 {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
	for _, want := range []string{
		"link and route: eth0 (--interface NAME", "\n    set by /etc/sysctl.d/90-buffers-of-the-storage.conf:4 says 6 MiB\n", "linerate knobs explain NAME tells all",
	} {
		if !strings.Contains(narrow, want) {
			t.Errorf("%q is missing:\n%s", want, narrow)
		}
	}
}
