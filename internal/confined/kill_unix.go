//go:build unix

package confined

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Killed runs the named test in a child process with a variable, in the form "NAME=text", and
// reports whether the child was killed before the test ended. Any other failure ends t.
func Killed(t *testing.T, test, variable string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), variable)
	out, err := cmd.CombinedOutput()
	exit, _ := errors.AsType[*exec.ExitError](err)
	if err != nil && (exit == nil || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
		t.Fatalf("%s: %v\n%s", variable, err, out)
	}
	return err != nil
}

// KillAt returns a hook that kills this process when it is called for the nth time, from 1.
func KillAt(nth int) func(step string) {
	return func(string) {
		if nth--; nth == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}
