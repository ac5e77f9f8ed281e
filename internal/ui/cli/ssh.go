package cli

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"linerate/internal/app"
	"linerate/internal/app/target"
)

// sshFlags say how to reach hosts over ssh.
type sshFlags struct {
	sudo, keep, trust bool
	keepFlag          *pflag.Flag
}

// keeping returns the user's choice about the program on the far host: none, that it stays, or
// that it is removed.
func (f *sshFlags) keeping() target.Keep {
	switch {
	case f.keepFlag == nil || !f.keepFlag.Changed:
		return target.KeepAsRemembered
	case f.keep:
		return target.KeepAgent
	}
	return target.RemoveAgent
}

func (f *sshFlags) bind(s *pflag.FlagSet) {
	s.BoolVar(&f.sudo, "sudo", false, "over ssh: run the far agent as root, by sudo")
	s.BoolVar(&f.trust, "trust-far-binary", false, "over ssh: run as root a linerate of the far host that cannot be checked")
	s.BoolVar(&f.keep, "keep-agent", false, "over ssh: leave a copy of linerate in the far ~/.cache, for the next time, or with =false remove it (default: asked once, and remembered)")
	f.keepFlag = s.Lookup("keep-agent")
}

// openTTY opens the terminal of this process, whatever its standard input is.
func openTTY() (*os.File, error) {
	if runtime.GOOS == "windows" {
		return os.OpenFile("CONIN$", os.O_RDWR, 0)
	}
	return os.OpenFile("/dev/tty", os.O_RDWR, 0)
}

// askPassword reads a line from the terminal without showing it.
func (a *console) askPassword(ctx context.Context, prompt string) ([]byte, error) {
	tty, err := openTTY()
	if err != nil {
		return nil, app.ErrNoTerminal
	}
	defer tty.Close()
	fd := int(tty.Fd())
	before, err := term.MakeRaw(fd) // before the prompt, so that fast typing is not echoed
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
