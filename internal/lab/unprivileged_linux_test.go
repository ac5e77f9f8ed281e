package lab

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"linerate/internal/must"
)

// nobody is the unprivileged user of the test.
const nobody = 65534

// TestUnprivileged runs other tests of this package as a user without rights.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user; the other tests run unprivileged as it is")
	}
	as := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		return cmd.CombinedOutput()
	}
	if out, err := as("peer", "probe"); err != nil {
		t.Skipf("an unprivileged user may not have virtual hosts here: %s", bytes.TrimSpace(out))
	}
	out, err := as("-test.v", "-test.run", "^(TestDial|TestCloseLeavesNothing|TestKilledControllerLeavesNothing|TestFramesAreLostHeldBackAndDoubled)$")
	must.Need(t, err == nil, "%v\n%s", err, out)
	for _, name := range []string{"TestDial", "TestCloseLeavesNothing", "TestKilledControllerLeavesNothing", "TestFramesAreLostHeldBackAndDoubled/packet"} {
		must.Contain(t, string(out), "--- PASS: "+name+" ", "%s did not pass as uid %d", name, nobody)
	}
}
