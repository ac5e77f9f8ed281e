package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"linerate/internal/host/journal"
	"linerate/internal/must"
)

// heldLong is longer than the timeout for a journal that is in use.
const heldLong = 21 * time.Second

// locks returns faults in which another process holds the journal of the step's host, and damages
// of the records of files that linerate keep wrote.
func locks(plain func(operation, string) bool) []fault {
	early := func(d time.Duration) func(r *faultRun) {
		return func(r *faultRun) {
			free := r.hold()
			released := make(chan struct{})
			time.AfterFunc(d, func() {
				free()
				close(released)
			})
			r.open[r.c.host] = r.c.op.confirmed
			r.shut = func() {
				<-released
				r.works("after the journal was held")
			}
		}
	}
	kept := func(name string, files []string) fault {
		return fault{name: "kept record damaged in " + name, fits: plain, early: true, long: name != "both copies",
			mounts: func(r *faultRun) string { return ownEtc(filepath.Join(r.dir, "etc")) },
			inject: func(r *faultRun) { r.keepFiles(files) }}
	}
	return []fault{
		{name: "journal held for long from the start", fits: plain, early: true, long: true, inject: early(heldLong)},
		{name: "journal held for a moment from the start", fits: plain, early: true, inject: early(3 * time.Second)},
		{name: "everything killed, and the journal held for long", fits: plain, long: true, inject: func(r *faultRun) {
			r.kill(syscall.SIGKILL, everybody()...)
			r.open["near"], r.open["far"] = true, true
			r.shut = func() {
				free := r.hold()
				begun := time.Now()
				before := r.settings()[r.c.host]
				u := run(r.t, r.controller(r.c.host, "undo"))
				told := strings.Contains(u.err, fmt.Sprintf("process %d", os.Getpid()))
				if u.code != 7 && u.code != 0 || u.code != 0 && !told || u.code == 0 && !sameSettings(before, r.base[r.c.host]) {
					r.t.Errorf("undo while another process holds the journal: exit code %d\n%s%s", u.code, u.out, u.err)
				}
				<-time.After(heldLong - time.Since(begun))
				free()
			}
		}},
		kept("one copy", []string{"record.json"}), kept("both copies", []string{"record.json", "record.copy.json"}),
	}
}

// hold makes the test hold the journal of the case's host.
func (r *faultRun) hold() (free func()) {
	r.t.Helper()
	var j *journal.Journal
	var err error
	// A thread of a killed process may be the last to release the lock.
	must.Within(r.t, 20*time.Second, "the journal is free", func() bool {
		j, err = journal.Open(r.state(r.c.host))
		return err == nil
	})
	return sync.OnceFunc(func() { must.OK(r.t, j.Close()) })
}

// works requires that the case's host can be changed and undone.
func (r *faultRun) works(when string) {
	r.t.Helper()
	gates := r.gates
	r.gates = nil
	run(r.t, r.controller(r.c.host, "set", "tcp.window_scaling=off", "--for", "1s", "--json")).ends(r.t, 0)
	r.gone("a change " + when)
	r.gates = gates
}

// keepFiles creates two records of kept files on the case's host, damages some copies of the
// first one, and at the end undoes what is intact.
func (r *faultRun) keepFiles(damaged []string) {
	r.t.Helper()
	gates := r.gates
	r.gates = nil
	r.kept = true
	var texts []string
	for i, knob := range []string{"tcp.sack: off", "tcp.ecn: on"} {
		profile := filepath.Join(r.dir, fmt.Sprintf("profile-%d.yaml", i))
		must.Do(r.t, os.WriteFile(profile, []byte("profile: 2\nhosts:\n  - {role: receiver, knobs: {"+knob+"}}\n"), 0o600))
		k := run(r.t, r.controller(r.c.host, "keep", profile, "--yes"))
		must.Need(r.t, k.code == 0, "keep: exit code %d\n%s%s", k.code, k.out, k.err)
		texts = append(texts, r.keptFile())
	}
	for _, name := range damaged {
		path := filepath.Join(r.state(r.c.host), "kept", "000001", name)
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, slices.Concat(text[:len(text)/2], []byte("#"), text[len(text)/2+1:]), 0o600)
		}
		must.Do(r.t, err)
	}
	r.gates = gates
	r.shut = func() {
		must.Equal(r.t, r.keptFile(), texts[1], "the kept file")
		code, want := 0, ""
		if len(damaged) == 2 { // the second record is undone, the first one stays and is reported
			code, want = 7, texts[0]
		}
		u := run(r.t, r.controller(r.c.host, "undo", "--kept"))
		now := r.keptFile()
		must.True(r.t, u.code == code && now == want && (code == 0 || strings.Contains(u.out+u.err, "000001")), "undo --kept: exit code %d, want %d, left %q\n%s%s", u.code, code, now, u.out, u.err)
	}
}

// keptFile returns the file that linerate keep writes, "" for none.
func (r *faultRun) keptFile() string {
	b, _ := os.ReadFile(filepath.Join(r.dir, "etc", kept))
	return string(b)
}

// faultVar is N:DIR for a process that changes a host: it appends the name of every step to
// DIR/steps, and after step N, from 1, it reports on DIR/reached and waits for a byte on DIR/go.
// With N = 0 it stops nowhere.
const faultVar = "LINERATE_FAULT"

// faultPoint returns what this process does after each step; nil for nothing.
func faultPoint() func(step string) {
	number, dir, ok := strings.Cut(os.Getenv(faultVar), ":")
	if !ok {
		return nil
	}
	at, err := strconv.Atoi(number)
	orPanic(err)
	n := 0
	return func(step string) {
		orPanic(addLine(filepath.Join(dir, "steps"), step))
		if n++; n != at || !first(filepath.Join(dir, "once")) {
			return
		}
		reached, err := os.OpenFile(filepath.Join(dir, "reached"), os.O_WRONLY, 0)
		orPanic(err)
		resume, err := os.Open(filepath.Join(dir, "go"))
		orPanic(err)
		_, err = fmt.Fprintf(reached, "%d %s\n", os.Getpid(), step)
		orPanic(err)
		_, _ = resume.Read(make([]byte, 1)) // the end of the test also lets it go on
	}
}

// gate is the point where a process under test waits.
type gate struct {
	dir     string
	reached *os.File
	resume  *os.File
}

// newGate makes a gate in dir, which ends with the test.
func newGate(t *testing.T, dir string) *gate {
	t.Helper()
	must.Do(t, os.MkdirAll(dir, 0o700))
	g := &gate{dir: dir}
	for name, file := range map[string]**os.File{"reached": &g.reached, "go": &g.resume} {
		path := filepath.Join(dir, name)
		must.Do(t, syscall.Mkfifo(path, 0o600))
		// For both directions, so that opening does not block until the other side opens.
		f := must.Get(os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0))(t)
		*file = f
		t.Cleanup(func() { _ = f.Close() })
	}
	return g
}

// variable returns the variable that makes a process stop here after step n; 0 for nowhere.
func (g *gate) variable(n int) string { return fmt.Sprintf("%s=%d:%s", faultVar, n, g.dir) }

// wait waits until a process has stopped. ok is false if p ended before.
func (g *gate) wait(t *testing.T, p *process, within time.Duration) (pid int, step string, ok bool) {
	t.Helper()
	must.Do(t, g.reached.SetReadDeadline(time.Now().Add(within)))
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case r := <-p.done:
			p.done <- r // for wait
			_ = g.reached.SetReadDeadline(time.Now())
		case <-ended:
		}
	}()
	line, err := bufio.NewReader(g.reached).ReadString('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, "", false
	}
	must.Do(t, err)
	number, step, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid = must.Get(strconv.Atoi(number))(t)
	return pid, step, true
}

// open lets the process go on.
func (g *gate) open(t *testing.T) {
	t.Helper()
	must.Get(io.WriteString(g.resume, "!"))(t)
}

// steps returns the names of the steps so far.
func (g *gate) steps(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(g.dir, "steps"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	must.Do(t, err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

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
