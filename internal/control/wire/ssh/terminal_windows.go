package ssh

import (
	"os"
	"os/exec"
)

// terminal is the console of this process, where ssh may ask its user.
type terminal struct{ has bool }

// openTerminal finds out whether there is a console.
func openTerminal() *terminal {
	console, err := os.OpenFile("CONIN$", os.O_RDWR, 0)
	if err == nil {
		_ = console.Close()
	}
	return &terminal{has: err == nil}
}

// asks reports whether ssh can ask somebody.
func (t *terminal) asks() bool { return t.has || os.Getenv("SSH_ASKPASS") != "" }

// file is nil: all processes of a console may read from it.
func (t *terminal) file() *os.File { return nil }

// takeBack has nothing to do.
func (t *terminal) takeBack() {}

// interrupted reports whether a person ended a child with Ctrl-C, which Windows
// does not tell apart from other ends.
func interrupted(*exec.ExitError) bool { return false }
