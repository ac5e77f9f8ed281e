//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// process is a program that is killed and started again.
type process struct {
	name  string
	hosts []string // that are in it
	args  []string
	user  uint32 // 0 is root
	log   string // of what it prints

	busy  sync.Mutex // held during a fault
	mu    sync.Mutex
	cmd   *exec.Cmd
	since time.Time
	kills []time.Time
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
	if p.user > 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: p.user, Gid: p.user}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.since = cmd, time.Now()
	return cmd.Start()
}

// kill kills the program, and counts what it used.
func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kills = append(p.kills, time.Now())
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

// gone reports whether the program has ended by itself.
func (p *process) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid)) // proc(5): the state is behind the name
	return err != nil || bytes.Contains(stat, []byte(") Z "))
}

// stop stops the program for a time, as on a machine that hangs.
func (p *process) stop(d time.Duration) error {
	p.mu.Lock()
	process := p.cmd.Process
	p.mu.Unlock()
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(d)
	return process.Signal(syscall.SIGCONT)
}

// killed returns when p was killed first in a time, and false if it was not.
func (p *process) killed(from, until time.Time) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.kills {
		if at.After(from) && at.Before(until) {
			return at, true
		}
	}
	return time.Time{}, false
}
