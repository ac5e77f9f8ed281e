//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// span is a time in which a process did nothing, because it was killed or stopped.
type span struct {
	from, until time.Time
	killed      bool
}

// process is a program that is killed and started again.
type process struct {
	name string
	args []string
	log  string // of what it prints

	busy  sync.Mutex // held during a fault
	mu    sync.Mutex
	cmd   *exec.Cmd
	since time.Time
	downs []span
	lives time.Duration
	cpu   time.Duration
	peak  int64 // bytes
}

// start starts the program.
func (p *process) start() error {
	out, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the program has its own
	cmd := exec.CommandContext(context.Background(), p.args[0], p.args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.since = cmd, time.Now()
	if n := len(p.downs); n > 0 && p.downs[n-1].until.IsZero() {
		p.downs[n-1].until = p.since
	}
	return cmd.Start()
}

// kill kills the program, and counts what it used.
func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.downs = append(p.downs, span{from: time.Now(), killed: true})
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	s := p.cmd.ProcessState
	p.lives += time.Since(p.since)
	p.cpu += s.UserTime() + s.SystemTime()
	if usage, ok := s.SysUsage().(*syscall.Rusage); ok {
		p.peak = max(p.peak, usage.Maxrss<<10)
	}
	return nil
}

// stop stops the program for a time, as on a machine that hangs.
func (p *process) stop(d time.Duration) error {
	p.mu.Lock()
	process := p.cmd.Process
	p.mu.Unlock()
	from := time.Now()
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(d)
	p.mu.Lock()
	p.downs = append(p.downs, span{from: from, until: time.Now()})
	p.mu.Unlock()
	return process.Signal(syscall.SIGCONT)
}

// downFrom returns when p was killed first in a time, or also stopped, and false if it was not.
func (p *process) downFrom(from, until time.Time, stopped bool) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.downs {
		if (s.killed || stopped) && s.from.After(from) && s.from.Before(until) {
			return s.from, true
		}
	}
	return time.Time{}, false
}
