package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"linerate/internal/host/sandbox"
	"linerate/internal/must"
)

// childVar has this test binary give up its rights and report what it can still do.
const childVar = "LINERATE_SANDBOX_TEST"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVar); dir != "" {
		if err := json.NewEncoder(os.Stdout).Encode(child(dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// left is what a child can still do.
type left struct {
	Dropped, NoNewPrivileges, Confined string // errors
	UID                                int
	Status                             []string // of all threads: user, groups, capabilities, no_new_privs
	Opened                             map[string]string
	Exec                               string
}

func child(dir string) left {
	l := left{Opened: map[string]string{}}
	say := func(err error) string {
		switch {
		case err == nil:
			return ""
		case errors.Is(err, errors.ErrUnsupported):
			return "unsupported: " + err.Error()
		case errors.Is(err, fs.ErrPermission):
			return "permission"
		}
		return err.Error()
	}
	hold := make(chan struct{}) // some threads that exist before the drop
	var started sync.WaitGroup
	for range 4 {
		started.Add(1)
		go func() {
			runtime.LockOSThread()
			started.Done()
			<-hold
		}()
	}
	started.Wait()
	defer close(hold)
	if sandbox.IsRoot() {
		u, err := sandbox.Choose("", dir)
		if err == nil {
			err = sandbox.Drop(u)
		}
		l.Dropped = say(err)
	}
	l.NoNewPrivileges = say(sandbox.NoNewPrivileges())
	_, err := sandbox.Confine(sandbox.Files{Read: []string{"/proc", filepath.Join(dir, "read"), "/no/such/path"}, Write: []string{filepath.Join(dir, "write")}})
	l.Confined = say(err)
	l.UID = os.Getuid()
	threads, _ := filepath.Glob("/proc/self/task/*/status")
	for _, name := range threads {
		b, _ := os.ReadFile(name)
		for line := range strings.Lines(string(b)) {
			if word, _, _ := strings.Cut(line, ":"); word == "Uid" || word == "Gid" || word == "CapEff" || word == "CapPrm" || word == "NoNewPrivs" {
				l.Status = append(l.Status, strings.Join(strings.Fields(line), " "))
			}
		}
	}
	for _, name := range []string{"read/file", "write/file", "other/file"} {
		f, err := os.Open(filepath.Join(dir, name))
		if l.Opened[name] = say(err); err == nil {
			_ = f.Close()
		}
	}
	for _, name := range []string{"read/new", "write/new", "other/new"} {
		l.Opened[name] = say(os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	l.Exec = say(exec.CommandContext(context.Background(), "/bin/true").Run())
	return l
}

// TestRightsAreGone has a process give up its rights and then attempt what it must not do.
func TestRightsAreGone(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} { // readable for another user
		must.Do(t, os.Chmod(d, 0o755))
	}
	for _, name := range []string{"read", "write", "other"} {
		folder := filepath.Join(dir, name)
		must.Do(t, errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, 0o777), os.WriteFile(filepath.Join(folder, "file"), nil, 0o600), os.Chmod(filepath.Join(folder, "file"), 0o666)))
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+dir)
	out, err := cmd.Output()
	must.Need(t, err == nil, "%v: %s", err, out)
	var l left
	must.Do(t, json.Unmarshal(out, &l))
	if strings.HasPrefix(l.NoNewPrivileges, "unsupported") {
		t.Skip("built with cgo, which has threads that Go does not know: ", l.NoNewPrivileges)
	}
	must.Equal(t, l.NoNewPrivileges, "")
	for _, s := range l.Status {
		bad := s == "NoNewPrivs: 0"
		if sandbox.IsRoot() {
			bad = bad || strings.HasPrefix(s, "Cap") && !strings.HasSuffix(s, " 0000000000000000") || strings.Contains(s+" ", " 0 ") && strings.Contains(s, "id:")
		}
		must.True(t, !bad, "a thread has %s", s)
	}
	must.True(t, !sandbox.IsRoot() || l.Dropped == "" && l.UID >= 61184, "user %d, %s", l.UID, l.Dropped)
	if strings.HasPrefix(l.Confined, "unsupported") {
		t.Skip("TestRightsAreGone: files: ", l.Confined)
	}
	want := map[string]string{"read/file": "", "read/new": "permission", "write/file": "", "write/new": "", "other/file": "permission", "other/new": "permission"}
	must.True(t, fmt.Sprint(l.Opened) == fmt.Sprint(want) && l.Confined == "" && l.Exec == "permission", "%+v", l)
}

func TestChoose(t *testing.T) {
	a, err := sandbox.Choose("", "/var/lib/linerate")
	must.SkipIf(t, errors.Is(err, sandbox.ErrNoOtherUser), "%v", err)
	b, _ := sandbox.Choose("", "/var/lib/linerate")
	must.True(t, err == nil && a == b && a.UID >= 61184 && a.UID <= 65519 && a.UID == a.GID, "%+v, %+v, %v", a, b, err)
	for _, bad := range []string{"root", "0", "no-such-user"} {
		must.Fail(t, must.Err(sandbox.Choose(bad, "")), "%s", bad)
	}
	must.Fail(t, sandbox.Drop(sandbox.User{}), "the zero user is taken")
}
