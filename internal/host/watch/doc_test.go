package watch

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"linerate/internal/must"
)

var update = flag.Bool("update", false, "write docs/counters.md anew")

const document = "../../../docs/counters.md"

// page is docs/counters.md.
func page() string {
	var b strings.Builder
	b.WriteString(`# What a host counts

While traffic flows, each host reads its own counters once a second. Samples with these names carry what happened in their interval; the report of an end carries, under ` + "`counters`" + `, how far each moved in the run. Only what moved is listed. ` + "`counters_read`" + ` says what was looked at: where it names a group, a counter of that group that is not listed did not move; where it does not, nobody knows.

This page is written by ` + "`go test ./internal/host/watch -update`" + ` from the list in ` + "`internal/host/watch`" + `. *Counted in* names the place in Linux; FreeBSD (` + "`kern.cp_times`, `net.inet.{ip,udp,tcp}.stats`, `NET_RT_IFLIST`, `vm.uma`, `kern.msgbuf`" + `), macOS (` + "`net.inet.{udp,tcp}.stats`, `NET_RT_IFLIST2`" + `; no cores, and TCP for root only) and Windows (` + "`NtQuerySystemInformation`, `Get{Ip,Udp,Tcp}StatisticsEx`, `GetIfEntry2`" + `) fill in what they count too.

Whose counters: groups ` + "`ip`, `udp`, `tcp`, `ecn` and `track`" + ` are the network namespace's, ` + "`nic`, `driver`, `queue` and `qdisc`" + ` those of the interface that carries the traffic, for all its traffic; ` + "`cpu`, `softnet`, `mbuf` and `log`" + ` are the whole machine's, in a container too. ` + "`of`" + ` names the core (` + "`cpu3`; empty for all of them; `other cpus` for those of a large machine that are not listed" + `), the interface (` + "`eth0`" + `), the interface and the driver's own name (` + "`eth0 rx_no_buffer_count`" + `), or ` + "`IPv6`" + ` where Linux keeps a counter apart for it. On machines with more than 64 cores only the 16 busiest are listed.

Kinds: a *share* is in samples only, a *time* in counters only; a *level* is what stands at the end of the interval, in samples only; a *count* is in both.
`)
	group := Group("")
	for _, d := range Definitions() {
		if d.Group != group {
			group = d.Group
			fmt.Fprintf(&b, "\n## %s\n\n| Name | Kind | Unit | Meaning | Counted in |\n|---|---|---|---|---|\n", group)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", d.Name, d.Kind, d.Unit, d.Meaning, d.Source)
	}
	return b.String()
}

// TestDocument holds docs/counters.md against the list.
func TestDocument(t *testing.T) {
	if *update {
		must.Do(t, os.WriteFile(document, []byte(page()), 0o644))
	}
	b := must.Get(os.ReadFile(document))(t)
	must.Equal(t, string(b), page(), "docs/counters.md is not what the list says: go test ./internal/host/watch -update")
	sections := map[string]bool{}
	for l := range strings.Lines(string(b)) {
		must.True(t, !strings.HasPrefix(l, "## ") || !sections[l], "%s stands twice: the list is not in order of groups", strings.TrimSpace(l))
		sections[l] = true
	}
}
