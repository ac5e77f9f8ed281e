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
	"sync"
	"testing"

	"linerate/internal/must"
)

// The part of docs/systems.md that the FreeBSD tests write.
const freebsdMark = "\n## FreeBSD 12.1\n"

const freebsdHead = freebsdMark + `
Written by ` + "`make test-vm SYSTEMS=-update`" + ` too, where ` + "`LINERATE_FREEBSD`" + ` names a FreeBSD: the
kernel 12.1-RELEASE with the driver em on an e1000. What its sysctl tree, its interfaces
and its files say, read by a program that shares no code with linerate, is the judge.
Beside that kernel stands no userland of FreeBSD: process 1, the shell and rc are small
ones of the lab, the root is an image in memory, which a reset gives to the next start as
it was written. Its sshd is the lab's too (golang.org/x/crypto/ssh), with the few programs that
linerate asks of a host. No polling is compiled into that kernel.

| FreeBSD 12.1 | |
|---|---|
`

// freebsdRows returns the lines of its table, in order.
func freebsdRows() []string {
	return []string{
		"every setting of the catalogue that the kernel has: set, read back, undone",
		"`test` to Debian and back; windows of 64 KiB to 1536 KiB over 40 ms",
		"what the smallest of these windows limits is named as that, in both directions",
		"`test` through a router: the traces of both directions name it",
		"`set` under a deadline, `keep` and `undo --kept`",
		"`keep`, a change open under `--at-boot`, a reset, `undo --kept`, another reset",
		"an agent by `exec:` from Debian: `test`, and a setting that is undone when the way to it is cut",
		"an agent over ssh, copied by Debian's OpenSSH: the same, and the copy is gone afterwards",
		"`serve` with a key, and refusal without; `test` by Debian",
		"`set --both` from either end",
		"`run`: two buffers compared, the better one kept and taken back",
		"`tune`: finds buffers that are too small, and proves it",
		"`test` and `set --both` between two of them",
		"`keep --both` and `undo --kept` between two of them",
		"buffers of the kernel used up: seen and named",
		"buffers above 8/9 of the limit of all sockets: refused; MTU: set and undone",
	}
}

// page allows one test at a time to write.
var page sync.Mutex

// told writes the result of a test into the line of the table that begins with what, if the
// page is to be written.
func told(t *testing.T, what string) {
	t.Helper()
	row := ""
	for _, r := range freebsdRows() {
		if strings.HasPrefix(r, what) {
			row = r
		}
	}
	must.Need(t, row != "", "no line of docs/systems.md begins with %q", what)
	t.Cleanup(func() {
		if !must.Updating() || t.Skipped() {
			return
		}
		page.Lock()
		defer page.Unlock()
		result := yes
		if t.Failed() {
			result = "no"
		}
		path := filepath.Join("..", "..", "..", "docs", "systems.md")
		text, err := os.ReadFile(path)
		if err == nil {
			cards, _, _ := strings.Cut(string(text), freebsdMark)
			err = os.WriteFile(path, []byte(cards+freebsdPart(string(text), row, result)+randomPart(string(text))), 0o644)
		}
		must.OK(t, err)
	})
}

// freebsdPart returns the part of the page with at most one line replaced.
func freebsdPart(text, row, result string) string {
	out := freebsdHead
	for _, r := range freebsdRows() {
		is := "not tried"
		if m := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(r) + ` \| (.*) \|$`).FindStringSubmatch(text); m != nil {
			is = m[1]
		}
		if r == row {
			is = result
		}
		out += "| " + r + " | " + is + " |\n"
	}
	return out
}

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

// report prints the table, and writes it on request.
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
	if !must.Updating() {
		return
	}
	must.OK(t, os.WriteFile(path, []byte(systemsHead+head+body+freebsdPart(string(before), "", "")+randomPart(string(before))), 0o644))
}

// cells returns the cells of a row of the page after its label.
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
