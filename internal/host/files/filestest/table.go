package filestest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Row counts the trees that a program judged.
type Row struct {
	Format          string // "netplan"
	Program         string // "systemd-networkd 252.39"
	Remark          string // after the program; "" for none
	Proven, Refused int
}

// Record compares a row with the table of docs/systems.md, or with -update writes it.
// Versions may differ. Only a run of all trees (the tag slow) is compared.
func Record(t testing.TB, r Row) {
	t.Helper()
	t.Logf("%s by %s: %d trees, proven %d, refused %d", r.Format, r.Program, r.Proven+r.Refused, r.Proven, r.Refused)
	if !whole || t.Failed() {
		return
	}
	line := fmt.Sprintf("| %s | %s%s | %d | %d | %d | 0 |", r.Format, r.Program, r.Remark, r.Proven+r.Refused, r.Proven, r.Refused)
	if err := r.hold(line); err != nil {
		t.Error(err)
	}
}

// The table, from the folder of a format.
var (
	table   = filepath.Join("..", "..", "..", "..", "docs", "systems.md")
	heading = "| Format | Program and version |"
	number  = regexp.MustCompile(`\d+(\.\d+)*`)
)

func (r Row) hold(line string) error {
	text, err := os.ReadFile(table)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	first := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, heading) })
	if first < 0 {
		return fmt.Errorf("%s has no table that begins with %q", table, heading)
	}
	end := first + 2
	program, _, _ := strings.Cut(r.Program, " ")
	for ; end < len(lines) && strings.HasPrefix(lines[end], "|"); end++ {
		if !strings.HasPrefix(lines[end], "| "+r.Format+" | "+program+" ") {
			continue
		}
		if !updating() && unversioned(lines[end]) != unversioned(line) {
			return fmt.Errorf("docs/systems.md says\n%s\nand it is\n%s\ngo test -tags slow -p 1 -run 'Matrix|Running' -update in that package writes it", lines[end], line)
		}
		lines[end] = line
		end = -1
		break
	}
	switch {
	case !updating() && end >= 0:
		return fmt.Errorf("docs/systems.md has no row for %s by %s; -update writes it", r.Format, program)
	case !updating():
		return nil
	case end >= 0:
		lines = slices.Insert(lines, end, line)
	}
	return os.WriteFile(table, []byte(strings.Join(lines, "\n")), 0o644)
}

// updating reports whether the test runs with the flag -update of package must.
func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// unversioned returns a row without the version of its program.
func unversioned(line string) string {
	cells := strings.Split(line, "|")
	if len(cells) > 2 {
		cells[2] = number.ReplaceAllString(cells[2], "")
	}
	return strings.Join(cells, "|")
}
