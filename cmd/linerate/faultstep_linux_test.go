package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/must"
)

// faultVar is N:DIR for a process that changes a host: it adds the name of every
// step to DIR/steps, and after step N, 1…, it says so on DIR/reached and waits for
// a byte on DIR/go. N of 0 stops nowhere.
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
		_, _ = resume.Read(make([]byte, 1)) // the end of the test too lets it go on
	}
}

// gate is where a process under test waits.
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
		// For both directions, so that nobody waits for the other to open it.
		f := must.Get(os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0))(t)
		*file = f
		t.Cleanup(func() { _ = f.Close() })
	}
	return g
}

// variable is what a process needs to stop here after step n; 0 for nowhere.
func (g *gate) variable(n int) string { return fmt.Sprintf("%s=%d:%s", faultVar, n, g.dir) }

// wait waits until a process has stopped. It returns false when p ended before.
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

// open has the process go on.
func (g *gate) open(t *testing.T) {
	t.Helper()
	must.Get(io.WriteString(g.resume, "!"))(t)
}

// steps are the names of the steps so far.
func (g *gate) steps(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(g.dir, "steps"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	must.Do(t, err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}
