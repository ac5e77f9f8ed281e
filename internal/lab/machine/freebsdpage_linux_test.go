//go:build vm

package machine

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"linerate/internal/must"
)

// The part of docs/systems.md that the tests of FreeBSD write.
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

// freebsdRows are the lines of its table, in their order.
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

// page is written by one test at a time.
var page sync.Mutex

// told writes how a test ended into the line of the table that begins with what, where
// the page is to be written.
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
		if !*update || t.Skipped() {
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

// freebsdPart is the part of the page, in which one line, if any, is new.
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
