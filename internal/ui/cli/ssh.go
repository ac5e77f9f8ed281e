package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"linerate/internal/app"
	"linerate/internal/app/here"
	"linerate/internal/control/deploy"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/ssh"
)

// sshFlags say how hosts are reached over ssh.
type sshFlags struct {
	sudo, keep, trust bool
	// passwords of sudo, by target, until the command ends: a connection that
	// was lost is made anew without a person.
	passwords map[string][]byte
}

func (f *sshFlags) bind(s *pflag.FlagSet) {
	s.BoolVar(&f.sudo, "sudo", false, "over ssh: run the far agent as root, by sudo")
	s.BoolVar(&f.trust, "trust-far-binary", false, "over ssh: run as root a linerate of the far host that nobody here can check")
	s.BoolVar(&f.keep, "keep-agent", false, "over ssh: leave a copy of linerate in the far ~/.cache, for the next time")
}

// parseSSH reads user@host or ssh://...
func parseSSH(s string) (target, error) {
	t, err := ssh.ParseTarget(s)
	if err != nil {
		return target{}, withHint(app.WithKind(app.Usage, err), "write user@host, or ssh://user@host:port; ssh://host takes the user from ssh's configuration")
	}
	return target{kind: targetSSH, text: s, ssh: t}, nil
}

// dialSSH starts an agent on a host over the user's own ssh.
func (a *console) dialSSH(ctx context.Context, t target) (wire.Peer, error) {
	shell, err := ssh.Dial(ctx, t.ssh, ssh.Options{Command: strings.Fields(a.Getenv("LINERATE_SSH")), Stderr: here.Lines(a.world(), t.ssh.Host)})
	if err != nil {
		return wire.Peer{}, sshFault(err)
	}
	o := deploy.Options{
		Self: a.Self[0], Version: a.Version, Sudo: a.ssh.sudo, Keep: a.ssh.keep, TrustFar: a.ssh.trust, Flags: a.agentFlags(),
		Copying: func(bytes int) {
			a.talk("copying linerate to %s (%.1f MB)", t.ssh.Host, float64(bytes)/1e6)
		},
	}
	if tty, err := openTTY(); err == nil {
		_ = tty.Close()
		o.Password = a.sudoPassword(ctx, t.text)
	}
	peer, err := deploy.Agent(ctx, shell, o)
	if err != nil {
		return wire.Peer{}, sshFault(err)
	}
	return peer, nil
}

// sshFlagsFit demands that the flags for ssh are about somebody.
func (a *console) sshFlagsFit(near, far target) error {
	if (a.ssh.sudo || a.ssh.keep || a.ssh.trust) && near.kind != targetSSH && far.kind != targetSSH {
		return usagef("--sudo, --keep-agent and --trust-far-binary are for hosts that are reached over ssh, as in user@host")
	}
	return nil
}

// warn notes what the user should know of the way to a host, once.
func (e *ends) warn(warnings []string) {
	for _, w := range warnings {
		if !slices.Contains(e.warnings, w) {
			e.app.talk("%s", w)
			e.warnings = append(e.warnings, w)
		}
	}
}

// sshFault gives an error of the way to a host its exit code and hint.
func sshFault(err error) error {
	if errors.Is(err, context.Canceled) {
		return app.WithKind(app.Interrupted, err)
	}
	if problem, ok := errors.AsType[*deploy.Problem](err); ok {
		kind := app.Unreachable
		if errors.Is(err, errors.ErrUnsupported) {
			kind = app.Unsupported
		}
		return withHint(app.WithKind(kind, err), "%s", problem.Hint)
	}
	err = app.WithKind(app.Unreachable, err)
	if failure, ok := errors.AsType[*ssh.Failure](err); ok && failure.Hint != "" {
		return withHint(err, "%s", failure.Hint)
	}
	return err
}

// openTTY opens the terminal of this process, whatever its standard input is.
func openTTY() (*os.File, error) {
	if runtime.GOOS == "windows" {
		return os.OpenFile("CONIN$", os.O_RDWR, 0)
	}
	return os.OpenFile("/dev/tty", os.O_RDWR, 0)
}

// sudoPassword returns the password that was given for a target before, and asks
// on the terminal when there is none, or it was wrong. The caller may clear what
// it gets.
func (a *console) sudoPassword(ctx context.Context, target string) func(host string) ([]byte, error) {
	remembered := a.ssh.passwords[target]
	return func(host string) ([]byte, error) {
		password := remembered
		if remembered = nil; password == nil {
			var err error
			if password, err = a.askPassword(ctx, "password of sudo on "+host+": "); err != nil {
				return nil, err
			}
		}
		if a.ssh.passwords == nil {
			a.ssh.passwords = map[string][]byte{}
		}
		a.ssh.passwords[target] = slices.Clone(password)
		return password, nil
	}
}

// askPassword reads a line from the terminal without showing it.
func (a *console) askPassword(ctx context.Context, prompt string) ([]byte, error) {
	tty, err := openTTY()
	if err != nil {
		return nil, err
	}
	defer tty.Close()
	fd := int(tty.Fd())
	before, err := term.MakeRaw(fd) // before the prompt: who types fast must not see it
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = term.Restore(fd, before)
		fmt.Fprintln(a.Err)
	}()
	fmt.Fprint(a.Err, prompt)
	type typed struct {
		password []byte
		err      error
	}
	done := make(chan typed, 1)
	go func() {
		p, err := term.ReadPassword(fd)
		done <- typed{p, err}
	}()
	select {
	case got := <-done:
		return got.password, got.err
	case <-ctx.Done():
		return nil, ctx.Err() // the reader stays in its call until the program ends
	}
}

// removeSelf removes the program that is running, and its directory, which is
// dir: what was copied here for one session. Nothing else is ever removed.
func (a *console) removeSelf(dir string) {
	if dir == "" || filepath.Dir(a.Self[0]) != filepath.Clean(dir) {
		return
	}
	_ = os.Remove(a.Self[0])
	_ = os.Remove(dir) // only when empty
}
