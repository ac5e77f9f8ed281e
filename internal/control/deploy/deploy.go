// Package deploy starts an agent on a far host that has only a shell.
//
//  1. It asks the host for its system and CPU, and finds a linerate for them:
//     this very program, one beside it, or one in the cache folder.
//  2. It copies that into a private directory there over the shell's own
//     connection, and has the host tell the SHA-256 of what arrived.
//  3. It starts the agent. Two remove the directory: the shell when the agent has
//     ended, also by force, and the agent itself, in case the shell was ended first.
//  4. As root by sudo, where asked for, the agent starts from a copy that only root
//     may write and whose SHA-256 root took; see rootScript.
package deploy

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"linerate/internal/control/wire"
	"linerate/internal/control/wire/ssh"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
	"linerate/internal/host/durable"
)

// Options of Agent. The zero value copies this program and runs it as the user
// that ssh leads to.
type Options struct {
	// Self is the file of this program; "" is what the system says it is.
	Self string
	// Version of this program: the cache folder has one directory for each.
	Version string
	// Cache is linerate's cache folder here; "" is the user's.
	Cache string
	// Sudo runs the agent as root: from a copy that only root may write, whose sum
	// was taken there.
	Sudo bool
	// TrustFar runs, also as root, a linerate that the far host has itself where
	// there is none for its system here. Nobody knows what it is.
	TrustFar bool
	// Password asks for the password of sudo on a host. It returns ErrNobody where
	// there is no terminal to answer on, which is also what nil stands for.
	Password func(host string) ([]byte, error)
	// Keep says whether the program stays in the cache folder there, for the next time.
	Keep Keep
	// MayKeep, where given, is asked before a copy of so many bytes where Keep does not
	// say it.
	MayKeep func(ctx context.Context, bytes int) (bool, error)
	// Flags are given to the agent, besides those that its start needs. They have
	// no characters that any shell reads.
	Flags []string
	// Copying, where given, is told how much of the program was copied, 0 at first.
	Copying func(done, bytes int)
}

// Keep says whether a program stays on a host.
type Keep int

// What becomes of a program when its agent has ended.
const (
	KeepAsked Keep = iota // as MayKeep says, else it goes
	KeepYes               // it stays, and is used again if it is still the same
	KeepNo                // it goes
	KeepNone              // it goes, and those go that stayed before
)

// ErrNobody is of a password that nobody is there to type.
var ErrNobody = errors.New("there is no terminal to type it on")

// far is what is known of the far host.
type far struct {
	system    system
	root      bool
	tools     map[string]bool // programs that it has
	installed string          // a linerate in its PATH, "" for none
}

// Agent starts an agent behind shell, which it owns from then on, also when it
// fails. The error is a fault with a hint where the user can help, which wraps
// errors.ErrUnsupported for a system that linerate does not run on.
func Agent(ctx context.Context, shell *ssh.Shell, o Options) (wire.Peer, error) {
	peer, err := start(ctx, shell, o)
	if err != nil {
		_ = shell.Close()
		return wire.Peer{}, err
	}
	return peer, nil
}

func start(ctx context.Context, shell *ssh.Shell, o Options) (wire.Peer, error) {
	if shell.Kind == ssh.PowerShell {
		return startWindows(ctx, shell, o)
	}
	d := &deployment{shell: shell, o: o, host: shell.Target().Host}
	f, err := d.look(ctx)
	if err != nil {
		return wire.Peer{}, err
	}
	d.far = f
	if o.Sudo && !f.root && !f.tools["sudo"] {
		return wire.Peer{}, fault.New(fault.Unreachable, fmt.Errorf("--sudo: %s has no sudo", d.host), "log in there as root, or leave out --sudo")
	}
	file, err := d.provide(ctx)
	if err != nil {
		return wire.Peer{}, err
	}
	if o.Sudo && !f.root {
		return d.startBySudo(ctx, file)
	}
	a, b := shell.Mark()
	return shell.Start(ctx, fmt.Sprintf(`printf '%%s%%s 0\n' %s %s; %s agent %s; exit $?`, a, b, plain.ShellWord(file.path), d.flags(file)), nil)
}

// deployment is one start of an agent by a POSIX shell.
type deployment struct {
	shell *ssh.Shell
	o     Options
	host  string
	far   far
}

// remote is the program on the far host.
type remote struct {
	path string
	dir  string      // to be removed; "" for one that stays
	want fingerprint // that it has; the zero value for a program of the far host's own
}

// removal is the flag of the agent that makes it leave nothing behind.
func (r remote) removal() string {
	if r.dir == "" {
		return ""
	}
	return "--remove " + plain.ShellWord(r.dir)
}

// flags are those of the agent.
func (d *deployment) flags(r remote) string {
	return strings.TrimSpace(strings.Join(d.o.Flags, " ") + " " + r.removal())
}

// provide brings the program to the far host, or finds it there.
func (d *deployment) provide(ctx context.Context) (remote, error) {
	files, err := find(d.far.system, d.o)
	if err != nil {
		if d.far.installed != "" { // the session says whether it fits
			return remote{path: d.far.installed}, d.mayRunUnknown(d.far.installed)
		}
		return remote{}, err
	}
	want, err := load(files[0])
	if err != nil {
		return remote{}, fmt.Errorf("copy linerate to %s: %w", d.host, err)
	}
	kept := ""
	switch d.o.Keep {
	case KeepYes:
		kept = keptName + want.sum[:16]
	case KeepNone:
		if err := d.removeKept(ctx, ""); err != nil {
			return remote{}, err
		}
	case KeepAsked, KeepNo:
	}
	if d.far.installed != "" {
		for _, file := range files {
			is, err := load(file)
			if err == nil && d.verify(ctx, d.far.installed, is) == nil {
				return remote{path: d.far.installed, want: is}, nil
			}
		}
	}
	if kept != "" {
		there, err := d.keptPath(ctx, kept)
		if err != nil {
			return remote{}, err
		}
		if d.verify(ctx, there, want) == nil {
			return remote{path: there, want: want}, nil
		}
	}
	if d.o.Keep == KeepAsked && d.o.MayKeep != nil {
		yes, err := d.o.MayKeep(ctx, len(want.program))
		if err != nil {
			return remote{}, err
		}
		if yes {
			kept = keptName + want.sum[:16]
		}
	}
	return d.copy(ctx, want, kept)
}

// load reads a program.
func load(file string) (fingerprint, error) {
	program, err := os.ReadFile(file)
	return fingerprint{program, durable.Sum(program)}, err
}

// copy sends the program and checks what arrived.
func (d *deployment) copy(ctx context.Context, want fingerprint, kept string) (remote, error) {
	dir, err := d.makeDir(ctx, kept != "")
	if kept != "" && errors.Is(err, errNoExec) { // it cannot stay there
		kept = ""
		dir, err = d.makeDir(ctx, false)
	}
	if err != nil {
		return remote{}, err
	}
	r := remote{path: dir + "/" + d.far.system.file(), dir: dir, want: want}
	data, receive := want.program, "cat"
	if d.far.tools["gzip"] {
		if data, err = compress(want.program); err != nil {
			return remote{}, fmt.Errorf("copy linerate to %s: %w", d.host, err)
		}
		receive = "gzip -dc"
	}
	result, err := d.shell.Feed(ctx, fmt.Sprintf(`head -c %d | %s >%s && chmod 700 %s`, len(data), receive, plain.ShellWord(r.path), plain.ShellWord(r.path)), data, d.o.told(len(data)))
	if err != nil {
		return remote{}, fmt.Errorf("copy linerate to %s: %w", d.host, err)
	}
	if result.Status != 0 {
		return remote{}, d.refused("copy linerate to", result)
	}
	if err := d.verify(ctx, r.path, want); err != nil {
		return remote{}, fmt.Errorf("copy linerate to %s: %w", d.host, err)
	}
	if kept == "" {
		return r, nil
	}
	return d.keep(ctx, r, kept)
}

// told returns what is told of a copy of so many bytes, and tells of its beginning.
func (o Options) told(bytes int) func(done int) {
	if o.Copying == nil {
		return nil
	}
	o.Copying(0, bytes)
	return func(done int) { o.Copying(done, bytes) }
}

// refused says what the far host said to a command.
func (d *deployment) refused(what string, r ssh.Result) error {
	words := firstLine(r.Output)
	if words == "" {
		words = fmt.Sprintf("exit status %d", r.Status)
	}
	return fmt.Errorf("%s %s: %s", what, d.host, words)
}

// compress makes the copy about a third as long. The fastest level: on one core
// it is level with a link of some 400 Mbit/s, and slower links are the ones on
// which anybody waits.
func compress(program []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(program)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
