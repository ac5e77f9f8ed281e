package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"syscall"

	"linerate/internal/host/journal"
	"linerate/internal/must"
)

// damages returns faults in the journal of the step's host.
func damages(plain func(operation, string) bool) []fault {
	// Either the process with the open journal goes on, or none is left.
	goesOn := func(name string, damage func(r *faultRun)) fault {
		return fault{name: name, fits: plain, long: strings.Contains(name, "torn"), inject: damage}
	}
	killed := func(name string, lost bool, damage func(r *faultRun)) fault {
		return fault{name: name + ", everything killed", fits: plain, long: strings.Contains(name, "torn"), inject: func(r *faultRun) {
			r.kill(syscall.SIGKILL, everybody()...)
			r.open["near"], r.open["far"] = true, true
			r.shut = func() {
				damage(r)
				r.lost = lost
			}
		}}
	}
	last := func(lines [][]byte) int { return len(lines) - 1 }
	some := func(r *faultRun, more int) func([][]byte) int {
		return func(lines [][]byte) int { return (r.c.step + more) % len(lines) }
	}
	return []fault{
		goesOn("first copy of the journal torn", func(r *faultRun) { r.spoil(0, last, tear) }),
		goesOn("second copy of the journal flipped", func(r *faultRun) { r.spoil(1, some(r, 0), flipByte) }),
		killed("first copy of the journal flipped", false, func(r *faultRun) { r.spoil(0, some(r, 0), flipByte) }),
		killed("second copy of the journal torn", false, func(r *faultRun) { r.spoil(1, last, tear) }),
		killed("first copy of the journal gone", false, func(r *faultRun) {
			must.OK(r.t, os.Remove(r.mounts.path(journal.Files(r.state(r.c.host))[0])))
		}),
		killed("different records of both copies flipped", false, func(r *faultRun) {
			r.spoil(0, some(r, 0), flipByte)
			if r.records() > 1 {
				r.spoil(1, some(r, 1), flipByte)
			}
		}),
		// What the last record promises is not done yet, or is done and its intent is whole.
		killed("last record flipped in both copies", true, func(r *faultRun) {
			r.spoil(0, last, flipByte)
			r.spoil(1, last, flipByte)
		}),
		killed("last record torn in both copies", true, func(r *faultRun) {
			r.spoil(0, last, tear)
			r.spoil(1, last, tear)
		}),
		killed("record of a newer linerate", false, func(r *faultRun) {
			back := r.newer()
			r.newerIsRefused("undo", "--json")
			r.newerIsRefused("set", "tcp.window_scaling=off", "--for", "1s", "--json")
			r.newerIsRefused("undo", "--acknowledge")
			back()
		}),
		{name: "record of a newer linerate from the start", fits: plain, early: true, inject: func(r *faultRun) {
			j, err := journal.Open(r.state(r.c.host))
			if err == nil {
				err = j.Close()
			}
			must.Do(r.t, err)
			back := r.newer()
			r.open[r.c.host] = r.c.op.confirmed
			r.unread = true
			r.shut = func() {
				back()
				r.unread = false
			}
		}},
	}
}

// spoil damages a record of one copy of the journal of the case's host: one that both copies
// have. If all processes are killed one after another, the last one may have begun to undo, and
// a record of that may be only in the first copy.
func (r *faultRun) spoil(which int, choose func([][]byte) int, damage func([]byte) []byte) {
	r.t.Helper()
	paths := journal.Files(r.state(r.c.host))
	lines := func(path string) [][]byte {
		text, err := os.ReadFile(path)
		must.Need(r.t, err == nil && len(text) != 0, "%s: %d bytes, %v", path, len(text), err)
		return bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	}
	path := r.mounts.path(paths[which])
	all := lines(path)
	all[len(all)-1] = append(bytes.Clone(all[len(all)-1]), '\n')
	i := choose(all[:min(len(all), len(lines(r.mounts.path(paths[1-which]))))])
	all[i] = damage(bytes.Clone(all[i]))
	must.Do(r.t, os.WriteFile(path, bytes.Join(all, nil), 0o600))
}

// records returns the number of records in the journal of the case's host.
func (r *faultRun) records() int {
	all, _, err := journal.Read(r.mounts.path(r.state(r.c.host)))
	must.Do(r.t, err)
	return len(all)
}

// tear loses the end of a line, and flipByte flips one bit of it.
func tear(line []byte) []byte { return line[:len(line)-len(line)/3] }

func flipByte(line []byte) []byte {
	line[len(line)/2] ^= 0x10
	return line
}

// newer appends a record of a later version to the journal of the case's host.
func (r *faultRun) newer() (back func()) {
	r.t.Helper()
	line := `"v":7,"seq":100000,"prev":99999,"by":"9.8.7","record":{}}`
	raw := fmt.Appendf(nil, "{\"crc\":\"%08x\",%s\n", crc32.Checksum([]byte(line), crc32.MakeTable(crc32.Castagnoli)), line)
	r.edit(r.t, r.c.host, func(text []byte) []byte { return append(text, raw...) })
	return func() {
		r.edit(r.t, r.c.host, func(text []byte) []byte {
			must.True(r.t, bytes.HasSuffix(text, raw), "the record of a newer linerate was touched: %q", text)
			return bytes.TrimSuffix(text, raw)
		})
	}
}

// newerIsRefused requires that a command on the case's host names the version that wrote the
// record, and changes nothing.
func (r *faultRun) newerIsRefused(args ...string) {
	r.t.Helper()
	before := r.settings()[r.c.host]
	u := run(r.t, r.controller(r.c.host, args...))
	if u.code == 0 || args[0] == "undo" && u.code != 7 || !strings.Contains(u.out+u.err, "written by linerate 9.8.7 in version 7 of the format") {
		r.t.Errorf("%q with a record of a newer linerate: exit code %d\n%s%s", args, u.code, u.out, u.err)
	}
	now := r.settings()[r.c.host]
	must.True(r.t, sameSettings(now, before), "%q with a record of a newer linerate: %v, before %v", args, now, before)
}
