//go:build unix

package atboot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/confined"
	"linerate/internal/must"
)

// kinds are the ways in which systems run a job at boot, with what exists beforehand: a name
// that ends in a slash is a directory, the others are programs of the test.
var kinds = map[string]struct {
	choose func(Keeper) (job, error)
	there  []string
	job    []string // paths that it consists of
}{
	"systemd": {linuxJob, []string{"run/systemd/system/", "usr/bin/systemctl", "etc/cron.d/"},
		[]string{"etc/systemd/system/linerate-undo.service", "etc/systemd/system/multi-user.target.wants/linerate-undo.service"}},
	"openrc":   {linuxJob, []string{"etc/local.d/", "etc/runlevels/default/local", "etc/cron.d/", "usr/sbin/crond"}, []string{"etc/local.d/linerate-undo.start"}},
	"rc.local": {linuxJob, []string{"etc/local.d/", "etc/rc.local.d/"}, []string{"etc/rc.local.d/linerate-undo"}},
	"cron":     {linuxJob, []string{"etc/cron.d/", "usr/sbin/cron"}, []string{"etc/cron.d/linerate-undo"}},
	"freebsd":  {freebsdJob, []string{"usr/local/etc/"}, []string{"usr/local/etc/rc.d/linerate_undo"}},
	"darwin":   {darwinJob, []string{"Library/LaunchDaemons/"}, []string{"Library/LaunchDaemons/linerate-undo.plist"}},
	"windows":  {windowsJob, []string{"System32/schtasks.exe"}, []string{"task"}},
}

// systemctl answers like the real one, and only if the link is right.
const systemctl = `#!/bin/sh
d=$(dirname "$0")/../../etc/systemd/system
[ "$*" = "is-enabled linerate-undo.service" ] || { echo "what is $*?"; exit 2; }
[ "$(readlink "$d/multi-user.target.wants/$2")" = ../$2 ] && [ -f "$d/$2" ] || { echo disabled; exit 1; }
echo enabled
`

// schtasksText keeps one task in the root's file "task". Like the real one it has one error
// for everything, and rewrites definitions.
const schtasksText = `#!/bin/sh
f=$(dirname "$0")/../task
case "$*" in
"/Query /TN linerate-undo /XML") [ -f "$f" ] || { echo "nicht gefunden" >&2; exit 1; }; echo "<!-- mine -->"; cat "$f";;
"/Query /FO CSV /NH") echo '"\another","N/A","Ready"'; [ -f "$f" ] && echo '"\linerate-undo","N/A","Ready"'; exit 0;;
"/Create /TN linerate-undo /XML "*) [ -f "$f" ] && exit 1; cp "$5" "$f.new" && mv "$f.new" "$f";;
"/Delete /TN linerate-undo /F") [ -f "$f" ] || exit 1; rm "$f";;
*) echo "what is $*?" >&2; exit 2;;
esac
`

// keeper returns a machine of a kind with a linerate that is a few words long.
func keeper(t *testing.T, kind string) Keeper {
	t.Helper()
	root := t.TempDir()
	for _, name := range kinds[kind].there {
		path := filepath.Join(root, name)
		if strings.HasSuffix(name, "/") {
			must.Do(t, os.MkdirAll(path, 0o755))
			continue
		}
		text := map[string]string{"systemctl": systemctl, "schtasks.exe": schtasksText}[filepath.Base(name)]
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)))
	}
	if kind == "windows" {
		t.Setenv("SystemRoot", root)
	}
	words(t, filepath.Join(root, "words"))
	return Keeper{State: t.TempDir(), Root: root, Program: filepath.Join(root, "words"), choose: kinds[kind].choose}
}

// tree lists everything below the root and the state directory.
func (k Keeper) tree(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range []string{k.Root, k.State} {
		must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			text, _ := os.Readlink(path)
			if info.Mode().IsRegular() {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				text = string(b)
			}
			all[path] = fmt.Sprintf("%v %q", info.Mode(), text)
			return nil
		}))
	}
	return all
}

func install(t *testing.T, k Keeper) string {
	t.Helper()
	return must.Get(k.Install(t.Context()))(t)
}

// TestInstallAndRemove leaves nothing behind.
func TestInstallAndRemove(t *testing.T) {
	for kind, c := range kinds {
		t.Run(kind, func(t *testing.T) {
			k := keeper(t, kind)
			before := k.tree(t)
			if r, err := k.Remove(t.Context()); r != nil || err != nil {
				t.Errorf("nothing to remove: %v, %v", r, err)
			}
			name := install(t, k)
			must.True(t, name != "" && Installed(k.State), "name %q", name)
			for _, path := range c.job {
				must.OK(t, must.Err(os.Lstat(filepath.Join(k.Root, path))))
			}
			b := must.Get(os.ReadFile(k.program()))(t)
			must.True(t, strings.HasPrefix(string(b), "#!/bin/sh"), "the copy: %q", b)
			after := k.tree(t)
			must.Equal(t, install(t, k), "", "installed twice")
			must.NoDiff(t, cmp.Diff(after, k.tree(t)), "a second Install changed something")
			r := must.Get(k.Remove(t.Context()))(t)
			must.True(t, r != nil && r.Name == name && len(r.Left) == 0 && r.String() == "removed "+name, "Remove = %+v", r)
			diff := cmp.Diff(before, k.tree(t))
			must.True(t, diff == "" && !Installed(k.State), "%v", diff)
		})
	}
}

// TestUmask: the files have the mode that the system wants under every umask.
func TestUmask(t *testing.T) {
	k := keeper(t, "openrc")
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	info, err := os.Stat(install(t, k))
	must.True(t, err == nil && info.Mode().Perm() == 0o755, "%v, %v", info.Mode(), err)
}

// TestNowhere: the error lists what was tried.
func TestNowhere(t *testing.T) {
	k := keeper(t, "")
	k.choose = linuxJob
	before := k.tree(t)
	must.Do(t, os.MkdirAll(filepath.Join(k.Root, "usr/sbin"), 0o755))
	_, err := k.Install(t.Context())
	must.True(t, errors.Is(err, errors.ErrUnsupported) && strings.Contains(err.Error(), "no systemd, no /etc/local.d"), "%v", err)
	must.Do(t, os.RemoveAll(filepath.Join(k.Root, "usr")))
	must.NoDiff(t, cmp.Diff(before, k.tree(t)))
	busybox := filepath.Join(k.Root, "bin/busybox")
	must.Do(t, errors.Join(os.MkdirAll(filepath.Join(k.Root, "etc/cron.d"), 0o755), os.MkdirAll(filepath.Join(k.Root, "usr/sbin"), 0o755),
		os.MkdirAll(filepath.Dir(busybox), 0o755), os.WriteFile(busybox, nil, 0o755), os.Symlink(busybox, filepath.Join(k.Root, "usr/sbin/crond"))))
	must.Is(t, must.Err(k.Install(t.Context())), errors.ErrUnsupported, "the cron of busybox reads no /etc/cron.d")
}

// TestTaken: another program's file with the name of the job stays, and so does everything
// else.
func TestTaken(t *testing.T) {
	for kind, c := range kinds {
		for i, path := range c.job {
			t.Run(fmt.Sprint(kind, i), func(t *testing.T) {
				k := keeper(t, kind)
				path := filepath.Join(k.Root, path)
				must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("theirs"), 0o640)))
				before := k.tree(t)
				must.Is(t, must.Err(k.Install(t.Context())), ErrTaken, "Install")
				must.NoDiff(t, cmp.Diff(before, k.tree(t)))
			})
		}
	}
}

// TestTakenMeanwhile: so does a file that appears between the check and the creation.
func TestTakenMeanwhile(t *testing.T) {
	for kind, c := range kinds {
		for i, path := range c.job {
			t.Run(fmt.Sprint(kind, i), func(t *testing.T) {
				k := keeper(t, kind)
				path := filepath.Join(k.Root, path)
				done := false
				k.After = func(string) {
					if _, err := os.Stat(filepath.Dir(path)); err == nil && !done {
						done = true
						must.OK(t, os.WriteFile(path, []byte("theirs"), 0o640))
					}
				}
				_, err := k.Install(t.Context())
				must.True(t, err != nil && (kind == "windows" || errors.Is(err, ErrTaken)), "Install: %v", err)
				b := must.Get(os.ReadFile(path))(t)
				must.True(t, string(b) == "theirs", "%q", b)
				must.True(t, !Installed(k.State), "something of it is left")
			})
		}
	}
}

// TestOtherState: the job of another journal is not this one's.
func TestOtherState(t *testing.T) {
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			k := keeper(t, kind)
			install(t, k)
			before := k.tree(t)
			other := k
			other.State = t.TempDir()
			must.Is(t, must.Err(other.Install(t.Context())), ErrTaken, "Install")
			r, err := other.Remove(t.Context())
			must.True(t, r == nil && err == nil, "Remove: %+v, %v", r, err)
			must.NoDiff(t, cmp.Diff(before, k.tree(t)))
		})
	}
}

// TestChanged: a changed piece stays and is named, the rest is removed.
func TestChanged(t *testing.T) {
	for kind, c := range kinds {
		for i, path := range c.job {
			t.Run(fmt.Sprint(kind, i), func(t *testing.T) {
				k := keeper(t, kind)
				before := k.tree(t)
				install(t, k)
				path := filepath.Join(k.Root, path)
				must.Do(t, errors.Join(os.Remove(path), os.WriteFile(path, []byte("theirs"), 0o640)))
				r := must.Get(k.Remove(t.Context()))(t)
				must.Need(t, r != nil && len(r.Left) == 1 && strings.Contains(r.String(), "changed by another program"), "Remove = %+v", r)
				b := must.Get(os.ReadFile(path))(t)
				must.True(t, string(b) == "theirs", "%q", b)
				must.Do(t, os.Remove(path))
				if dir := filepath.Dir(path); before[dir] == "" {
					for ; before[dir] == ""; dir = filepath.Dir(dir) {
						must.OK(t, os.Remove(dir))
					}
				}
				must.NoDiff(t, cmp.Diff(before, k.tree(t)))
			})
		}
	}
}

// TestDisabled: a systemd that will not start the unit is no place for a job.
func TestDisabled(t *testing.T) {
	k := keeper(t, "systemd")
	must.Do(t, os.WriteFile(filepath.Join(k.Root, "usr/bin/systemctl"), []byte("#!/bin/sh\necho masked\nexit 1\n"), 0o755))
	before := k.tree(t)
	must.Say(t, must.Err(k.Install(t.Context())), `"masked"`)
	must.NoDiff(t, cmp.Diff(before, k.tree(t)))
	must.Do(t, os.Remove(filepath.Join(k.Root, "usr/bin/systemctl")))
	install(t, k) // no systemd to ask
}

// TestUntrusted: the system runs nothing as root that other users could replace.
func TestUntrusted(t *testing.T) {
	k := keeper(t, "cron")
	must.Do(t, os.Chmod(k.State, 0o777))
	must.Is(t, must.Err(k.Install(t.Context())), ErrUntrusted, "writable by all")
	must.Do(t, os.Chmod(k.State, fs.ModeSticky|0o777)) // as /tmp
	must.Is(t, must.Err(k.Install(t.Context())), ErrUntrusted, "where anybody may be first")
	must.Do(t, os.Chmod(k.State, 0o700))
	install(t, k)
	must.OK(t, must.Err(k.Remove(t.Context())))
	must.SkipIf(t, os.Geteuid() != 0, "no other user without root")
	err := os.Chown(k.State, 12, 34)
	must.SkipIf(t, err != nil, "%v", err)
	must.Is(t, must.Err(k.Install(t.Context())), ErrUntrusted, "of another user")
}

// TestDamagedRecord fails, and removes nothing.
func TestDamagedRecord(t *testing.T) {
	k := keeper(t, "cron")
	install(t, k)
	must.Do(t, os.WriteFile(filepath.Join(k.dir(), recordName), []byte(`{"pieces":[{"path":"/etc/passwd","sha256":"x"}]}`), 0o600))
	before := k.tree(t)
	must.Is(t, must.Err(k.Remove(t.Context())), fs.ErrInvalid)
	must.Is(t, must.Err(k.Install(t.Context())), fs.ErrInvalid)
	must.NoDiff(t, cmp.Diff(before, k.tree(t)))
}

// crashVar makes a test process work on a machine and kill itself after a number of steps:
// "install 3 KIND ROOT STATE".
const crashVar = "LINERATE_TEST_ATBOOT_CRASH"

// TestSystemFails: a system that refuses leaves nothing behind, and a failed removal can be
// repeated later.
func TestSystemFails(t *testing.T) {
	k := keeper(t, "windows")
	program := filepath.Join(k.Root, "System32/schtasks.exe")
	refuse := func(what string) {
		text := strings.Replace(schtasksText, "case", `case "$*" in `+what+`*) echo denied >&2; exit 1;; esac; case`, 1)
		must.Do(t, os.WriteFile(program, []byte(text), 0o755))
	}
	refuse("/Create")
	before := k.tree(t)
	must.Say(t, must.Err(k.Install(t.Context())), "denied")
	must.NoDiff(t, cmp.Diff(before, k.tree(t)))
	refuse("/None")
	install(t, k)
	refuse("/Delete")
	_, err := k.Remove(t.Context())
	must.True(t, err != nil && strings.Contains(err.Error(), "denied") && Installed(k.State), "%v", err)
	refuse("/Query")
	_, err = k.Remove(t.Context())
	must.True(t, err != nil && Installed(k.State), "a task of which nothing is known was taken for gone: %v", err)
	refuse("/None")
	r := must.Get(k.Remove(t.Context()))(t)
	must.True(t, r != nil, "%v", r)
}

// TestRunningProgram: by default the copy is this very program.
func TestRunningProgram(t *testing.T) {
	k := keeper(t, "cron")
	k.Program = ""
	install(t, k)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := must.Get(exec.CommandContext(ctx, k.program(), "-test.list=TestRunningProgram").Output())(t)
	must.True(t, slices.Contains(strings.Fields(string(out)), "TestRunningProgram"), "%s", out)
}

// TestCrashChild is the process that is killed.
func TestCrashChild(t *testing.T) {
	w := strings.Fields(os.Getenv(crashVar))
	must.SkipIf(t, len(w) != 5, "started by TestKill")
	left, err := strconv.Atoi(w[1])
	must.Do(t, err)
	k := Keeper{State: w[4], Root: w[3], Program: filepath.Join(w[3], "words"), choose: kinds[w[2]].choose, After: confined.KillAt(left)}
	if w[0] == "install" {
		_, err = k.Install(t.Context())
	} else {
		_, err = k.Remove(t.Context())
	}
	must.Do(t, err)
}

// TestKill kills Install, and Remove, after every one of their steps. Remove then leaves the
// machine as it was; Install completes the job.
func TestKill(t *testing.T) {
	for _, kind := range []string{"systemd", "windows"} {
		for _, what := range []string{"install", "remove"} {
			steps := 0
			for killed := true; killed; {
				steps++
				k := keeper(t, kind)
				before := k.tree(t)
				if what == "remove" {
					install(t, k)
				}
				killed = confined.Killed(t, "TestCrashChild", fmt.Sprintf("%s=%s %d %s %s %s", crashVar, what, steps, kind, k.Root, k.State))
				when := fmt.Sprintf("%s: %s killed after %d steps", kind, what, steps)
				if steps%2 == 0 { // the other half without it
					install(t, k)
					for _, path := range kinds[kind].job {
						must.OK(t, must.Err(os.Lstat(filepath.Join(k.Root, path))), "%s", when)
					}
				}
				must.OK(t, must.Err(k.Remove(t.Context())), "%s", when)
				must.NoDiff(t, cmp.Diff(before, k.tree(t)), "%s", when)
			}
			must.True(t, steps >= 5, "%s, %s: %d steps only: the test looks at nothing", kind, what, steps)
		}
	}
}
