package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// confirming are the steps of keeping a change.
func confirming(step string) bool {
	return strings.HasSuffix(step, "confirmed") || strings.HasSuffix(step, "confirmation")
}

// other is the host of two that is not the step's.
func (c faultCase) other() string {
	if c.host == "near" {
		return "far"
	}
	return "near"
}

// otherHost has the other one of two hosts fail after a step of this one: both
// hosts have the change, or none, and what was confirmed before stays on both.
func otherHost() []fault {
	two := func(o operation, _ string) bool { return len(o.hosts) == 2 && !o.link }
	over := func(o operation, _ string) bool { return o.older }
	other := func(r *faultRun) string { return "watchdog-" + r.c.other() }
	begun := func(r *faultRun) bool { return len(r.victims()[other(r)]) > 0 } // one host is changed after the other
	kill := func(r *faultRun) {
		if begun(r) {
			r.kill(syscall.SIGKILL, other(r))
		}
	}
	full := func(r *faultRun) {
		dir := r.state(r.c.other())
		r.mounts.fill(r.t, dir)
		r.shut = func() { r.mounts.free(r.t, dir) }
	}
	hang := func(r *faultRun) {
		if begun(r) {
			r.kill(syscall.SIGSTOP, other(r))
		}
	}
	goOn := func(r *faultRun) {
		select {
		case <-r.t.Context().Done():
		case <-time.After(2 * time.Second):
		}
		for _, pid := range r.victims()[other(r)] {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	return []fault{
		{name: "other watchdog killed", fits: two, inject: kill, long: true},
		{name: "other journal's disk full", fits: two, inject: full, otherDisk: true, long: true},
		{name: "hang of the other watchdog", fits: two, inject: hang, follow: goOn, long: true},
		// Not by sample: every step of keeping a change over an older one.
		{name: "other watchdog killed while keeping", fits: over, inject: kill, at: confirming},
		{name: "other journal's disk full while keeping", fits: over, inject: full, at: confirming, otherDisk: true},
		{name: "hang of the other watchdog while keeping", fits: over, inject: hang, follow: goOn, at: confirming},
	}
}

// notes spoil the note that two hosts are being told to keep a change.
func notes() []fault {
	keeping := func(o operation, _ string) bool { return o.keeps }
	of := func(name string, spoil func(path string, text []byte) error) fault {
		return fault{name: "controller killed, its note " + name, fits: keeping, at: confirming, long: name != "cut", inject: func(r *faultRun) {
			r.kill(syscall.SIGKILL, "controller")
			path := filepath.Join(r.state("near"), "confirming.json")
			text, err := os.ReadFile(path)
			if err == nil {
				err = spoil(path, text)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				r.t.Error(err)
			}
			r.shut = func() {
				r.works("after that")
			}
		}}
	}
	return []fault{
		of("cut", func(path string, text []byte) error { return os.WriteFile(path, text[:len(text)/2], 0o600) }),
		of("empty", func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) }),
		of("gone", func(path string, _ []byte) error { return os.Remove(path) }),
		of("of zeros", func(path string, text []byte) error { return os.WriteFile(path, make([]byte, len(text)), 0o600) }),
	}
}
