package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/store"
	"linerate/internal/store/sqlite"
)

func runLinuxChild(ctx context.Context, job, path string) error {
	switch job {
	case "full":
		return fillDisk(ctx, path)
	case "denied":
		return openDenied(ctx, path)
	case "read-only":
		if err := syscall.Mount("tmpfs", path, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
			return err
		}
		return openDenied(ctx, path)
	}
	return fmt.Errorf("no job %q", job)
}

// fillDisk mounts a tiny file system at dir and stores runs until it is full.
func fillDisk(ctx context.Context, dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		return err
	}
	s, err := sqlite.Open(ctx, filepath.Join(dir, "results.db"))
	if err != nil {
		return err
	}
	if err := s.CreateSession(ctx, model.Session{ID: "full"}); err != nil {
		return err
	}
	n := 1
	for ; err == nil && n < 1000; n++ {
		err = addRun(ctx, s, "full", n)
	}
	switch {
	case !errors.Is(err, store.ErrFull):
		return fmt.Errorf("run %d: %w, want store.ErrFull", n-1, err)
	case !strings.Contains(err.Error(), "--db PATH"):
		return fmt.Errorf("%w: says not what to do", err)
	}
	sess, err := s.Session(ctx, "full")
	if err != nil {
		return err
	}
	if len(sess.Runs) != n-2 || n < 3 {
		return fmt.Errorf("%d runs stored before the disk was full, %d read", n-2, len(sess.Runs))
	}
	for _, r := range sess.Runs {
		if samples, err := s.Samples(ctx, "full", r.Number); err != nil || len(samples) != samplesPerRun {
			return fmt.Errorf("run %d: %d samples, %w", r.Number, len(samples), err)
		}
	}
	// With room again, the same store continues.
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=8m"); err != nil {
		return err
	}
	return errors.Join(addRun(ctx, s, "full", n), s.Close())
}

// openDenied demands an error with the reason and a remedy.
func openDenied(ctx context.Context, dir string) error {
	for _, path := range []string{filepath.Join(dir, "results.db"), filepath.Join(dir, "new", "results.db")} {
		s, err := sqlite.Open(ctx, path)
		switch {
		case err == nil:
			return errors.Join(errors.New("opened "+path), s.Close())
		case !errors.Is(err, fs.ErrPermission):
			return fmt.Errorf("%w: does not wrap fs.ErrPermission", err)
		case !strings.Contains(err.Error(), "--db :memory:"):
			return fmt.Errorf("%w: does not say that memory works", err)
		}
	}
	return nil
}

// inNamespace runs job in a separate user and mount namespace, as user uid there, and skips the
// test where the system does not allow one.
func inNamespace(t *testing.T, job, dir string, uid int) {
	t.Helper()
	start := func(job string) ([]byte, error) {
		cmd := child(t, job, dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getgid(), Size: 1}},
		}
		return cmd.CombinedOutput()
	}
	out, err := start(job)
	exit := new(exec.ExitError)
	must.SkipIf(t, err != nil && !errors.As(err, &exit), "user and mount namespaces are not available: %v", err)
	must.Need(t, err == nil, "%s: %v: %s", job, err, out)
}

func TestFullDisk(t *testing.T) { inNamespace(t, "full", t.TempDir(), 0) }

func TestReadOnlyFileSystem(t *testing.T) { inNamespace(t, "read-only", t.TempDir(), 0) }

// TestReadOnlyFolder runs as an ordinary user, since root may write anywhere.
func TestReadOnlyFolder(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Chmod(dir, 0o500))
	inNamespace(t, "denied", dir, 1000)
}
