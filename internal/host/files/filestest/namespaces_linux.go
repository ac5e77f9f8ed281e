package filestest

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// InNamespaces runs cmd in a network and a mount namespace of its own, and returns its first
// line, the rest of its output, and its stderr. It skips t if this process may not make any.
func InNamespaces(t *testing.T, cmd *exec.Cmd) (first, rest, stderr string) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	var talk strings.Builder
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Skipf("no namespaces for it: %v", err)
	}
	if err != nil {
		t.Fatalf("%s%v", &talk, err)
	}
	first, rest, _ = strings.Cut(string(out), "\n")
	return first, rest, talk.String()
}
