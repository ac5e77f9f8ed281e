package filecopy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/files"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// fullTask makes the test binary the child of TestFull, in a mount namespace of its own.
const fullTask = "LINERATE_FILECOPY_FULL"

// TestFull runs TestFullChild if it may mount a small private file system.
func TestFull(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullChild$", "-test.v")
	cmd.Env = append(os.Environ(), fullTask+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	must.SkipIf(t, errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC), "no user namespaces here: %v", err)
	must.True(t, err == nil && bytes.Contains(out, []byte("--- PASS: TestFullChild")), "%v\n%s", err, out)
}

// TestFullChild fills a file system in the middle of a copy.
func TestFullChild(t *testing.T) {
	dir, ok := os.LookupEnv(fullTask)
	must.SkipIf(t, !ok, "is what the child process of TestFull runs")
	must.Dof(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=80m"), "mount")
	defer func() { _ = unix.Unmount(dir, 0) }()
	h := newHome(t)
	t.Run("from the start", func(t *testing.T) {
		f := flow(files.Params{Sink: dir})
		f.Bytes = 32 << 20
		a, b := enginetest.Prepare(t, h.Engine, enginetest.NewWire(t), f)
		_ = enginetest.Conduct(t, a, b, model.To)
		must.True(t, b.Err != nil && strings.Contains(b.Err.Error(), "do not fit") && a.Err != nil, "near %v, far %v", a.Err, b.Err)
	})
	t.Run("in the middle", func(t *testing.T) {
		f := flow(files.Params{Sink: dir})
		f.Bytes = 8 << 20
		p := script(t, h.Engine, f)
		p.begin(t, int64(f.Bytes))
		fillUp(t, dir)
		go func() { _, _ = io.CopyN(p.TCPConn, newData(1), int64(f.Bytes)) }()
		var said *errPeer
		_, err := readMessage(p.TCPConn, kindDone)
		must.True(t, errors.As(err, &said) && strings.Contains(said.text, "no space left"), "the sender gets %v", err)
		p.TCPConn.Close()
		must.Wait(t, "receiver", p.Done)
		must.True(t, errors.Is(p.Err, syscall.ENOSPC) && strings.Contains(p.Err.Error(), "free"), "error %v", p.Err)
		must.Len(t, left(t, dir), 1, "files")
	})
}

// fillUp fills the file system of dir.
func fillUp(t *testing.T, dir string) {
	t.Helper()
	f := must.Get(os.Create(filepath.Join(dir, "filler")))(t)
	defer f.Close()
	n, err := io.Copy(f, newData(2))
	must.Need(t, errors.Is(err, syscall.ENOSPC), "filled with %d bytes: %v", n, err)
}
