package knobtest

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// childVar tells a test process that it runs inside the namespaces, and which test.
const childVar = "LINERATE_TEST_NAMESPACE"

// InNamespace runs test in a new process, in new network and mount namespaces, and reports its
// outcome: it starts the calling test t there, which then runs test.
//
// It needs a process because /proc/sys/net shows the namespace of the reading thread. Without
// root, it uses a user namespace; if the system allows neither, it skips the test.
func InNamespace(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(childVar) == t.Name() {
		test(t)
		return
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), childVar+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil {
		t.Skipf("this system allows no network namespace here: %v", err)
	}
	if err != nil {
		t.Errorf("in the namespace: %v\n%s", err, out)
	} else {
		t.Logf("in the namespace:\n%s", out)
	}
}

// PrivateMounts keeps later mounts of a test that runs InNamespace from reaching the machine.
// If the system allows none, it skips t.
func PrivateMounts(t *testing.T) {
	t.Helper()
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Skipf("this system allows no mount here: %v", err)
	}
}

// MountMemory mounts a file system in memory at dir for a test that runs InNamespace, or skips t.
func MountMemory(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	PrivateMounts(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, "mode=700,"+options); err != nil {
		t.Skipf("this system allows no mount here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
