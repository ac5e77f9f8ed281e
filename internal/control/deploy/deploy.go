// Package deploy starts an agent on a far host that has only a shell.
//
//  1. It asks the host for its system and CPU, and finds a linerate for them: this program,
//     one beside it, or one in the cache folder.
//  2. It copies that into a private directory there over the shell's own connection, and has
//     the host compute the SHA-256 of what arrived.
//  3. It starts the agent. Two processes remove the directory: the shell when the agent has
//     ended, even if killed, and the agent itself, in case the shell ends first.
//  4. With sudo, if requested, the agent starts as root from a copy that only root may write
//     and whose SHA-256 root checked; see rootScript.
package deploy

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"linerate/internal/control/wire"
	"linerate/internal/control/wire/ssh"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
	"linerate/internal/host/durable"
)

// Options of Agent. The zero value copies this program and runs it as the ssh user.
type Options struct {
	// Self is the file of this program; "" is the path that the system reports.
	Self string
	// Version is the version of this program: each has a directory in the cache folder.
	Version string
	// Cache is linerate's cache folder on this machine; "" is the user's.
	Cache string
	// Sudo runs the agent as root, from a copy that only root may write and whose checksum root
	// checked.
	Sudo bool
	// TrustFar runs the far host's own linerate, even as root, if this machine has none for its
	// system. That program is unverified.
	TrustFar bool
	// Password prompts for the sudo password of a host. It returns ErrNoTerminal if there is no
	// terminal to prompt on; nil always means that.
	Password func(host string) ([]byte, error)
	// Keep says whether the program stays in the far host's cache folder for the next time.
	Keep Keep
	// MayKeep, if set, is called before a copy of this many bytes if Keep is KeepAsked.
	MayKeep func(ctx context.Context, bytes int) (bool, error)
	// Last, if set, is where the last copy for the same host went. While that session lasts, the
	// next one takes its program from there instead of sending it again.
	Last *Last
	// Flags are passed to the agent, besides those that its start needs. They contain no shell
	// metacharacters.
	Flags []string
	// Copying, if set, is called with the number of bytes copied so far, first with 0.
	Copying func(done, bytes int)
}

// Last is the place of a copy on a far host. It is safe for concurrent use.
type Last struct{ path atomic.Pointer[string] }

// Keep says whether a program stays on the far host.
type Keep int

// What happens to a program after its agent has ended.
const (
	KeepAsked Keep = iota // MayKeep decides; without it the program is removed
	KeepYes               // it stays, and is reused if unchanged
	KeepNo                // it is removed
	KeepNone              // it is removed, and so are earlier ones
)

// ErrNoTerminal reports that there is no terminal to type a password on.
var ErrNoTerminal = errors.New("there is no terminal to type it on")

// far describes the far host.
type far struct {
	system    system
	root      bool
	tools     map[string]bool // programs that it has
	installed string          // path of its own linerate, "" for none
}

// Agent starts an agent through shell, which it owns from then on, even if it fails. The error
// is a fault with a hint if the user can act on it. It wraps errors.ErrUnsupported for a system
// that linerate does not support.
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

// deployment is one start of an agent through a POSIX shell.
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
	want fingerprint // expected; zero for the far host's own program
}

// removal returns the flag that makes the agent remove its directory.
func (r remote) removal() string {
	if r.dir == "" {
		return ""
	}
	return "--remove " + plain.ShellWord(r.dir)
}

// flags returns the flags of the agent.
func (d *deployment) flags(r remote) string {
	return strings.TrimSpace(strings.Join(d.o.Flags, " ") + " " + r.removal())
}

// provide copies the program to the far host, or finds it there.
func (d *deployment) provide(ctx context.Context) (remote, error) {
	files, err := find(d.far.system, d.o)
	if err != nil {
		if d.far.installed != "" { // the session checks its version
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

// load reads a program and its checksum.
func load(file string) (fingerprint, error) {
	program, err := os.ReadFile(file)
	return fingerprint{program, durable.Sum(program)}, err
}

// copy sends the program and verifies what arrived.
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
	if kept == "" && d.again(ctx, r) {
		return r, nil
	}
	data, receive := want.program, "cat"
	if d.far.tools["gzip"] {
		if data, err = compressed.of(want); err != nil {
			return remote{}, fmt.Errorf("copy linerate to %s: %w", d.host, err)
		}
		receive = "gzip -dc"
	}
	result, err := d.shell.Feed(ctx, fmt.Sprintf(`head -c %d | %s >%s && chmod 700 %s`, len(data), receive, plain.ShellWord(r.path), plain.ShellWord(r.path)), data, d.o.announce(len(data)))
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
		if d.o.Last != nil {
			d.o.Last.path.Store(&r.path)
		}
		return r, nil
	}
	return d.keep(ctx, r, kept)
}

// again makes r of the copy of an earlier session. It has a name of its own, so that the end of
// that session does not remove it. It reports false if the copy is gone or another program now.
func (d *deployment) again(ctx context.Context, r remote) bool {
	if d.o.Last == nil || d.o.Last.path.Load() == nil {
		return false
	}
	from, to := plain.ShellWord(*d.o.Last.path.Load()), plain.ShellWord(r.path)
	result, err := d.shell.Run(ctx, fmt.Sprintf("ln %s %s 2>/dev/null || cp %s %s 2>/dev/null", from, to, from, to), nil)
	if err != nil || result.Status != 0 || d.verify(ctx, r.path, r.want) != nil {
		_, _ = d.shell.Run(ctx, "rm -f "+to, nil)
		return false
	}
	return true
}

// announce announces a copy of this many bytes and returns the function that reports its progress.
func (o Options) announce(bytes int) func(done int) {
	if o.Copying == nil {
		return nil
	}
	o.Copying(0, bytes)
	return func(done int) { o.Copying(done, bytes) }
}

// refused returns an error with the far host's answer to a command.
func (d *deployment) refused(what string, r ssh.Result) error {
	words := firstLine(r.Output)
	if words == "" {
		words = fmt.Sprintf("exit status %d", r.Status)
	}
	return fmt.Errorf("%s %s: %s", what, d.host, words)
}

// compressed is the program that was last compressed: a mesh copies one to many hosts.
var compressed packed

// packed is a program and its compressed form.
type packed struct {
	mu   sync.Mutex
	sum  string
	data []byte
}

// of returns a program compressed.
func (p *packed) of(want fingerprint) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sum == want.sum {
		return p.data, nil
	}
	data, err := compress(want.program)
	if err == nil {
		p.sum, p.data = want.sum, data
	}
	return data, err
}

// compress makes the copy about a third as long. It uses the fastest level: on one core that
// keeps up with a link of some 400 Mbit/s, and waits are noticeable only on slower links.
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
