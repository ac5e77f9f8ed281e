//go:build vm

package machine

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"linerate/internal/must"
)

// The part of docs/systems.md that TestCards writes.
const systemsHead = `# Where linerate was run

Written by ` + "`make test-vm SYSTEMS=-update`" + `: whole machines in QEMU with Debian's kernel 6.1 and
nine network cards, each joined to the same card of another machine. What ethtool, ip,
tc and sysctl say is the judge, before, while and after linerate holds a setting.

Facts are the driver under its interface. Settings are the queue's length and discipline, the largest segments, and how packets
are received, each undone; an MTU is 1400 and the driver's largest; a forced mode is 100 Mbit/s full
and 10 Mbit/s half duplex without negotiation; a test is one of TCP in both directions, a sweep one of the
smallest messages; a reset is a power cut in the middle of a change. Not offered is what a card does not have, or has one value of.

A reboot is one of Debian with systemd: what ` + "`linerate keep`" + ` wrote for the card (queue,
MTU, receive offload, and the kernel's congestion control) is there afterwards, by ifupdown
for the first card, systemd-networkd for the second and the .link files of udev for the
others; a change that was open under ` + "`--at-boot`" + ` is not; after ` + "`linerate undo --kept`" + ` and
another reboot all is as it was.

`

// report prints the table, and writes it where that is asked for.
func report(t *testing.T, cards [][2]string, rows map[string]map[string]string) {
	t.Helper()
	heads := []string{"facts", "settings", "offloads", "rings", "forced mode", "pause", "MTU", "test", "sweep", "reset", "reboot"}
	head := fmt.Sprintf("| Card | Driver | %s |\n|---|---|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	path := filepath.Join("..", "..", "..", "docs", "systems.md")
	before, _ := os.ReadFile(path) // the rows of cards that are left out now stay
	body := ""
	for _, c := range models() {
		row := fmt.Sprintf("| %s | %s |", c[0], c[1])
		was := cells(string(before), row)
		if !slices.Contains(cards, c) {
			body += field(string(before), `(?m)^(`+regexp.QuoteMeta(row)+`.*\n)`)
			continue
		}
		for i, name := range heads {
			if *columns != "" && rows[c[0]][name] == "" && i < len(was) {
				rows[c[0]][name] = was[i]
			}
			row += " " + cmp.Or(rows[c[0]][name], "not tried") + " |"
		}
		body += row + "\n"
	}
	t.Log("\n" + head + body)
	if !*update {
		return
	}
	must.OK(t, os.WriteFile(path, []byte(systemsHead+head+body+freebsdPart(string(before), "", "")+randomPart(string(before))), 0o644))
}

// cells are those of a row of the page, behind what the row begins with.
func cells(page, row string) []string {
	rest := field(page, `(?m)^`+regexp.QuoteMeta(row)+`(.*)\|$`)
	if rest == "" {
		return nil
	}
	all := strings.Split(rest, "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}
