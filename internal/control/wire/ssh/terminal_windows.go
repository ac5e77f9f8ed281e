package ssh

import (
	"os"
	"os/exec"
)

// terminal is this process's console, on which ssh may prompt.
type terminal struct{ has bool }

// openTerminal checks whether there is a console.
func openTerminal() *terminal {
	console, err := os.OpenFile("CONIN$", os.O_RDWR, 0)
	if err == nil {
		_ = console.Close()
	}
	return &terminal{has: err == nil}
}

// asks reports whether ssh has a console or an askpass program to prompt on.
func (t *terminal) asks() bool { return t.has || os.Getenv("SSH_ASKPASS") != "" }

// file returns nil: all processes of a console may read from it.
func (t *terminal) file() *os.File { return nil }

// takeBack does nothing.
func (t *terminal) takeBack() {}

// interrupted returns false: Windows does not distinguish Ctrl-C from other ends of a child.
func interrupted(*exec.ExitError) bool { return false }
